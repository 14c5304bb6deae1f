package measure

import (
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/comparison"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/compare/trial"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/store/set"
)

func calibratePairsCommand(a *app.App) *cobra.Command {
	var inject, keep string
	var quiet, metrics []string
	cmd := &cobra.Command{
		Use:   "pairs SET SET SET...",
		Short: "Count the false verdicts of diff over all pairs of equal sets, and what it finds",
		Long: `pairs compares all pairs of sets that were measured at different times without a change
in between. Every verdict is a false one. Then it slows each transport of the newer set
down by --inject, and counts the pairs in which diff calls that transport worse. The
intervals count that pairs share sets. Beside the rates stands how far the machine
moved. --quiet-sets names the sets of a quiet machine, whose pairs also count alone.
--keep adds the outcome to a calibration of the machine: it shows both rates, and diff
claims no change that equal sets show. Fewer metrics are fewer tests, which find more:
--metric shows how much. scripts/equal-sets.sh measures such sets over hours.

` + app.ExitHelp,
		Example: `  transportbench calibrate pairs results/local/equal/*
  transportbench calibrate pairs --inject 5% --json night/1 night/2 night/3
  transportbench calibrate pairs --metric latency_p50 night/1 night/2 night/3
  transportbench calibrate pairs --quiet-sets sets/1,sets/2,sets/3 sets/*`,
		Args:              app.Takes(trial.Fewest, 0, "three or more sets"),
		ValidArgsFunction: complete.Directories,
		RunE: a.WithSettings(func(_ *cobra.Command, s *options.Settings, args []string) error {
			if keep != "" && len(metrics) > 0 {
				return app.Usagef("--keep is of the default metrics, by which diff uses it; " +
					"remove it or --metric")
			}
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
			isQuiet, err := named(quiet, args)
			if err != nil {
				return err
			}
			o := compare.Defaults()
			if o.Metrics, err = comparison.Metrics(metrics); err != nil {
				return err
			}
			t, err := trial.Of(sets, isQuiet, o, share)
			if err != nil {
				return err
			}
			if keep != "" {
				if err := keepPairs(keep, t, sets); err != nil {
					return err
				}
			}
			if s.JSON {
				return app.WriteJSON(a.Stdout, t)
			}
			terminal.Print(a.Stdout, findings.Trial(t))
			return nil
		}),
	}
	options.AddJSON(cmd.Flags())
	flags := cmd.Flags()
	comparison.AddMetrics(flags, &metrics)
	flags.StringVar(&inject, "inject", "10%", "how much longer operations take")
	flags.StringSliceVar(&quiet, "quiet-sets", nil, "the sets of a quiet machine, a comma list")
	flags.StringVar(&keep, "keep", "", "add the outcome to this calibration")
	return cmd
}

// named reports of each set whether it is in a list.
func named(list, sets []string) ([]bool, error) {
	in := make([]bool, len(sets))
	for _, name := range list {
		i := slices.IndexFunc(sets, func(path string) bool {
			return filepath.Clean(path) == filepath.Clean(name)
		})
		if i < 0 {
			return nil, app.Usagef("--quiet-sets: %q is not one of the sets", name)
		}
		in[i] = true
	}
	return in, nil
}

// keepPairs adds a trial of sets to the calibration at path, and to the copy of it in the user's
// state directory.
func keepPairs(path string, t *trial.Trial, sets []*set.Set) error {
	d, err := calibration.Read(path)
	if err == nil {
		err = d.KeepPairs(t.Kept(), sets[0].Machine(&sets[0].Cells[0]).Identity)
	}
	if err != nil {
		return app.BadInput(err)
	}
	copied, err := calibration.StatePath(d.Environment.Identity)
	if err == nil {
		if last, err := calibration.Read(copied); err == nil && last.ID == d.ID {
			if err := calibration.Write(copied, d); err != nil {
				return err
			}
		}
	}
	return calibration.Write(path, d)
}

// keepPairsOf adds what calibrate pairs has found on a machine to its next calibration, at path:
// the sets stay as they are.
func keepPairsOf(last, d *calibration.Document, path string) error {
	if last == nil || last.Pairs == nil {
		return nil
	}
	identity, err := set.Flatten(last.Environment.Identity)
	if err != nil || d.KeepPairs(last.Pairs, identity) != nil {
		return err // those of another machine do not count
	}
	return calibration.Write(path, d)
}
