// Package measure has the commands that measure. Each opens a session, which resolves its options,
// finds plugins and hosts and keeps an engine, and prints what a study or the engine made of it.
package measure

import (
	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
)

// Commands returns the commands that measure.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{
		runCommand(a), benchCommand(a), sweepCommand(a), abCommand(a), microCommand(a),
		reproduceCommand(a), stackCommand(a), c2cCommand(a), calibrateCommand(a),
	}
}
