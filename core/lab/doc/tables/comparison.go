package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Heading names the version and the machine.
func Heading(version string, machine set.Environment) *doc.Doc {
	out := new(doc.Doc)
	out.Line("transportbench %s on %s\n", version, format.MachineOf(machine.Identity))
	return out
}

// Tables returns the tables of a set: the comparison, the slowdown from one rank, the traffic, the
// verdicts, the failed checks, and in a fold the work.
func Tables(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	out.Append(Oversubscribed(s), Comparison(s), Common(s.Cells))
	if list := analyze.SlowdownsOf(s); len(list) > 0 {
		out.Gap()
		out.Append(Slowdowns(list))
	}
	out.Append(Traffic(s), Handoffs(s))
	out.Gap()
	out.Append(Verdicts(s), Warnings(s))
	out.Fold("work per operation", Work(s))
	return out
}

// Common returns a line with the load that several cells have in common, if any is set.
func Common(cells []set.Cell) *doc.Doc {
	out := new(doc.Doc)
	if options := set.Common(cells); options != "" && len(cells) > 1 {
		out.Line("all cells: %s", options)
	}
	return out
}

// Comparison returns one row for each measured cell, by load in order of appearance, and within a
// load the best first. If the machine was in several states, all rows of a load show windows in the
// same state, and a fold has tables with every state. Open loops have their own tables. Lines name
// the cells without a result.
func Comparison(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	loads := loadsOf(s.Cells)
	var closed, open []*set.Cell
	for i := range s.Cells {
		switch c := &s.Cells[i]; {
		case c.Status != set.Measured && c.Status != set.Published:
		case c.OpenLoop():
			open = append(open, c)
		default:
			closed = append(closed, c)
		}
	}
	states := state.NewClassifier(s)
	pools := openPools(s, open, states)
	bestFirst(closed, loads, states, result.Throughput, func(c *set.Cell, state string) float64 {
		return states.Within(c, state).Median(result.Throughput)
	})
	writeClosed(out, closed, loads, state.ShownOf(s))
	if len(closed) > 0 && len(open) > 0 {
		out.Gap()
	}
	if len(open) > 0 {
		writeOpen(out, open, loads, states, pools)
		writeCapacities(out, open, loads, states)
	}
	writeReasons(out, s, loads)
	byState := new(doc.Doc)
	writeStates(byState, closed, loads, states)
	writeOpenStates(byState, open, closed, loads, states, pools)
	out.Fold("figures by state of the machine ("+strings.Join(states.Names(), ", ")+")", byState)
	return out
}

// writeReasons writes why cells have no result, or where it is from, once for a transport if all of
// its cells have the same reason.
func writeReasons(out *doc.Doc, s *set.Set, loads loads) {
	type reason struct {
		transport string
		status    set.Status
		text      string
	}
	cells, with := map[string]int{}, map[reason]int{}
	of := func(c *set.Cell) reason {
		text, _, _ := strings.Cut(c.Reason, set.Tried) // each has a log of its own
		return reason{c.Transport(), c.Status, text}
	}
	for i := range s.Cells {
		cells[s.Cells[i].Transport()]++
		with[of(&s.Cells[i])]++
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		switch r := of(c); {
		case r.text == "" || with[r] == 0:
		case with[r] == cells[r.transport]:
			out.Line("%s: %s: %s", r.transport, r.status, c.Reason)
			with[r] = 0
		default:
			out.Line("%s %s: %s: %s", r.transport, loads.name(c), r.status, c.Reason)
		}
	}
}

