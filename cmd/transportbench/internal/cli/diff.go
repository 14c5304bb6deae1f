package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/files"
	"transportbench/core/base/printable"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// comparison has the flags that diff and ab share.
type comparison struct {
	alpha, floor            string
	metrics, across, ignore []string
	failOn                  []string
	failOnFile, format      string
	along, comment, power   string
	all, strict             bool

	required float64 // of power, a share; 0 if it is not given
}

// The formats of a comparison.
const (
	formatTable    = "table"
	formatMarkdown = "markdown"
	formatJSON     = "json"
	formatCSV      = "csv"
	formatGitHub   = "github"
	formatJUnit    = "junit"
)

var diffFormats = []string{formatTable, formatMarkdown, formatJSON, formatCSV, formatGitHub,
	formatJUnit}

func (c *comparison) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.alpha, "alpha", "0.05", "significance level, over all comparisons together")
	flags.StringVar(&c.floor, "floor", "", "least change that counts, which a change must exceed "+
		"significantly; default: 2%, or what a calibration of the machine found if that is more")
	flags.StringSliceVar(&c.metrics, "metric", nil,
		"metrics to compare, a comma list, or all; default: "+
			strings.Join(compare.DefaultMetrics, ","))
	flags.StringVar(&c.format, "format", formatTable, strings.Join(diffFormats, ", "))
	flags.StringArrayVar(&c.failOn, "fail-on", nil,
		"threshold, repeatable: 'throughput<-3%', 'shm: latency_p99>+10%', 'floor_ratio>8'")
	flags.StringVar(&c.failOnFile, "fail-on-file", "", "file with one threshold per line")
	flags.StringVar(&c.power, "require-power", "",
		"exit with 6 unless every test could have found a change of this size, such as 5%")
	flags.StringVar(&c.comment, "comment", "", "with --format github: write a comment for the "+
		"pull request to this file, empty if nothing changed")
}

