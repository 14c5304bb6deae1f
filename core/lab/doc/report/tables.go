package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// tables are those of the overview, which the script shows where the page has their names.
type tables struct {
	All      *table   `json:"all"`
	Curves   *table   `json:"curves"`
	Findings *table   `json:"findings"`
	Machines []*table `json:"machines"`
	// Stacks are the parts of times, and Changes those of each comparison that was made.
	Stacks  []*titled `json:"stacks"`
	Changes []*titled `json:"changes"`
}

// titled is a table that is folded below its title.
type titled struct {
	Title string   `json:"title"`
	Table *table   `json:"table"`
	Notes []string `json:"notes,omitempty"`
}

// has reports whether any cell has a metric.
func (b *builder) has(metric string) bool {
	return slices.ContainsFunc(b.doc.Metrics, func(m metricColumn) bool { return m.Name == metric })
}

// ratioColumns are the ratios to floors. A cell has those that mean something for its load.
var ratioColumns = [][2]string{
	{result.FloorRatio, "p50/floor"}, {result.OpTimeRatio, "op/floor"}, {result.LibraryRatio, "x library"},
	{result.WitnessRatio, "x witness"}, {result.WitnessTimeRatio, "op/witness"},
}

// allCells is the table of all cells.
func (b *builder) allCells() *table {
	columns := [][2]string{{result.LatencyP50, "service p50"}}
	if b.has(result.ResponseP99) {
		columns = append(columns, [2]string{result.ResponseP50, "response p50"}, [2]string{result.ResponseP99, "response p99"}, [2]string{result.ResponseP999, "response p99.9"})
	}
	columns = append(columns, ratioColumns...)
	columns = append(columns, [2]string{result.HarnessShare, "harness"}, [2]string{result.BusyPerOp, "busy/op"})
	if b.has(result.ProcessCPUPerOp) {
		columns = append(columns, [2]string{result.ProcessCPUPerOp, "CPU/op"}, [2]string{result.KernelPerOp, "kernel/op"})
	} else {
		columns = append(columns, [2]string{result.CPUPerOp, "CPU/op"})
	}
	columns = slices.DeleteFunc(columns, func(c [2]string) bool { return !b.has(c[0]) && c[0] != result.LatencyP50 })
	names, helps := []string{"cell*", ">throughput*", ">95% interval"}, map[string]string{"throughput": result.Define(result.Throughput).Help}
	for _, c := range columns {
		names = append(names, ">"+c[1]+"*")
		helps[c[1]] = result.Define(c[0]).Help
	}
	states := slices.ContainsFunc(b.doc.Cells.States, func(s []inState) bool { return s != nil })
	if states {
		names = append(names, "windows", "~states")
	}
	t := newTable("Every cell", helps, append(names, "checks*")...)
	for cell := range b.cells {
		rate := b.summary(cell, result.Throughput)
		row := []entry{b.link(cell), metricEntry(rate), intervalEntry(rate)}
		for _, c := range columns {
			m := b.summary(cell, c[0])
			if c[0] == result.HarnessShare && m != nil {
				row = append(row, figure(percentOf(m.Median), m.Median))
			} else {
				row = append(row, metricEntry(m))
			}
		}
		if states {
			row = append(row, text(cmp.Or(b.doc.Cells.Windows[cell], "-")), text(statesText(b.doc.Cells.States[cell])))
		}
		t.addOf(cell, append(row, b.checksEntry(cell))...)
	}
	return t.sorted()
}

// checksEntry tells whether a cell can be used, as the tables in the terminal do.
func (b *builder) checksEntry(cell int) entry {
	c := &b.doc.Cells
	switch {
	case c.Status[cell] != string(set.Measured):
		return markup(escape(c.Status[cell]+": "+c.Reason[cell]), float64(c.Warnings[cell]))
	case c.Worst[cell] == string(result.Error):
		return markup(`<p class="error">failed: do not use</p>`, 1e6)
	case c.Warnings[cell] > 0:
		return markup(fmt.Sprintf(`<p class="%s">%s</p>`, escape(c.Worst[cell]), format.Count(c.Warnings[cell], "warning")), float64(c.Warnings[cell]))
	}
	return markup("ok", 0.0)
}

// curveTable has the points of all load curves.
func (b *builder) curveTable() *table {
	names := []string{"cell*", "loop*", ">throughput*", ">95% interval", ">p50*", ">95% interval", ">p99*", ">95% interval", ">p99.9*", ">95% interval", "past the peak"}
	if b.Objective != nil {
		names = append(names, b.Objective.Text)
	}
	t := newTable("Throughput and latency of every load", nil, append(names, "unusable because")...)
	for _, c := range b.doc.Curves {
		loop, times := "closed: service time", []string{result.LatencyP50, result.LatencyP99, result.LatencyP999}
		if c.Open {
			loop, times = "open: response time", []string{result.ResponseP50, result.ResponseP99, result.ResponseP999}
		}
		for _, p := range c.Points {
			row := []entry{b.link(p.Cell), text(loop)}
			for _, metric := range append([]string{result.Throughput}, times...) {
				m := b.summary(p.Cell, metric)
				row = append(row, metricEntry(m), intervalEntry(m))
			}
			past := ""
			if p.Past {
				past = "yes"
			}
			row = append(row, text(past))
			if b.Objective != nil {
				row = append(row, text(cmp.Or(p.Meets, "-")))
			}
			t.addOf(p.Cell, append(row, text(p.Unusable))...)
		}
	}
	return t.sorted()
}

