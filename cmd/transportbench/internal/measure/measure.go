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
