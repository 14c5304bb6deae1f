package comparison

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/core/base/files"
	"transportbench/core/base/printable"
	"transportbench/core/fabric/suggest"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// Flags has the flags that diff and ab share.
type Flags struct {
	alpha, floor            string
	metrics, across, ignore []string
	failOn                  []string
	failOnFile, Format      string
	comment, power          string
	all, strict, json       bool

	// More is what lets the measurement go on, if more repeats alone do not.
	More string

	required float64 // of power, a share; 0 if it is not given
}

// The formats of a comparison.
const (
	FormatTable    = "table"
	FormatMarkdown = "markdown"
	FormatJSON     = "json"
	FormatCSV      = "csv"
	FormatGitHub   = "github"
	formatJUnit    = "junit"
)

// DiffFormats are the names of the formats.
var DiffFormats = []string{FormatTable, FormatMarkdown, FormatJSON, FormatCSV, FormatGitHub,
	formatJUnit}

// Add adds the flags of every comparison.
func (c *Flags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&c.alpha, "alpha", "0.05", "significance level, over all comparisons together")
	flags.StringVar(&c.floor, "floor", "", "minimum effect, which a change must exceed "+
		"significantly; default: 2%, or what a calibration of the machine found if that is more")
	AddMetrics(flags, &c.metrics)
	flags.StringVar(&c.Format, "format", FormatTable, strings.Join(DiffFormats, ", "))
	flags.BoolVar(&c.json, "json", false, "the same as --format json")
	flags.StringArrayVar(&c.failOn, "fail-on", nil,
		"threshold, repeatable: 'throughput<-3%', 'NAME: latency_p99>+10%', 'floor_ratio>8'")
	flags.StringVar(&c.failOnFile, "fail-on-file", "", "file with one threshold per line")
	flags.StringVar(&c.power, "require-power", "",
		"exit with 6 unless every test could have found a change of this size, such as 5%")
	flags.StringVar(&c.comment, "comment", "", "with --format github: write a comment for the "+
		"pull request to this file, empty if nothing changed")
}

// AddMetrics adds the flag of the metrics to compare.
func AddMetrics(flags *pflag.FlagSet, list *[]string) {
	flags.StringSliceVar(list, "metric", nil, "metrics to compare, a comma list, or all; default: "+
		strings.Join(compare.DefaultMetrics, ","))
}

// AddSets adds the flags of two sets that were measured apart.
func (c *Flags) AddSets(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.across, "across", nil,
		"keys of the environment that may differ, a comma list, or all; rate: rates of open loops")
	flags.StringSliceVar(&c.ignore, "ignore", nil,
		"options that do not distinguish cells, such as duration")
	flags.BoolVar(&c.strict, "strict", false, "refuse results of different versions of the runtime")
	flags.BoolVar(&c.all, "all", false, "show all rows, also those that are AMBIGUOUS or SAME")
}

// CheckAlong refuses what needs two sets.
func (c *Flags) CheckAlong() error {
	for flag, given := range map[string]bool{
		"--fail-on": len(c.failOn) > 0, "--fail-on-file": c.failOnFile != "",
		"--require-power": c.power != "", "--comment": c.comment != "",
		"--format " + formatJUnit: c.Format == formatJUnit,
	} {
		if given {
			return app.Usagef("%s is for two sets; remove it or --along", flag)
		}
	}
	return nil
}

// Options checks and converts the flags.
func (c *Flags) Options() (compare.Options, error) {
	o := compare.Defaults()
	var err error
	if o.Alpha, err = Share(c.alpha); err != nil || !(o.Alpha > 0 && o.Alpha < 1) {
		return o, app.Usagef("--alpha: %q is not a number between 0 and 1", c.alpha)
	}
	if c.floor != "" {
		if o.Floor, err = Share(c.floor); err != nil || !(o.Floor >= 0 && o.Floor < 1) {
			return o, app.Usagef("--floor: %q is not a share such as 2%% or 0.02", c.floor)
		}
		o.Same = o.Floor
	}
	if !slices.Contains(DiffFormats, c.Format) {
		return o, app.Usagef("--format: %q is not one of %s%s", c.Format,
			strings.Join(DiffFormats, ", "), suggest.For(c.Format, DiffFormats))
	}
	if c.json && c.Format != FormatTable && c.Format != FormatJSON {
		return o, app.Usagef("--json: leave out --format %s", c.Format)
	} else if c.json {
		c.Format = FormatJSON
	}
	if c.comment != "" && c.Format != FormatGitHub {
		return o, app.Usagef("--comment needs --format %s", FormatGitHub)
	}
	if c.power != "" {
		if c.required, err = Share(c.power); err != nil || !(c.required > 0) {
			return o, app.Usagef("--require-power: %q is not a share such as 5%% or 0.05", c.power)
		}
	}
	if o.Metrics, err = Metrics(c.metrics); err != nil {
		return o, err
	}
	o.Across, o.Ignore, o.Strict = c.across, c.ignore, c.strict
	return o, c.readThresholds(&o)
}

// Metrics returns the metrics of the flag: the default ones if the list is empty.
func Metrics(list []string) ([]string, error) {
	switch {
	case len(list) == 0:
		return compare.DefaultMetrics, nil
	case len(list) == 1 && list[0] == "all":
		return compare.AllMetrics(), nil
	}
	list = Underscored(list)
	for _, name := range list {
		if err := compare.CheckMetric(name); err != nil {
			return nil, app.Usagef("--metric: %v", err)
		}
	}
	return list, nil
}