// writeClosed writes the rows of closed loops, each with its windows in the common state of its
// load.
func writeClosed(out *doc.Doc, closed []*set.Cell, loads loads, shown state.Shown) {
	if len(closed) == 0 {
		return
	}
	rows := shownCells(closed, shown)
	whole := map[*set.Cell]*set.Cell{} // by row
	for i, c := range closed {
		whole[rows[i]] = c
	}
	var others []column
	for _, name := range shown.Names() {
		others = append(others, col(">"+name+" op/s", func(row *set.Cell) doc.Cell {
			if !alsoShown(whole[row], shown, name) {
				return doc.None()
			}
			cell := sampled(shown.Within(whole[row], name), result.Throughput, doc.Median)
			cell.Text = strings.TrimSuffix(cell.Text, " op/s")
			return cell
		}))
	}
	writeRows(out, rows, loads.name, closedColumns(func(row *set.Cell) string {
		return cmp.Or(shown.Windows(whole[row]), "-")
	}, others)...)
	onTrack := func(track string) bool {
		return slices.ContainsFunc(rows, func(c *set.Cell) bool { return c.Track() == track })
	}
	if onTrack(string(config.TrackMatched)) && onTrack(set.BothTracks) {
		out.Line("track=matched: the same load with equal integrity checks; the other transports " +
			"have them by default")
	}
	if shown.Count() > 1 {
		help := new(doc.Doc)
		help.Line("state: the windows of a row: those in the state of the machine in which all " +
			"rows of its load have most, or all if there is none;\nwindows that others disturbed " +
			"are left out;\nfar op/s, near op/s: the throughput in another state, if each of the " +
			"two has a quarter of the windows")
		out.Fold("which windows a row shows", help)
	}
}

// alsoShown reports whether a cell, which is shown in one state, has a quarter of its windows in
// that state and a quarter in another one of this name: then neither is the machine's usual state.
func alsoShown(c *set.Cell, shown state.Shown, name string) bool {
	windows, one := map[string]int{}, shown.State(c)
	for _, in := range shown.Divide(c.Windows) {
		windows[in.State] = len(in.Windows)
	}
	return one != "" && one != name && 4*min(windows[one], windows[name]) >= len(c.Windows)
}

// closedColumns are the columns of closed loops. state names the windows of a row, and others are
// the columns of other states. A closed loop has no response times: its clients wait during a
// stall, so its percentiles are of the service time and no tails of what users see.
func closedColumns(state func(*set.Cell) string, others []column) []column {
	first := []column{
		col("provider", provider),
		col("state", state),
		col(">throughput", metricColumn(result.Throughput, doc.Median)),
		col(">95% interval", func(c *set.Cell) string {
			m, _ := c.Metric(result.Throughput)
			switch {
			case m.Low == nil:
				return "-"
			case c.Launches() == 1:
				return format.Interval(m) + " within one process start"
			}
			return format.Interval(m)
		}),
		col(">p50", metricColumn(result.LatencyP50, doc.Median)),
	}
	return append(append(first, others...), []column{
		col(">op/s within", metricColumn(result.Throughput+result.WithinMachine, doc.Median)),
		col(">p50 within", metricColumn(result.LatencyP50+result.WithinMachine, doc.Median)),
		col(">floor within", metricColumn(result.Floor+result.WithinMachine, doc.Median)),
		col(">op/s between", metricColumn(result.Throughput+result.BetweenMachines, doc.Median)),
		col(">p50 between", metricColumn(result.LatencyP50+result.BetweenMachines, doc.Median)),
		col(">floor between", metricColumn(result.Floor+result.BetweenMachines, doc.Median)),
		col(">floor", floorOf),
		col(">p50/floor", ratioColumn(result.FloorRatio)),
		col(">op/floor", ratioColumn(result.OpTimeRatio)),
		col(">x library", metricColumn(result.LibraryRatio, doc.Median)),
		col(">x reference tool", firstOf(result.WitnessRatio, result.WitnessTimeRatio)),
		col(">bare", firstOf(result.Bare, result.BareRate)),
		col(">x bare", firstOf(result.BareRatio, result.BareTimeRatio)),
		col("checks", CellChecks),
	}...)
}

