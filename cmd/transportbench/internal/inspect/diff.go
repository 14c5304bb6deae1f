package inspect

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/bridge"
	"transportbench/cmd/transportbench/internal/catalog"
	"transportbench/cmd/transportbench/internal/comparison"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin/host"
	"transportbench/core/transport"
)

func diffCommand(a *app.App) *cobra.Command {
	c, along := new(comparison.Flags), ""
	cmd := &cobra.Command{
		Use: "diff OLD NEW", ValidArgsFunction: complete.Results,
		Short: "Compare two sets of results, or the values of one option",
		Long: `diff matches the cells of two sets by configuration. For each metric it shows the
change with its interval, the Holm-adjusted p of a rank test over the repeats against
the minimum effect (--floor), and a verdict. A set is a directory of results, its index,
a single result, or published figures. The failed checks of their cells are listed below,
each once. Where the sets show several states of the machine (near, far), windows are
compared within a state only.

Between sets, what at least four other transports changed by under the same load, round
by round, counts as the machine's movement, and the rest as the transport's own. The
first table has the changes that all loads of a transport have in common. They are
tested with half of alpha, and the cells with the other half. Above 25% of movement
there is no verdict. The summary then has the command that measures both versions in
turns, with the old version's plugins if they were kept (make install keeps the last
three) or can be built (scripts/old-plugins.sh REVISION).

Results of different versions of the runtime, the measured loop, are compared,
and a line gives the benchmark overhead of each; --strict refuses them. For versions
on the machine at hand, ab --a plugin-dir=OLD --b plugin-dir=NEW is fairer.

The summary names the changes that the tests could have found. --require-power
5% exits with 6 if one of them found no change and could not have found one of 5%.

With --along AXIS it compares within one set which transport (or which value of
another option) wins, by how much, and which ones do not differ significantly: those
with a letter in common.

Without --fail-on, a WORSE cell exits with 3, unless bless has accepted it for the new
set; the notes then say who, and why. With --fail-on, only the thresholds decide,
with 4: METRIC<LIMIT or METRIC>LIMIT. A LIMIT with a percent sign is one that the
change must exceed significantly, or 6 if there are too few repeats for that, or too
few in the same states; one without applies to the new median. A selection of cells may
stand before a colon ('transport=NAME,in_flight=3*: throughput<-3%').

` + app.ExitHelp,
		Example: `  transportbench diff results/v0.6.0/amd-epyc-2core-vm results/v0.8.0/amd-epyc-2core-vm
  transportbench diff old/ new/ --strict --metric throughput --fail-on 'throughput<-3%'
  transportbench diff --along transport results/local
  transportbench diff old.json new.json --across cpu --format markdown`,
		Args: func(cmd *cobra.Command, args []string) error {
			want := 2
			if along != "" {
				want = 1
			}
			return app.Takes(want, want, format.Count(want, "set")+" of results")(cmd, args)
		},
		RunE: a.WithSettings(func(cmd *cobra.Command, s *options.Settings, args []string) error {
			o, err := c.Options()
			if err != nil {
				return err
			}
			if c.Format != comparison.FormatTable {
				terminal.Verbatim(a.Stdout)
			}
			if along != "" {
				if err := c.CheckAlong(); err != nil {
					return err
				}
				return rankAlong(a, c, o, args[0], along)
			}
			return diffSets(cmd.Context(), a, c, o, args[0], args[1], s.PluginDir)
		}),
	}
	c.Add(cmd.Flags())
	c.AddSets(cmd.Flags())
	cmd.Flags().StringVar(&along, "along", "",
		"compare the values of this option within one set: transport, in-flight, ring, ...")
	_ = cmd.RegisterFlagCompletionFunc("metric", complete.Metrics)
	_ = cmd.RegisterFlagCompletionFunc("along", complete.Axes)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(comparison.DiffFormats,
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func diffSets(ctx context.Context, a *app.App, c *comparison.Flags, o compare.Options,
	oldPath, newPath, pluginDir string) error {
	old, new, err := consistency.ReadBoth(oldPath, newPath)
	if err != nil {
		return app.BadInput(err)
	}
	report, err := comparison.FindMinEffect(a, c, func() []calibration.Found {
		return (&calibration.Finder{}).OfSets(old, new)
	}).Diff(old, new, o)
	if err != nil {
		terminal.Print(a.Stderr, tables.GroupedWarnings(set.WarningsOfBoth(old, new)))
		return err
	}
	if err := history.Accept(report); err != nil {
		return app.BadInput(err)
	}
	if report.Bridge != "" {
		executable, _ := os.Executable()
		used, _ := host.Dirs(pluginDir)
		report.Bridge = bridge.Command(report, old, new, bridge.Kept(executable), used,
			func(dir, name string) []transport.Option {
				return catalog.OptionsIn(ctx, dir, name)
			})
	}
	return comparison.Conclude(ctx, a, c, report, len(o.Thresholds) > 0)
}

func rankAlong(a *app.App, c *comparison.Flags, o compare.Options, path, axis string) error {
	s, err := readSet(a, path)
	if err != nil {
		return err
	}
	ranking, err := comparison.FindMinEffect(a, c, func() []calibration.Found {
		return new(calibration.Finder).OfSets(s)
	}).Along(s, axis, o)
	if err != nil {
		terminal.Print(a.Stderr, tables.GroupedWarnings(set.Warnings(s)))
	}
	var unmatched *compare.UnmatchedError
	switch {
	case errors.As(err, &unmatched):
		return app.Exitf(app.ExitIncomparable, "%s: no two cells differ only in %s", path, axis)
	case err != nil:
		var identity *compare.IdentityError
		if errors.As(err, &identity) {
			return err
		}
		return app.BadInput(err)
	}
	switch c.Format {
	case comparison.FormatJSON:
		return app.WriteJSON(a.Stdout, ranking)
	case comparison.FormatCSV:
		return doc.WriteCSV(a.Stdout, findings.Candidates(ranking))
	case comparison.FormatGitHub:
		return comparison.ShowAs(a, findings.GitHubRanking(ranking), comparison.FormatMarkdown)
	}
	return comparison.ShowAs(a, findings.Ranking(ranking), c.Format)
}
