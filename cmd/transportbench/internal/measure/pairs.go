package measure

import (
	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/comparison"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/compare/trial"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/store/set"
)

func calibratePairsCommand(a *app.App) *cobra.Command {
	var inject string
	cmd := &cobra.Command{
		Use:   "pairs SET SET SET...",
		Short: "Count the false verdicts of diff over all pairs of equal sets, and what it finds",
		Long: `pairs compares all pairs of sets that were measured at different times without a change
in between. Every verdict is a false one. Then it slows each transport of the newer set
down by --inject, and counts the pairs in which diff calls that transport worse. The
intervals count that pairs share sets. Beside the rates stands how far the machine
moved. scripts/equal-sets.sh measures such sets over hours.

` + app.ExitHelp,
		Example: `  transportbench calibrate pairs results/local/equal/*
  transportbench calibrate pairs --inject 5% --json night/1 night/2 night/3`,
		Args:              app.Takes(trial.Fewest, 0, "three or more sets"),
		ValidArgsFunction: complete.Directories,
		RunE: a.WithSettings(func(_ *cobra.Command, s *options.Settings, args []string) error {
			share, err := comparison.Share(inject)
			if err != nil || !(share > 0) {
				return app.Usagef("--inject: %q is not a share such as 10%%", inject)
			}
			sets := make([]*set.Set, len(args))
			for i, path := range args {
				if sets[i], err = consistency.ReadSet(path); err != nil {
					return app.BadInput(err)
				}
			}
			t, err := trial.Of(sets, compare.Defaults(), share)
			if err != nil {
				return err
			}
			if s.JSON {
				return app.WriteJSON(a.Stdout, t)
			}
			terminal.Print(a.Stdout, findings.Trial(t))
			return nil
		}),
	}
	options.AddJSON(cmd.Flags())
	cmd.Flags().StringVar(&inject, "inject", "10%", "how much longer operations take")
	return cmd
}