// writeRows writes one row for each cell: its load, its transport, and the columns. A column that
// no row has a value for is left out.
func writeRows(out *doc.Doc, rows []*set.Cell, load func(*set.Cell) string, columns ...column) {
	columns = append([]column{col("load", load), col("transport", (*set.Cell).Transport)},
		columns...)
	columns = slices.DeleteFunc(columns, func(col column) bool {
		return !slices.ContainsFunc(rows,
			func(c *set.Cell) bool {
				cell := col.cell(c)
				return cell.Type != doc.Missing &&
					cell.Text != ""
			})
	})
	t := tableOf(rows, columns).Drop(dropped...).Wrap(10, "checks")
	t.Narrow = true
	out.Add(t)
}

func tableOf(rows []*set.Cell, columns []column) *doc.Table {
	headers := make([]string, len(columns))
	for i, col := range columns {
		headers[i] = col.header
	}
	t := doc.NewTable(headers...)
	for _, c := range rows {
		row := make([]any, len(columns))
		for i, col := range columns {
			row[i] = col.cell(c)
		}
		t.Row(row...)
	}
	return t
}

// dropped are the columns of cells that a narrow terminal leaves out, in this order.
var dropped = []string{"bare", "x bare", "x library", "kernel/op", "CPU/op", "samples",
	"busy/op", "provider", "floor", "stalled", "p99.9", "figure", "doorbells", "threads",
	"kernel bytes", "runtime bytes", "checksummed", "near op/s", "far op/s", "op/floor",
	"p50/floor", "state", "95% interval"}

// column is one column of the table of cells.
type column struct {
	header string
	cell   func(*set.Cell) doc.Cell
}

// col returns a column of what f returns, as [doc.CellOf] takes it.
func col[T any](header string, f func(*set.Cell) T) column {
	return column{header, func(c *set.Cell) doc.Cell { return doc.CellOf(f(c)) }}
}

func metricColumn[T any](metric string, show func(result.Metric) T) func(*set.Cell) doc.Cell {
	return func(c *set.Cell) doc.Cell { return sampled(c, metric, show) }
}

// ratioColumn shows a ratio to a floor, or that it is void.
func ratioColumn(metric string) func(*set.Cell) doc.Cell {
	return func(c *set.Cell) doc.Cell { return Figure(c, metric) }
}

// Figure shows the median of a metric of a cell, or that it is void.
func Figure(c *set.Cell, metric string) doc.Cell {
	cell := sampled(c, metric, doc.Median)
	if cell.Type != doc.Missing && c.Void(metric) {
		return doc.Cell{Text: "void", Severity: result.Warning}
	}
	return cell
}

func percentColumn(metric string) func(*set.Cell) doc.Cell {
	return metricColumn(metric, func(m result.Metric) doc.Cell {
		return doc.Cell{Type: doc.Share, Text: fmt.Sprintf("%.0f%%", 100*m.Median), Value: m.Median}
	})
}

// firstOf shows the first of some metrics that a cell has.
func firstOf(metrics ...string) func(*set.Cell) doc.Cell {
	return func(c *set.Cell) doc.Cell {
		for _, metric := range metrics {
			if cell := sampled(c, metric, doc.Median); cell.Type != doc.Missing {
				return cell
			}
		}
		return doc.None()
	}
}

// floorOf shows the floor that a ratio of the row divides by. Rows with two kinds of pairs have a
// floor for each instead.
func floorOf(c *set.Cell) doc.Cell {
	if len(c.Samples[result.Floor+result.BetweenMachines]) > 0 {
		return doc.None()
	}
	if len(c.Samples[result.FloorRatio]) > 0 {
		return sampled(c, result.Floor, doc.Median)
	}
	return sampled(c, result.RateFloor, doc.Median)
}

func sampled[T any](c *set.Cell, metric string, show func(result.Metric) T) doc.Cell {
	m, known := c.Metric(metric)
	if !known {
		return doc.None()
	}
	return doc.CellOf(show(m))
}