// stackTables has the parts of times of each breakdown.
func (b *builder) stackTables() []*titled {
	list := []*titled{}
	for _, s := range b.doc.Stacks {
		names := []string{"cell*"}
		for _, part := range s.Parts {
			names = append(names, ">"+part+"*")
		}
		t := newTable(s.Title+": means", nil, append(names, ">whole*")...)
		for _, r := range s.Rows {
			row := []entry{b.link(r.Cell)}
			for i := range s.Parts {
				if i < len(r.Means) && r.Means[i] != nil {
					row = append(row, duration(*r.Means[i]))
				} else {
					row = append(row, entry{"-", nil})
				}
			}
			t.addOf(r.Cell, append(row, duration(r.Whole))...)
		}
		list = append(list, &titled{Title: s.Title + ", as a table", Table: t.sorted()})
	}
	return list
}

// changeTables has all changes of each comparison, and its notes.
func (b *builder) changeTables() []*titled {
	list := []*titled{}
	for i := range b.doc.Diffs {
		d := &b.doc.Diffs[i]
		if d.Report == nil {
			continue
		}
		t := newTable("Changes", nil, "cell*", "metric*", ">old", ">new", ">change*", ">shift*", ">interval", ">p (Holm)*", "verdict*", "~note")
		for j := range d.Report.Changes {
			c := &d.Report.Changes[j]
			cell := entry{escape(c.Cell), c.Cell}
			if d.Cells[j] >= 0 {
				cell.html = b.linkAs(d.Cells[j], c.Cell).html
			}
			old, new, state := c.Shown()
			side := func(m *result.Metric) entry {
				if m == nil {
					return text("-")
				}
				return text(strings.TrimSpace(format.Value(*m) + " " + state))
			}
			share := func(s string, v *float64) entry {
				if v == nil {
					return entry{escape(s), nil}
				}
				return figure(s, *v)
			}
			t.addOf(d.Cells[j], cell, text(c.Metric), side(old), side(new), share(format.Percent(c.OfMedians), c.OfMedians),
				share(format.Percent(c.Change), c.Change), text(format.Percents(c.Low, c.High)), share(format.Probability(c.PHolm), c.PHolm), text(string(c.Verdict)), text(c.Note))
		}
		var notes []string
		for _, a := range d.Report.Across {
			notes = append(notes, "compared across different "+a.String())
		}
		notes = append(notes, d.Report.Notes...)
		for _, side := range []struct {
			name  string
			cells []compare.Single
		}{{"old", d.Report.OnlyOld}, {"new", d.Report.OnlyNew}} {
			for _, c := range side.cells {
				notes = append(notes, "only in the "+side.name+": "+c.Cell)
			}
		}
		for _, w := range d.Report.Warnings {
			notes = append(notes, strings.Join(append(append([]string{string(w.Severity)}, w.Sides...), w.Check, format.Count(len(w.Cells), "cell"), w.Message), ": "))
		}
		list = append(list, &titled{Title: "All changes to " + b.names[d.New] + ", as a table", Table: t.sorted(), Notes: notes[:min(len(notes), notesShown)]})
	}
	return list
}

// notesShown is the number of notes of a comparison.
const notesShown = 200

// findingTable has the problems of the figures. The script counts and shows the cells that the filters
// leave.
func (b *builder) findingTable() *table {
	t := newTable("Problems of the figures", nil, "finding*", "severity*", ">cells*", "~first message", "which")
	for _, f := range b.doc.Findings {
		var links strings.Builder
		for _, cell := range f.Cells[:min(len(f.Cells), findingCells)] {
			fmt.Fprintf(&links, `<li data-c="%d">%s</li>`, cell, b.link(cell).html)
		}
		here := fmt.Sprintf(`<span data-here>%d</span>`, len(f.Cells))
		t.Groups = append(t.Groups, f.Cells)
		t.add(markup(fmt.Sprintf(`<span class="%s">%s</span>`, escape(string(f.Severity)), escape(f.Check)), f.Check), figure(string(f.Severity), float64(slices.Index(severities, f.Severity))),
			markup(here, float64(len(f.Cells))), text(f.Example), markup(`<details><summary>cells</summary><ul class="cells">`+links.String()+`</ul></details>`, nil))
	}
	return t.sorted()
}

// findingCells is the number of cells of a finding that are named.
const findingCells = 100
