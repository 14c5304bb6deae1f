package inspect

import (
	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/store/set"
)

// readSet reads a set and notes what is skipped.
func readSet(a *app.App, path string) (*set.Set, error) {
	s, err := consistency.ReadSet(path)
	if err != nil {
		return nil, app.BadInput(err)
	}
	for _, reason := range s.Skipped {
		a.Note("skipped: %s", reason)
	}
	return s, nil
}

// Commands returns the commands that read results.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{
		diffCommand(a), analyzeCommand(a), reportCommand(a), serveCommand(a), historyCommand(a),
		blessCommand(a), exportCommand(a),
	}
}