// CellChecks counts the failed checks of a cell by severity, of which it has the worst. Being
// incomplete counts once, and so does a disturbed machine.
func CellChecks(c *set.Cell) doc.Cell {
	counts := map[result.Severity]int{}
	disturbed := false
	for _, d := range c.Warnings {
		if set.OfDisturbance(d) {
			disturbed = true
		} else if !(c.Incomplete && d.Name == "complete") && d.Scope != result.ScopeMachine {
			counts[SeverityOf(d.Name, d.Severity)]++
		}
	}
	var parts []string
	var worst result.Severity
	if n := counts[result.Warning]; n > 0 {
		parts, worst = append(parts, format.Count(n, "warning")), result.Warning
	}
	if disturbed {
		parts, worst = slices.Insert(parts, 0, set.Disturbed), result.Warning
	}
	if n := counts[result.Error]; n > 0 {
		parts, worst = slices.Insert(parts, 0, fmt.Sprintf("%d FAILED", n)), result.Error
	}
	if c.Incomplete {
		parts = append(parts, "incomplete")
	}
	return doc.Cell{Text: cmp.Or(strings.Join(parts, ", "), "ok"), Severity: worst}
}

// loads names what cells measure, without the transport.
type loads struct {
	labels set.Labels
	order  []string // names in order of appearance
}

// loadsOf returns the loads of cells. One with matched integrity checks is next to the same load
// with those of each transport.
func loadsOf(cells []set.Cell) loads {
	l := loads{labels: set.LabelsOf(cells)}
	shipped := loads{labels: l.labels.Without("track")}
	for i := range cells {
		c := &cells[i]
		name := l.name(c)
		if slices.Contains(l.order, name) {
			continue
		}
		at := len(l.order)
		if same := slices.Index(l.order, shipped.name(c)); same >= 0 {
			at = same + 1
		}
		l.order = slices.Insert(l.order, at, name)
	}
	return l
}

// name returns the cell's load: its profile if all cells have the same load.
func (l loads) name(c *set.Cell) string {
	return cmp.Or(l.labels.Load(c.Config), c.Config["profile"])
}

// groups returns the cells of each load, in order of appearance.
func (l loads) groups(cells []*set.Cell) [][]*set.Cell {
	groups := make([][]*set.Cell, len(l.order))
	for _, c := range cells {
		groups[l.position(c)] = append(groups[l.position(c)], c)
	}
	return slices.DeleteFunc(groups, func(group []*set.Cell) bool { return len(group) == 0 })
}

// cells returns the cells of a set that keep accepts, by load.
func (l loads) cells(s *set.Set, keep func(*set.Cell) bool) (list []*set.Cell) {
	for i := range s.Cells {
		if c := &s.Cells[i]; keep(c) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b *set.Cell) int { return l.position(a) - l.position(b) })
	return list
}

func (l loads) position(c *set.Cell) int { return slices.Index(l.order, l.name(c)) }

// Warnings returns the failed checks of a set's cells that the rows count, each once with the cells
// that it concerns, and the facts of the machine. The worst come first, and a fold has what is not
// among the first.
func Warnings(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	var g set.WarningGroups
	labels, shown := set.LabelsOf(s.Cells), state.ShownOf(s)
	for i := range s.Cells {
		for _, d := range shown.Cell(&s.Cells[i]).Warnings {
			if d.Scope != result.ScopeMachine {
				g.Add("", labels.Of(s.Cells[i].Config), d)
			}
		}
	}
	first := new(few)
	for _, d := range g.List() {
		first.add(SeverityOf(d.Check, d.Severity), GroupedWarnings([]set.GroupedWarning{d}))
	}
	for _, d := range machineFacts(s.Cells) {
		one := new(doc.Doc)
		one.Finding(doc.Paragraph, d.Severity, "this machine: "+d.Name+": "+d.Message)
		first.add(d.Severity, one)
	}
	first.write(out, "finding")
	return out
}

// machineFacts returns the failed checks about the machine, each message once, in order.
func machineFacts(cells []set.Cell) (facts []result.Finding) {
	for i := range cells {
		for _, d := range cells[i].Warnings {
			if d.Scope == result.ScopeMachine && !slices.Contains(facts, d) {
				facts = append(facts, d)
			}
		}
	}
	return facts
}
