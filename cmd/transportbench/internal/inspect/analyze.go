package inspect

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/complete"
	"transportbench/cmd/transportbench/internal/options"
	"transportbench/cmd/transportbench/internal/terminal"
	"transportbench/core/base/config"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// analyzeFlags are the flags of analyze.
type analyzeFlags struct {
	knee, loops         bool
	target, rate, cells string
	headroom, columns   string
	slo, whatIf         []string

	objectives []analyze.Objective // of slo
	shown      tables.Columns      // of columns
}

func analyzeCommand(a *app.App) *cobra.Command {
	q := new(analyzeFlags)
	cmd := &cobra.Command{
		Use: "analyze RESULT|SET", ValidArgsFunction: complete.Results,
		Short: "Explain where time goes and what limits the throughput",
		Long: `analyze reads results or a set of them. It explains where the time of an operation
goes, what limits the throughput, and what contradicts the figures. It measures
nothing. It shows several cells as one row each; --cell selects.

--knee, --slo and --target read cells that differ only in load (clients and calls
in flight, or the rate of an open loop) as one curve: the highest throughput under
an objective, operating points, and how many servers a target takes. The clients
of a closed loop send less when the server is slow, so its throughput is no
capacity: --target takes open loops, or --headroom as well.

--what-if predicts another configuration with a queueing model:
` + analyze.Changes + `.

Published figures are checked for contradictions.

` + app.ExitHelp,
		Example: `  transportbench analyze results/local/shm-kv-20260101T000000Z-0123abcd.json
  transportbench analyze results/local/sweep-latency --slo 'p99<50us' --target 10M
  transportbench analyze results/local --cell shm,in_flight=1 --what-if rtt=2us,clients=16
  transportbench analyze results/published/kvstore.json --slo 'read_p50<30ms'`,
		Args: app.Takes(1, 1, "one result or set of results"),
		RunE: a.WithSettings(func(_ *cobra.Command, s *options.Settings, args []string) error {
			o, err := q.options()
			if err != nil {
				return err
			}
			return analyzeSet(a, q, o, args[0], s.JSON)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&q.knee, "knee", false, "show curves over load with knees and operating points")
	flags.StringArrayVar(&q.slo, "slo", nil, "show the highest throughput under an objective "+
		"such as 'p99<50us'; repeatable: the load that each allows")
	flags.StringVar(&q.columns, "columns", "", "show only a table with these metrics and "+
		"options, such as iterations,tokens,lookup_p50,read_p99")
	flags.BoolVar(&q.loops, "loops", false,
		"show only the daemons' loops of each rank: events, phases, times, batches")
	flags.StringVar(&q.target, "target", "", "show how many servers a throughput such as 10M takes")
	flags.StringVar(&q.headroom, "headroom", "", "share of a closed loop's throughput to keep "+
		"free with --target, such as 0.3; without it, closed loops have no number of servers")
	flags.StringVar(&q.rate, "rate-metric", "",
		"metric that counts as throughput; default: throughput, else iterations or tokens")
	flags.StringVar(&q.cells, "cell", "", "cells to analyze: a transport, or option=value,... "+
		"with wildcards, or the name of one as analyze prints it")
	flags.StringArrayVar(&q.whatIf, "what-if", nil,
		"change to predict, such as rtt=2us,clients=16; repeatable")
	options.AddJSON(flags)
	_ = cmd.RegisterFlagCompletionFunc("columns", complete.Metrics) // fails only without the flag
	return cmd
}

// options checks and converts the flags.
func (q *analyzeFlags) options() (o analyze.CapacityOptions, err error) {
	for _, text := range q.slo {
		objective, err := analyze.ParseObjective(text)
		if err != nil {
			return o, app.Usagef("--slo: %v", err)
		}
		q.objectives = append(q.objectives, objective)
	}
	if len(q.objectives) == 1 {
		o.Objective = &q.objectives[0]
	}
	if q.loops && (q.curves() || len(q.whatIf) > 0 || q.columns != "") {
		return o, app.Usagef("--loops: shows only the loops; leave out --columns, --knee, --slo, " +
			"--target and --what-if")
	}
	if q.columns != "" {
		if q.shown, err = tables.ParseColumns(q.columns, config.Names()); err != nil {
			return o, app.Usagef("--columns: %v", err)
		}
		if q.curves() || len(q.whatIf) > 0 {
			return o,
				app.Usagef("--columns: shows only a table; leave out --knee, --slo, --target and " +
					"--what-if")
		}
	}
	if len(q.objectives) > 1 && (q.knee || q.target != "") {
		return o, app.Usagef("--slo: with several objectives there is only their table; leave " +
			"out --knee and --target, or give one")
	}
	if q.target != "" {
		var target config.Rate
		if err := target.Set(q.target); err != nil || target == 0 {
			return o, app.Usagef("--target: %q is not a rate such as 200k or 10M", q.target)
		}
		o.Target = float64(target)
	}
	if q.headroom != "" {
		share, err := strconv.ParseFloat(q.headroom, 64)
		switch {
		case err != nil || !(share >= 0 && share < 1):
			return o, app.Usagef("--headroom: %q is not a share from 0 to below 1", q.headroom)
		case q.target == "":
			return o, app.Usagef("--headroom: has no effect without --target")
		}
		o.Headroom = &share
	}
	if q.rate != "" {
		o.Rate = strings.ReplaceAll(q.rate, "-", "_")
		if err := compare.CheckMetric(o.Rate); err != nil {
			return o, app.Usagef("--rate-metric: %v", err)
		}
		if d := result.Define(o.Rate); !strings.HasSuffix(d.Unit, "/s") {
			return o,
				app.Usagef("--rate-metric: %s is not a rate; use throughput, iterations or tokens",
					o.Rate)
		}
	}
	if err := set.CheckPattern(q.cells); err != nil {
		return o, app.Usagef("--cell: %v", err)
	}
	return o, nil
}

// curves reports whether a flag asks for curves over load.
func (q *analyzeFlags) curves() bool { return q.knee || len(q.slo) > 0 || q.target != "" }

func analyzeSet(a *app.App, q *analyzeFlags, o analyze.CapacityOptions, path string,
	asJSON bool) error {
	s, err := readSet(a, path)
	if err != nil {
		return err
	}
	shown, labels := state.ShownOf(s), set.LabelsOf(s.Cells)
	whole := shown.Set(s)
	s.Cells = slices.DeleteFunc(slices.Clone(s.Cells), func(c set.Cell) bool {
		return !set.Match(q.cells, c.Config) && labels.Of(c.Config) != q.cells
	})
	if len(s.Cells) == 0 {
		return app.Usagef(
			"--cell: %s has no cell %q; transportbench export --format csv lists their options",
			path, q.cells)
	}
	report, in := findings.Analysis{Kind: "analysis", Source: path}, shown.Set(s)
	switch {
	case q.loops:
		if report.Loops, err = loopsOf(s, shown); err != nil {
			return err
		}
	case len(q.shown) > 0:
		report.Columns, report.Figures = q.shown, q.shown.Figures(in)
	case len(q.objectives) > 1:
		for i := range q.objectives {
			each := o
			each.Objective = &q.objectives[i]
			c, err := capacityOf(s, shown, each)
			if err != nil {
				return app.Exitf(app.ExitTooLittle, "--slo: %s: %v", q.slo[i], err)
			}
			report.Objectives = append(report.Objectives, c)
		}
	case q.curves():
		if report.Capacity, err = capacityOf(s, shown, o); err != nil {
			terminal.Print(a.Stderr, tables.GroupedWarnings(set.Warnings(s)))
		}
		switch {
		case errors.Is(err, analyze.ErrClosedLoop):
			return app.Exitf(app.ExitTooLittle, "--target: %s: %v; measure open loops (--rate, "+
				"or sweep latency), or assume with --headroom which share of it stays free",
				path, err)
		case err != nil:
			return app.Exitf(app.ExitTooLittle, "%v", err)
		}
	}
	if !q.loops && len(q.shown) == 0 && !q.curves() || len(q.whatIf) > 0 {
		if report.Cells, err = analyzeCells(a, s, whole, shown, q.whatIf); err != nil {
			return err
		}
		report.Slowdowns, report.Handoffs = analyze.SlowdownsOf(in), analyze.HandoffsOf(in)
	}
	report.AddWarnings(s)
	switch {
	case asJSON:
		err = app.WriteJSON(a.Stdout, &report)
	case q.loops:
		terminal.Print(a.Stdout, tables.Loops(report.Loops))
		terminal.Print(a.Stdout, tables.GroupedWarnings(report.Warnings))
	case len(q.shown) > 0:
		terminal.Print(a.Stdout, q.shown.Of(in))
		terminal.Print(a.Stdout, tables.GroupedWarnings(report.Warnings))
	default:
		terminal.Print(a.Stdout, findings.Analyze(&report, a.Verbose))
		if len(report.Cells) > 0 {
			terminal.Print(a.Stdout, tables.Traffic(s))
			terminal.Print(a.Stdout, tables.Handoffs(s))
		}
	}
	if err != nil {
		return err
	}
	for _, c := range report.Objectives {
		err = cmp.Or(err, capacityVerdict(q, c))
	}
	return errors.Join(err, capacityVerdict(q, report.Capacity), analysisVerdict(&report))
}

// capacityOf evaluates the curves over load in the shown windows of their cells.
func capacityOf(s *set.Set, shown state.Shown, o analyze.CapacityOptions) (
	*analyze.Capacity, error,
) {
	c, err := analyze.CapacityOf(shown.Set(s), o)
	if err != nil {
		return nil, err
	}
	for _, u := range c.Curves {
		for i := range u.Points {
			u.Points[i].Windows = shown.Windows(&s.Cells[u.Points[i].Cell])
		}
	}
	return c, nil
}

// loopsOf returns the loops of the cells that have some.
func loopsOf(s *set.Set, shown state.Shown) (list []tables.CellLoops, err error) {
	labels := set.LabelsOf(s.Cells)
	for i := range s.Cells {
		c := &s.Cells[i]
		results, err := s.Results(c)
		if err != nil {
			return nil, app.BadInput(err)
		}
		var repeats []result.Repeat
		for _, r := range shown.Results(c, results) {
			repeats = append(repeats, r.Repeats...)
		}
		ranks, err := result.RankLoopsOf(repeats)
		if err != nil {
			return nil, app.BadInput(err)
		}
		if len(ranks) > 0 {
			list = append(list, tables.CellLoops{Cell: labels.Of(c.Config), Ranks: ranks})
		}
	}
	if len(list) == 0 {
		return nil, app.Exitf(app.ExitTooLittle, "--loops: %s has no windows, in which daemons "+
			"could count; it is an index without its results, or published", s.Source)
	}
	return list, nil
}

// analyzeCells analyzes the shown windows of every cell of s. A cell that was not measured gets a
// reason. Predictions have what was measured in a cell of whole.
func analyzeCells(a *app.App, s, whole *set.Set, shown state.Shown, whatIf []string) (
	[]findings.AnalyzedCell, error,
) {
	labels := set.LabelsOf(whole.Cells)
	list := make([]findings.AnalyzedCell, len(s.Cells))
	usable, measured, unknown := 0, 0, 0
	var without []string // cells without a model
	for i := range s.Cells {
		c := &s.Cells[i]
		list[i] = findings.AnalyzedCell{Cell: labels.Of(c.Config), Config: c.Config,
			Status: c.Status, Reason: c.Reason, Warnings: c.Warnings}
		list[i].Windows = shown.Counts(c)
		list[i].Shown = shown.Windows(c)
		results, err := s.Results(c)
		if err != nil {
			return nil, app.BadInput(err)
		}
		if c.Status != set.Measured {
			continue
		}
		if measured++; len(results) == 0 {
			unknown++
			list[i].Reason = "the index has no result of this cell"
			continue
		}
		if list[i].Analysis, err = analyze.Results(shown.Results(c, results)); err != nil {
			list[i].Reason = err.Error()
			continue
		}
		usable++
		if list[i].Analysis.Model == nil {
			without = append(without, list[i].Cell)
		}
		list[i].Predictions, err = list[i].Analysis.Model.Predictions(whole, c, whatIf)
		if err != nil {
			return nil, app.Usagef("--what-if: %v", err)
		}
	}
	published := slices.ContainsFunc(s.Cells,
		func(c set.Cell) bool { return c.Status == set.Published })
	if measured > 0 && unknown == measured && !published {
		return nil, app.Exitf(app.ExitTooLittle, "%s: this set has only its index, without the "+
			"results of its cells; --columns, --knee, --slo and --target can read an index",
			s.Source)
	}
	if usable == 0 && !published {
		return nil, app.Exitf(app.ExitTooLittle,
			"%s: no cell has a complete repeat; the first: %s: %s", s.Source, list[0].Cell,
			list[0].Reason)
	}
	const noModel = "no model, because it is of an open loop or the daemons' loop was not timed"
	switch {
	case len(whatIf) == 0 || len(without) == 0:
	case len(without) == usable:
		return nil, app.Exitf(app.ExitTooLittle, "--what-if: %s has %s",
			strings.Join(without, "; "), noModel)
	default:
		for _, cell := range without {
			a.Note("--what-if: no prediction for %s: it has %s", cell, noModel)
		}
	}
	return list, nil
}

// analysisVerdict fails if figures must not be used.
func analysisVerdict(r *findings.Analysis) error {
	wrong := 0
	for i := range r.Cells {
		if r.Cells[i].Unusable() {
			wrong++
		}
	}
	if wrong > 0 {
		return app.Exitf(app.ExitThreshold,
			"%d of %d cells have figures that must not be used; the errors above say why", wrong,
			len(r.Cells))
	}
	return nil
}

// capacityVerdict fails if no load meets the objective, or if that is unknown.
func capacityVerdict(q *analyzeFlags, c *analyze.Capacity) error {
	if c == nil {
		return nil
	}
	met, perhaps, knees := 0, 0, 0
	for i := range c.Curves {
		u := &c.Curves[i]
		if u.Knee != nil {
			knees++
		}
		switch {
		case u.Peak == nil:
		case u.Points[*u.Peak].Meets == analyze.MeetsYes:
			met++
		default:
			perhaps++
		}
	}
	switch {
	case c.Objective != nil && met == 0 && perhaps > 0:
		return app.Exitf(app.ExitTooLittle, "only medians meet %s; an interval needs 6 repeats",
			c.Objective.Text)
	case c.Objective != nil && met == 0:
		return app.Exitf(app.ExitThreshold, "no load meets %s", c.Objective.Text)
	case q.knee && knees == 0:
		return app.Exitf(app.ExitTooLittle, "a knee needs at least three usable loads")
	}
	return nil
}
