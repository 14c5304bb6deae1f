package inspect

import (
	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
)

// Commands returns the commands that read results.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{
		diffCommand(a), analyzeCommand(a), reportCommand(a), serveCommand(a), historyCommand(a),
		blessCommand(a), exportCommand(a),
	}
}
