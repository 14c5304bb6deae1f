package inspect

import (
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/comparison"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/printable"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// historyFlags are those of commands that read a history.
type historyFlags struct {
	metrics []string
	floor   string
}

func (f *historyFlags) options() (history.Options, error) {
	o := history.Options{Metrics: comparison.Underscored(f.metrics)}
	var names []string
	for _, d := range result.Definitions {
		names = append(names, d.Name)
	}
	for _, name := range o.Metrics {
		if !slices.Contains(names, name) {
			return o, app.Usagef("--metric: there is no metric %q%s", name,
				suggest.For(name, names))
		}
	}
	var err error
	if o.Floor, err = comparison.Share(f.floor); err != nil || !(o.Floor >= 0 && o.Floor < 1) {
		return o, app.Usagef("--floor: %q is not a share such as 2%% or 0.02", f.floor)
	}
	return o, nil
}

// defaultFloor is the default of --floor.
const defaultFloor = "2%"

func historyCommand(a *app.App) *cobra.Command {
	var f historyFlags
	var all, gate bool
	cmd := &cobra.Command{
		Use:   "history DIR...",
		Short: "Follow metrics through many sets, and find when they changed",
		Long: `history reads the sets of results in directories and below them, of versions, nights
or machines, and follows each metric of each cell through them in the order of their
time. It finds where the level of a series changed (PELT; docs/history.md has how
often it finds a change where there is none), and names the sets and the commits
between which it did. What at least four other transports moved by under the same load
is taken from a series before, as diff does, and followed as a series of its own.

The newest value is compared with the level since the last change. So the baseline
moves on by itself; bless records who accepted a change for the worse, and why.
With --gate the command exits with 3 if a change for the worse is not accepted.

` + app.ExitHelp,
		Example: `  transportbench history results/
  transportbench history nightly/ --metric latency_p99 --gate
  transportbench history results/ --json > history.json`,
		ValidArgsFunction: complete.Directories, Args: app.Takes(1, 0, "directories of sets"),
		RunE: a.WithSettings(func(_ *cobra.Command, s *options.Settings, args []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			h, err := history.Load(args)
			if err != nil {
				return app.BadInput(err)
			}
			list := h.Series(o)
			if s.JSON {
				err = h.Encode(a.Stdout, list)
			} else {
				terminal.Print(a.Stdout, findings.History(h, list, all))
			}
			if n := history.Unaccepted(list); err == nil && gate && n > 0 {
				return app.Exitf(app.ExitRegression,
					"%s for the worse; bless SET --why REASON accepts what is right",
					format.Count(n, "change"))
			}
			return err
		}),
	}
	f.add(cmd)
	options.AddJSON(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "also show series without a change")
	cmd.Flags().BoolVar(&gate, "gate", false,
		"exit with 3 if a change for the worse is not accepted")
	return cmd
}

func (f *historyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.metrics, "metric", compare.DefaultMetrics,
		"metrics to follow, a comma list")
	cmd.Flags().StringVar(&f.floor, "floor", defaultFloor, "smallest change of a level that counts")
	_ = cmd.RegisterFlagCompletionFunc("metric", complete.Metrics)
}

func blessCommand(a *app.App) *cobra.Command {
	var b history.Blessing
	cmd := &cobra.Command{
		Use: "bless SET", Short: "Accept the levels of a set, with who and why",
		Long: `bless records that the levels of a set are right although some are worse than before,
in ` + history.BlessedName + ` next to its results: who says so, and why. history then lists the
changes as accepted, and --gate passes. Without --cell and --metric it accepts all levels
of the set, also those since an earlier one. It lists the changes that it accepts, in the
history of the sets next to it.

` + app.ExitHelp,
		Example: `  transportbench bless nightly/2026-11-22 --why "checksums are on by default now"
  transportbench bless nightly/2026-11-22 --metric latency_p99 --why "new kernel" --who ada`,
		ValidArgsFunction: complete.Directories, Args: app.Takes(1, 1, "one set of results"),
		RunE: a.WithSettings(func(_ *cobra.Command, _ *options.Settings, args []string) error {
			return bless(a, args[0], b)
		}),
	}
	cmd.Flags().StringVar(&b.Why, "why", "", "reason, which is required")
	cmd.Flags().StringVar(&b.Who, "who", "", "who accepts it; default: your login name")
	cmd.Flags().StringVar(&b.Metric, "metric", "", "accept only this metric")
	_ = cmd.RegisterFlagCompletionFunc("metric", complete.Metrics)
	cmd.Flags().StringVar(&b.Cell, "cell", "",
		"accept only this cell: its transport and load as history shows them, or its id in --json")
	return cmd
}

func bless(a *app.App, dir string, b history.Blessing) error {
	if strings.TrimSpace(b.Why) == "" {
		return app.Usagef("--why: give the reason for which the change is right")
	}
	if b.Metric != "" {
		if _, err := (&historyFlags{metrics: []string{b.Metric}, floor: "0"}).
			options(); err != nil {
			return err
		}
	}
	if b.Who == "" {
		if u, err := user.Current(); err == nil {
			b.Who = u.Username
		}
		if b.Who == "" {
			return app.Usagef("--who: the user has no login name; say who accepts it")
		}
	}
	h, err := history.Load([]string{dir})
	if err != nil {
		return app.BadInput(err)
	}
	if len(h.Sets) != 1 {
		return app.Usagef("%s holds %d sets; name the one to accept", dir, len(h.Sets))
	}
	what := "everything"
	if b.Cell != "" {
		if b.Cell, what, err = h.Cell(b.Cell); err != nil {
			return app.Usagef("--cell: %v", err)
		}
	}
	b.At = time.Now().UTC().Truncate(time.Second)
	if err := history.Bless(h.Sets[0].Path, b); err != nil {
		return app.BadInput(err)
	}
	if b.Metric != "" {
		what += ", " + b.Metric
	}
	fmt.Fprintf(a.Stdout, "%s accepts %s in %s: %s\n", b.Who, what, h.Sets[0].Path, b.Why)
	return showAccepted(a, h.Sets[0].Path, &b)
}

// showAccepted writes the changes that a blessing accepts in the history of the sets next to its
// own: a level includes changes of earlier sets that last.
func showAccepted(a *app.App, dir string, b *history.Blessing) error {
	b.Who, b.Why = printable.Text(b.Who), printable.Text(b.Why) // as history reads them
	dirs, err := history.Beside(dir)
	if err != nil {
		return app.BadInput(err)
	}
	h, err := history.Load(dirs)
	if err != nil {
		return app.BadInput(fmt.Errorf("the set is accepted, but not what it changes: %w", err))
	}
	f := &historyFlags{metrics: compare.DefaultMetrics, floor: defaultFloor}
	if b.Metric != "" {
		f.metrics = []string{b.Metric}
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	lines := findings.Accepted(h, h.Series(o), b)
	for _, line := range lines {
		fmt.Fprintf(a.Stdout, "accepted: %s\n", line)
	}
	if len(lines) == 0 {
		fmt.Fprintf(a.Stdout, "history finds no change for the worse that this accepts, in %s\n",
			format.Count(len(h.Sets), "set"))
	}
	return nil
}
