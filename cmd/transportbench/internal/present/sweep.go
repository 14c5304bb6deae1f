package present

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/experiment/sweep"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// Plan writes the cells of a sweep that has not started, and b is what it measures beside windows.
func Plan(w io.Writer, p *sweep.Plan, b runner.Beside) {
	cells := make([]set.Cell, len(p.Cells))
	for i := range p.Cells {
		cells[i].Config = p.Cells[i].Flat()
	}
	labels := set.LabelsOf(cells)
	t := newTable(w, ">cell", "configuration", ">a repeat takes").wrap(20, "configuration")
	for i := range p.Cells {
		takes := "about " + Left(p.Cells[i].Expected(b))
		if reason := p.Cells[i].Unavailable; reason != "" {
			takes = "unavailable: " + reason
		}
		t.AppendRow(table.Row{i + 1, labels.Of(cells[i].Config), takes})
	}
	t.Render()
	fmt.Fprintf(w, "\n%s\n", PlanSummary(p, b))
}

// PlanSummary returns the size and the expected time of a sweep in one line.
func PlanSummary(p *sweep.Plan, b runner.Beside) string {
	return fmt.Sprintf("%s, %s each (%s), about %s", format.Count(len(p.Cells), "cell"), format.Count(p.Repeats, "repeat"), p.Order, Left(p.Expected(b)))
}