func (a *app) diffCommand() *cobra.Command {
	c := new(comparison)
	cmd := &cobra.Command{
		Use: "diff OLD NEW", ValidArgsFunction: completeResults,
		Short: "Compare two sets of results, or the values of one option",
		Long: `diff matches the cells of two sets by configuration. For each metric it shows the
change with its interval, the Holm-adjusted p of a rank test over the repeats against
the least change that counts (--floor), and a verdict. A set is a directory of results,
its index, a single result, or published figures. The failed checks of their cells are
listed below, each once. Where the sets show several states of the machine (near, far),
windows are compared within a state only.

Results of different versions of the runtime, the measured loop, are compared,
and a line says what the harness cost in each; --strict refuses them. For versions
on the machine at hand, ab --a plugin-dir=OLD --b plugin-dir=NEW is fairer.

The last line names the changes that the tests could have found. --require-power
5% exits with 6 if one of them found no change and could not have found one of 5%.

With --along AXIS it compares within one set which transport (or which value of
another option) wins, by how much, and which ones cannot be told apart: those with
a letter in common.

Without --fail-on, a WORSE cell exits with 3, unless bless has accepted it for the new
set; the notes then say who, and why. With --fail-on, only the thresholds decide,
with 4: METRIC<LIMIT or METRIC>LIMIT. A LIMIT with a percent sign is one that the
change must exceed significantly, or 6 if there are too few repeats for that, or too
few in the same states; one without applies to the new median. A selection of cells may
stand before a colon ('transport=shm,in_flight=3*: throughput<-3%').

` + exitHelp,
		Example: `  transportbench diff results/v0.6.0/amd-epyc-2core-vm results/v0.8.0/amd-epyc-2core-vm
  transportbench diff old/ new/ --strict --metric throughput --fail-on 'throughput<-3%'
  transportbench diff --along transport results/local
  transportbench diff old.json new.json --across kernel --format markdown`,
		Args: func(cmd *cobra.Command, args []string) error {
			want := 2
			if c.along != "" {
				want = 1
			}
			return takes(want, want, format.Count(want, "set")+" of results")(cmd, args)
		},
		RunE: a.withSettings(func(cmd *cobra.Command, _ *options.Settings, args []string) error {
			if c.format != formatTable {
				terminal.Verbatim(a.stdout)
			}
			o, err := c.options()
			if err != nil {
				return err
			}
			if c.along != "" {
				if err := c.checkAlong(); err != nil {
					return err
				}
				return a.along(c, o, args[0])
			}
			return a.diff(cmd.Context(), c, o, args[0], args[1])
		}),
	}
	c.add(cmd.Flags())
	cmd.Flags().StringVar(&c.along, "along", "",
		"compare the values of this option within one set: transport, in-flight, ring, ...")
	cmd.Flags().StringSliceVar(&c.across, "across", nil,
		"keys of the environment that may differ, a comma list, or all; rate: rates of open loops")
	cmd.Flags().StringSliceVar(&c.ignore, "ignore", nil,
		"options that do not distinguish cells, such as duration")
	cmd.Flags().BoolVar(&c.strict, "strict", false,
		"refuse results of different versions of the runtime")
	cmd.Flags().BoolVar(&c.all, "all", false, "also show all cells with the verdict SAME")
	_ = cmd.RegisterFlagCompletionFunc("metric", completeMetrics)
	_ = cmd.RegisterFlagCompletionFunc("along", completeAxes)
	_ = cmd.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(diffFormats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// options checks and converts the flags.
func (c *comparison) options() (compare.Options, error) {
	o := compare.Defaults()
	var err error
	if o.Alpha, err = share(c.alpha); err != nil || !(o.Alpha > 0 && o.Alpha < 1) {
		return o, usagef("--alpha: %q is not a number between 0 and 1", c.alpha)
	}
	if c.floor != "" {
		if o.Floor, err = share(c.floor); err != nil || !(o.Floor >= 0 && o.Floor < 1) {
			return o, usagef("--floor: %q is not a share such as 2%% or 0.02", c.floor)
		}
		o.Same = o.Floor
	}
	if !slices.Contains(diffFormats, c.format) {
		return o, usagef("--format: %q is not one of %s%s", c.format,
			strings.Join(diffFormats, ", "), transport.SuggestionFor(c.format, diffFormats))
	}
	if c.comment != "" && c.format != formatGitHub {
		return o, usagef("--comment needs --format %s", formatGitHub)
	}
	if c.power != "" {
		if c.required, err = share(c.power); err != nil || !(c.required > 0) {
			return o, usagef("--require-power: %q is not a share such as 5%% or 0.05", c.power)
		}
	}
	if err := c.readMetrics(&o); err != nil {
		return o, err
	}
	o.Across, o.Ignore, o.Strict = c.across, c.ignore, c.strict
	return o, c.readThresholds(&o)
}

// checkAlong refuses what needs two sets.
func (c *comparison) checkAlong() error {
	for flag, given := range map[string]bool{
		"--fail-on": len(c.failOn) > 0, "--fail-on-file": c.failOnFile != "",
		"--require-power": c.power != "", "--comment": c.comment != "",
		"--format " + formatJUnit: c.format == formatJUnit,
	} {
		if given {
			return usagef("%s is for two sets; remove it or --along", flag)
		}
	}
	return nil
}

func (c *comparison) readMetrics(o *compare.Options) error {
	switch {
	case len(c.metrics) == 1 && c.metrics[0] == "all":
		o.Metrics = compare.AllMetrics()
	case len(c.metrics) > 0:
		o.Metrics = underscored(c.metrics)
		for _, name := range o.Metrics {
			if err := compare.CheckMetric(name); err != nil {
				return usagef("--metric: %v", err)
			}
		}
	}
	return nil
}

func (c *comparison) readThresholds(o *compare.Options) error {
	for _, text := range c.failOn {
		t, err := compare.ParseThreshold(text)
		if err != nil {
			return usagef("--fail-on: %v", err)
		}
		o.Thresholds = append(o.Thresholds, t)
	}
	if c.failOnFile != "" {
		var list []compare.Threshold
		text, err := files.ReadArgument(c.failOnFile, compare.MaxThresholds)
		if err == nil {
			list, err = compare.ReadThresholds(bytes.NewReader(text))
		}
		if err != nil {
			return usagef("--fail-on-file: %s: %v", c.failOnFile, err)
		}
		o.Thresholds = append(o.Thresholds, list...)
	}
	for _, t := range o.Thresholds { // a metric with a threshold is compared
		if !slices.Contains(o.Metrics, t.Metric) {
			o.Metrics = append(o.Metrics[:len(o.Metrics):len(o.Metrics)], t.Metric)
		}
	}
	return nil
}

// share parses "2%" and "0.02".
func share(text string) (float64, error) {
	if number, found := strings.CutSuffix(strings.TrimSpace(text), "%"); found {
		v, err := strconv.ParseFloat(number, 64)
		return v / 100, err
	}
	return strconv.ParseFloat(text, 64)
}

func underscored(names []string) []string {
	var list []string
	for _, name := range names {
		list = append(list, strings.ReplaceAll(strings.TrimSpace(name), "-", "_"))
	}
	return list
}

func (a *app) diff(ctx context.Context, c *comparison, o compare.Options,
	oldPath, newPath string) error {
	old, new, err := consistency.ReadBoth(oldPath, newPath)
	if err != nil {
		return badInput(err)
	}
	var from string
	o.Floor,
		from = a.calibrated(c, func() []calibration.Found {
		return (&calibration.Finder{}).OfSets(old, new)
	}).of(o, calibration.Repeats(compare.OptionNames(o.Ignore, old, new), old, new), true)
	report, err := compare.Diff(old, new, o)
	if err != nil {
		terminal.Print(a.stderr, tables.GroupedWarnings(set.WarningsOfBoth(old, new)))
		return err
	}
	if err := history.Accept(report); err != nil {
		return badInput(err)
	}
	report.FloorFrom = from
	return a.conclude(ctx, c, report, len(o.Thresholds) > 0)
}

// conclude shows a comparison and returns its verdict.
func (a *app) conclude(ctx context.Context, c *comparison, report *compare.Report,
	thresholds bool) error {
	verdict := c.verdictOf(report, thresholds)
	if err := a.showDiff(ctx, c, report, thresholds, verdict); err != nil {
		return err
	}
	return verdict
}

func (a *app) showDiff(ctx context.Context, c *comparison, report *compare.Report, thresholds bool,
	verdict error) error {
	switch c.format {
	case formatGitHub:
		if err := c.writeComment(ctx, report); err != nil {
			return err
		}
		_, err := io.WriteString(a.stdout, findings.GitHubSummary(report))
		return err
	case formatJUnit:
		gate := findings.Gate{Thresholds: thresholds}
		if verdict != nil {
			code := exitCode(verdict)
			gate.Problem, gate.Regression = verdict.Error(), code == ExitRegression ||
				code == ExitThreshold
		}
		return doc.WriteJUnit(a.stdout, findings.JUnit(report, gate))
	case formatJSON:
		return writeJSON(a.stdout, report)
	case formatCSV:
		return doc.WriteCSV(a.stdout, findings.Changes(report))
	}
	return a.show(findings.Diff(report, c.all), c.format)
}

// show writes a document in a format that people read.
func (a *app) show(d *doc.Doc, form string) error {
	if form == formatMarkdown {
		_, err := io.WriteString(a.stdout, doc.Markdown(d))
		return err
	}
	terminal.Print(a.stdout, d)
	return nil
}

// writeComment writes the comment of a pull request into its file, which becomes empty if nothing
// changed.
func (c *comparison) writeComment(ctx context.Context, report *compare.Report) error {
	if c.comment == "" {
		return nil
	}
	var text bytes.Buffer
	out := printable.NewWriter(&text)
	if _, err := io.WriteString(out, findings.GitHubComment(report)); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	err := files.Write(ctx, c.comment, func(w io.Writer) error {
		_,
			err := text.WriteTo(w)
		return err
	})
	return badOutput("--comment", err)
}

// verdictOf returns the error of a comparison: a regression before cells that
// cannot be compared, and those before too few repeats for a verdict, for a
// threshold to fail, or for the power that is required. Published figures have no verdict.
func (c *comparison) verdictOf(r *compare.Report, thresholds bool) error {
	switch {
	case len(r.Broken) > 0:
		b := r.Broken[0]
		return exitf(ExitThreshold, "%d thresholds failed; the first: %s: %s", len(r.Broken),
			b.Cell, b.Threshold)
	case !thresholds && r.Count(compare.Worse) > r.Accepted():
		text := fmt.Sprintf("%d of %d comparisons are WORSE", r.Count(compare.Worse),
			len(r.Changes))
		if n := r.Accepted(); n > 0 {
			text += fmt.Sprintf(", %d of them accepted", n)
		}
		return exitf(ExitRegression, "%s", text)
	}
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Verdict == compare.Incomparable && c.Change == nil {
			return exitf(ExitIncomparable, "%s cannot be compared: %s", c.Cell, c.Note)
		}
	}
	if t := r.Thresholds; t.TooLittle > 0 {
		return exitf(ExitTooLittle, "%d of %d tests of thresholds could not fail, whatever the "+
			"change; measure %d launches on each side, or use fewer thresholds", t.TooLittle,
			t.Tests, t.Needed)
	}
	if t := r.Thresholds; t.StatesApart > 0 {
		return exitf(ExitTooLittle, "%d of %d tests of thresholds could not fail, whatever the "+
			"change: the sides have too few windows in the same states of the machine; measure "+
			"them in turns, as ab does, or again", t.StatesApart, t.Tests)
	}
	if n := r.TooLittle(); n > 0 && !thresholds {
		return exitf(ExitTooLittle, "%d of %d comparisons have too few repeats for a verdict; "+
			"measure %d on each side, or compare fewer metrics and cells", n, len(r.Changes),
			r.Needed())
	}
	if n := r.Unseen(c.required); c.required > 0 && n > 0 {
		weakest := "could not have found any"
		if s := r.Seen; s.None == 0 {
			weakest = "needs " + format.Share(s.Largest)
		}
		return exitf(ExitTooLittle, "%d of %d tests could not have found a change of %s "+
			"(--require-power); the weakest, %s %s, %s; measure more repeats, or compare fewer "+
			"metrics and cells",
			n, r.Seen.Tests, format.Share(c.required), r.Seen.Cell, r.Seen.Metric, weakest)
	}
	return nil
}

func (a *app) along(c *comparison, o compare.Options, path string) error {
	s, err := consistency.ReadSet(path)
	if err != nil {
		return badInput(err)
	}
	var from string
	o.Floor,
		from = a.calibrated(c, func() []calibration.Found {
		return new(calibration.Finder).OfSets(s)
	}).of(o, calibration.Repeats(nil, s), false)
	ranking, err := compare.Along(s, c.along, o)
	if err != nil {
		terminal.Print(a.stderr, tables.GroupedWarnings(set.Warnings(s)))
	}
	var unmatched *compare.UnmatchedError
	switch {
	case errors.As(err, &unmatched):
		return exitf(ExitIncomparable, "%s: no two cells differ only in %s", path, c.along)
	case err != nil:
		var identity *compare.IdentityError
		if errors.As(err, &identity) {
			return err
		}
		return badInput(err)
	}
	ranking.FloorFrom = from
	switch c.format {
	case formatJSON:
		return writeJSON(a.stdout, ranking)
	case formatCSV:
		return doc.WriteCSV(a.stdout, findings.Candidates(ranking))
	case formatGitHub:
		return a.show(findings.GitHubRanking(ranking), formatMarkdown)
	}
	return a.show(findings.Ranking(ranking), c.format)
}
