package report

import (
	"cmp"
	"slices"
	"strconv"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// overviewTables are those of the overview, which the script shows where the page has their names.
type overviewTables struct {
	All *cellpage.Table `json:"all"`
	// Heat has the ratios of each cell. The script adds the metric of the heat maps.
	Heat     *cellpage.Table   `json:"heat"`
	Curves   *cellpage.Table   `json:"curves"`
	Findings *cellpage.Table   `json:"findings"`
	Machines []*cellpage.Table `json:"machines"`
	// Stacks are the parts of times, and Changes those of each comparison that was made.
	Stacks  []*titled `json:"stacks"`
	Changes []*titled `json:"changes"`
}

// titled is a table that is folded below its title.
type titled struct {
	Title string          `json:"title"`
	Table *cellpage.Table `json:"table"`
	HTML  string          `json:"html,omitempty"` // what is below the table
}

// has reports whether any cell has a metric.
func (b *builder) has(metric string) bool { return b.column(metric) != nil }

// ratioColumns are the ratios to floors. A cell has those that mean something for its load.
var ratioColumns = [][2]string{
	{result.FloorRatio, "p50/floor"}, {result.OpTimeRatio, "op/floor"},
	{result.LibraryRatio, "x library"},
	{result.BareRatio, "p50/bare"}, {result.BareTimeRatio, "op/bare"},
	{result.WitnessRatio, "x reference tool"}, {result.WitnessTimeRatio, "op x reference tool"},
}

func (b *builder) allCells() *cellpage.Table {
	columns := [][2]string{{result.LatencyP50, "service p50"}}
	if b.has(result.ResponseP99) {
		columns = append(columns, [2]string{result.ResponseP50, "response p50"},
			[2]string{result.ResponseP99, "response p99"},
			[2]string{result.ResponseP999, "response p99.9"})
	}
	columns = append(columns, ratioColumns...)
	columns = append(columns, [2]string{result.Bare, "bare"},
		[2]string{result.BareRate, "bare op"}, [2]string{result.BusyPerOp, "busy/op"})
	if b.has(result.ProcessCPUPerOp) {
		columns = append(columns, [2]string{result.ProcessCPUPerOp, "CPU/op"},
			[2]string{result.KernelPerOp, "kernel/op"})
	} else {
		columns = append(columns, [2]string{result.CPUPerOp, "CPU/op"})
	}
	columns = slices.DeleteFunc(columns, func(c [2]string) bool {
		return !b.has(c[0]) &&
			c[0] != result.LatencyP50
	})
	names, helps := []string{"cell", ">throughput", ">95% interval"},
		map[string]string{"throughput": result.Define(result.Throughput).Help}
	for _, c := range columns {
		names = append(names, ">"+c[1])
		helps[c[1]] = result.Define(c[0]).Help
	}
	states := slices.ContainsFunc(b.doc.Cells.States, func(s string) bool { return s != "" })
	if states {
		names = append(names, "windows", "states")
	}
	t := doc.NewTable(append(names, "checks")...).Wrap(1, "states").Explain(helps)
	for cell := range b.cells {
		rate := b.summary(cell, result.Throughput)
		row := []any{b.link(cell), doc.MedianOf(rate), interval(rate)}
		for _, c := range columns {
			row = append(row, tables.Figure(b.shown[cell], c[0]))
		}
		if states {
			row = append(row, cmp.Or(b.doc.Cells.Windows[cell], "-"), b.doc.Cells.States[cell])
		}
		t.Row(append(row, b.checksEntry(cell))...)
	}
	return cellpage.NewTable("Every cell", t, b.numbers()...)
}

// heatTable has two empty columns for a metric and its interval.
func (b *builder) heatTable() *cellpage.Table {
	names := []string{"cell", ">", ">95% interval"}
	columns := slices.DeleteFunc(slices.Clone(ratioColumns), func(c [2]string) bool {
		return !b.has(c[0])
	})
	helps := map[string]string{}
	for _, c := range columns {
		names = append(names, ">"+c[1])
		helps[c[1]] = result.Define(c[0]).Help
	}
	t := doc.NewTable(names...).Explain(helps)
	for cell := range b.cells {
		row := []any{b.link(cell), "", ""}
		for _, c := range columns {
			row = append(row, tables.Figure(b.shown[cell], c[0]))
		}
		t.Row(row...)
	}
	return cellpage.NewTable("The figures of the heat map", t, b.numbers()...)
}

// link is a link to a cell's page.
func (b *builder) link(cell int) doc.Cell { return cellpage.Link(cell, b.label(cell)) }

// label returns a cell's label, with its set if there are several.
func (b *builder) label(cell int) string {
	if len(b.sets) > 1 {
		return b.names[b.doc.Cells.Set[cell]] + ": " + b.doc.Cells.Label[cell]
	}
	return b.doc.Cells.Label[cell]
}

// numbers are those of all cells.
func (b *builder) numbers() []int {
	list := make([]int, len(b.cells))
	for i := range list {
		list[i] = i
	}
	return list
}

func interval(m *result.Metric) string {
	if m == nil {
		return "-"
	}
	return format.Interval(*m)
}

// checksEntry returns the outcome of the checks of a cell.
func (b *builder) checksEntry(cell int) doc.Cell {
	c := &b.doc.Cells
	switch {
	case c.Status[cell] != string(set.Measured):
		return doc.Judged("", c.Status[cell]+": "+c.Reason[cell], float64(c.Warnings[cell]))
	case c.Worst[cell] == string(result.Error):
		return doc.Judged(result.Error, "failed: do not use", 1e6)
	case c.Warnings[cell] > 0:
		return doc.Judged(result.Severity(c.Worst[cell]), format.Count(c.Warnings[cell], "warning"),
			float64(c.Warnings[cell]))
	}
	return doc.CellOf("ok")
}

// curveTable has the points of all load curves.
func (b *builder) curveTable() *cellpage.Table {
	names := []string{"cell", "loop", ">throughput", ">95% interval", ">p50", ">95% interval",
		">p99", ">95% interval", ">p99.9", ">95% interval", "past the peak"}
	if b.Objective != nil {
		names = append(names, b.Objective.Text)
	}
	t, cells := doc.NewTable(append(names, "unusable because")...), []int{}
	for _, c := range b.doc.Curves {
		loop, times := "closed: service time", []string{result.LatencyP50, result.LatencyP99,
			result.LatencyP999}
		if c.Open {
			loop, times = "open: response time", []string{result.ResponseP50, result.ResponseP99,
				result.ResponseP999}
		}
		for _, p := range c.Points {
			row := []any{b.link(p.Cell), loop}
			for _, metric := range append([]string{result.Throughput}, times...) {
				m := b.summary(p.Cell, metric)
				row = append(row, doc.MedianOf(m), interval(m))
			}
			past := ""
			if p.Past {
				past = "yes"
			}
			row = append(row, past)
			if b.Objective != nil {
				row = append(row, cmp.Or(p.Meets, "-"))
			}
			t.Row(append(row, p.Unusable)...)
			cells = append(cells, p.Cell)
		}
	}
	return cellpage.NewTable("Throughput and latency of every load", t, cells...)
}

// stackTables has the parts of times of each breakdown.
func (b *builder) stackTables(breakdowns []breakdown) []*titled {
	list := []*titled{}
	for _, l := range breakdowns {
		names, means := []string{"cell"}, make([]map[string]float64, len(l.parts))
		for i, d := range l.parts {
			means[i] = map[string]float64{}
			for _, p := range d.Parts {
				means[i][">"+p.Name] += p.Mean // the medium is inside of two parts
				if !slices.Contains(names, ">"+p.Name) {
					names = append(names, ">"+p.Name)
				}
			}
		}
		t := doc.NewTable(append(names, ">whole")...)
		for i, cell := range l.cells {
			row := []any{b.link(cell)}
			for _, name := range names[1:] {
				if mean, has := means[i][name]; has {
					row = append(row, doc.Time(mean))
				} else {
					row = append(row, doc.None())
				}
			}
			t.Row(append(row, doc.Time(l.parts[i].Whole))...)
		}
		list = append(list, &titled{Title: l.Title + ", as a table",
			Table: cellpage.NewTable(l.Title+": means", t, l.cells...)})
	}
	return list
}

// changeTables has all changes of each comparison, and what diff says besides.
func (b *builder) changeTables() []*titled {
	list := []*titled{}
	for i := range b.doc.Diffs {
		d := &b.doc.Diffs[i]
		if d.Report == nil {
			continue
		}
		title := "All changes to " + b.names[d.New]
		if d.Machine != "" {
			title += " on " + d.Machine
		}
		changes := &titled{Title: title + ", as a table"}
		t, rest := findings.AllChanges(d.Report)
		if t != nil {
			cells := make([]int, len(d.Cells))
			for row, i := range findings.ByVerdict(d.Report.Changes) {
				if cells[row] = d.Cells[i]; cells[row] >= 0 {
					t.Rows[row][0] = cellpage.Link(cells[row], t.Rows[row][0].Text)
				}
			}
			changes.Table = cellpage.NewTable("Changes", t, cells...)
		}
		changes.HTML = doc.HTML(rest)
		list = append(list, changes)
	}
	return list
}

// findingTable has the problems of the figures. The script counts and shows the cells that the
// filters leave.
func (b *builder) findingTable() *cellpage.Table {
	t := doc.NewTable("finding", "severity", ">cells", "message", "which").Wrap(1, "message")
	var groups [][]int
	for _, f := range b.findings() {
		var cells []int
		for _, number := range f.Cells {
			cell, _ := strconv.Atoi(number) // as findings wrote it
			cells = append(cells, cell)
		}
		groups = append(groups, cells)
		severity := doc.Judged("", string(f.Severity), float64(severityOf(f.Severity)))
		t.Row(doc.Judged(f.Severity, f.Check, 0), severity, len(cells), f.Message, "")
	}
	all := cellpage.NewTable("Problems of the figures", t)
	all.Groups = groups
	return all
}
