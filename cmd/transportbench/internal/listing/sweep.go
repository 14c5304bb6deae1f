package listing

import (
	"fmt"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/tables"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// Plan returns the cells of a sweep that has not started, and b is what it measures beside windows.
func Plan(p *experiment.Plan, b runner.Beside) *doc.Doc {
	out := new(doc.Doc)
	cells := make([]set.Cell, len(p.Cells))
	for i := range p.Cells {
		cells[i].Config = p.Cells[i].Flat()
	}
	labels := set.LabelsOf(cells)
	t := doc.NewTable(">cell", "configuration", ">a repeat takes").Wrap(20, "configuration")
	for i := range p.Cells {
		takes := "about " + format.Left(p.Cells[i].Expected(b))
		if reason := p.Cells[i].Unavailable; reason != "" {
			takes = "unavailable: " + reason
		}
		t.Row(i+1, labels.Of(cells[i].Config), takes)
	}
	out.Add(t)
	out.Gap()
	out.Append(tables.Common(cells))
	out.Line("%s", PlanSummary(p, b))
	return out
}

// PlanSize returns the size of a sweep.
func PlanSize(p *experiment.Plan) string {
	return fmt.Sprintf("%s, %s each (%s)", format.Count(len(p.Cells), "cell"),
		format.Count(p.Repeats, "repeat"), p.Order)
}

// PlanSummary returns the size and the expected time of a sweep in one line, without and with
// top-ups.
func PlanSummary(p *experiment.Plan, b runner.Beside) string {
	takes := format.Left(p.Expected(b))
	if more := p.TopUps(b); more > 0 {
		takes += " to " + format.Left(p.Expected(b)+more)
	}
	return PlanSize(p) + ", about " + takes
}