func (c *Flags) readThresholds(o *compare.Options) error {
	for _, text := range c.failOn {
		t, err := compare.ParseThreshold(text)
		if err != nil {
			return app.Usagef("--fail-on: %v", err)
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
			return app.Usagef("--fail-on-file: %s: %v", c.failOnFile, err)
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

// Share parses "2%" and "0.02".
func Share(text string) (float64, error) {
	if number, found := strings.CutSuffix(strings.TrimSpace(text), "%"); found {
		v, err := strconv.ParseFloat(number, 64)
		return v / 100, err
	}
	return strconv.ParseFloat(text, 64)
}

// Underscored returns names of metrics as results have them.
func Underscored(names []string) []string {
	var list []string
	for _, name := range names {
		list = append(list, strings.ReplaceAll(strings.TrimSpace(name), "-", "_"))
	}
	return list
}

// Conclude shows a comparison and returns its verdict.
func Conclude(ctx context.Context, a *app.App, c *Flags, report *compare.Report,
	thresholds bool) error {
	verdict := c.verdictOf(report, thresholds)
	if err := showDiff(ctx, a, c, report, thresholds, verdict); err != nil {
		return err
	}
	return verdict
}

func showDiff(ctx context.Context, a *app.App, c *Flags, report *compare.Report, thresholds bool,
	verdict error) error {
	switch c.Format {
	case FormatGitHub:
		if err := c.writeComment(ctx, report); err != nil {
			return err
		}
		_, err := io.WriteString(a.Stdout, findings.GitHubSummary(report))
		return err
	case formatJUnit:
		gate := findings.Gate{Thresholds: thresholds}
		if verdict != nil {
			code := app.ExitCode(verdict)
			gate.Problem, gate.Regression = verdict.Error(), code == app.ExitRegression ||
				code == app.ExitThreshold
		}
		return doc.WriteJUnit(a.Stdout, findings.JUnit(report, gate))
	case FormatJSON:
		return app.WriteJSON(a.Stdout, report)
	case FormatCSV:
		return doc.WriteCSV(a.Stdout, findings.Changes(report))
	}
	return ShowAs(a, findings.Diff(report, c.all), c.Format)
}

// ShowAs writes a document in a format that people read.
func ShowAs(a *app.App, d *doc.Doc, form string) error {
	if form == FormatMarkdown {
		_, err := io.WriteString(a.Stdout, doc.Markdown(d))
		return err
	}
	a.Print(d)
	return nil
}

// writeComment writes the comment of a pull request into its file, which becomes empty if nothing
// changed.
func (c *Flags) writeComment(ctx context.Context, report *compare.Report) error {
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
		_, err := text.WriteTo(w)
		return err
	})
	return app.BadOutput("--comment", err)
}

// verdictOf returns the error of a comparison: a regression before cells that
// cannot be compared, and those before too few repeats for a verdict, for a
// threshold to fail, or for the power that is required. Published figures have no verdict.
func (c *Flags) verdictOf(r *compare.Report, thresholds bool) error {
	switch {
	case len(r.Broken) > 0:
		b := r.Broken[0]
		return app.Exitf(app.ExitThreshold, "%d thresholds failed; the first: %s: %s",
			len(r.Broken), b.Cell, b.Threshold)
	case !thresholds && r.Count(compare.Worse)+r.CountTransports(compare.Worse) > r.Accepted():
		text := fmt.Sprintf("%d of %d comparisons are WORSE",
			r.Count(compare.Worse)+r.CountTransports(compare.Worse), len(r.Rows()))
		if n := r.Accepted(); n > 0 {
			text += fmt.Sprintf(", %d of them accepted", n)
		}
		return app.Exitf(app.ExitRegression, "%s", text)
	}
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Verdict == compare.Incomparable && c.Change == nil {
			return app.Exitf(app.ExitIncomparable, "%s cannot be compared: %s", c.Cell, c.Note)
		}
	}
	if t := r.Thresholds; t.TooLittle > 0 {
		return app.Exitf(app.ExitTooLittle, "%d of %d tests of thresholds could not fail, "+
			"whatever the change; measure %d process starts on each side, or use fewer thresholds",
			t.TooLittle, t.Tests, t.Needed)
	}
	if t := r.Thresholds; t.Moved > 0 {
		return app.Exitf(app.ExitTooLittle, "%d of %d tests of thresholds could not fail, "+
			"whatever the change: the machine moved too far between the sets, or no other "+
			"transports show how far; measure both versions in turns: transportbench %s",
			t.Moved, t.Tests, r.Bridge)
	}
	if t := r.Thresholds; t.StatesApart > 0 {
		return app.Exitf(app.ExitTooLittle, "%d of %d tests of thresholds could not fail, "+
			"whatever the change: the sides have too few windows in the same states of the "+
			"machine; measure them in turns, as ab does, or again", t.StatesApart, t.Tests)
	}
	if n := r.TooLittle(); n > 0 && !thresholds {
		return app.Exitf(app.ExitTooLittle, "%d of %d comparisons have too few repeats for a "+
			"verdict; measure %d on each side, or compare fewer metrics and cells", n,
			len(r.Changes), r.Needed())
	}
	if n := r.Unseen(c.required); c.required > 0 && n > 0 {
		weakest := "could not have found any"
		if s := r.Seen; s.None == 0 {
			weakest = "needs " + format.Share(s.Largest)
		}
		remedy := cmp.Or(c.More, fmt.Sprintf("measure with --repeats %d", r.MoreRepeats())) +
			", or compare fewer metrics and cells"
		if c.required <= r.Floor {
			remedy = fmt.Sprintf("no change within the minimum effect of %s counts; --floor sets "+
				"another", format.Share(r.Floor))
		}
		return app.Exitf(app.ExitTooLittle, "%d of %d tests could not have found a change of %s "+
			"(--require-power); the weakest, %s %s, %s; %s", n, r.Seen.Tests,
			format.Share(c.required), r.Seen.Cell, r.Seen.Metric, weakest, remedy)
	}
	return nil
}
