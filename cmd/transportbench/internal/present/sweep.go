package present

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
	"transportbench/core/lab/sweep"
)

// Plan writes the cells of a sweep that has not started.
func Plan(w io.Writer, p *sweep.Plan) {
	cells := make([]set.Cell, len(p.Cells))
	for i := range p.Cells {
		cells[i].Config = p.Cells[i].Flat()
	}
	varying := set.Varying(cells)
	t := newTable(w, ">cell", "configuration", ">a repeat takes")
	for i := range p.Cells {
		takes := "about " + Left(p.Cells[i].Expected())
		if reason := p.Cells[i].Unavailable; reason != "" {
			takes = "unavailable: " + reason
		}
		t.AppendRow(table.Row{i + 1, cells[i].Label(varying), takes})
	}
	t.Render()
	fmt.Fprintln(w)
}

// PlanSummary returns the size and the expected time of a sweep in one line.
func PlanSummary(p *sweep.Plan) string {
	return fmt.Sprintf("%s, %s each (%s), about %s", format.Count(len(p.Cells), "cell"), format.Count(p.Repeats, "repeat"), p.Order, Left(p.Expected()))
}

// Set writes one row per cell of a set.
func Set(w io.Writer, s *set.Set) {
	varying := set.Varying(s.Cells)
	t := newTable(w, "cell", "provider", ">throughput", ">95% interval", ">p50", ">p99", ">p50/floor", "checks")
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Status != set.Measured && c.Status != set.Published {
			t.AppendRow(table.Row{c.Label(varying), c.Plugin.Provider, "-", "-", "-", "-", "-", string(c.Status)})
			continue
		}
		t.AppendRow(table.Row{c.Label(varying), c.Plugin.Provider,
			sampled(c, result.Throughput, format.Value), sampled(c, result.Throughput, format.Interval),
			sampled(c, result.LatencyP50, format.Value), sampled(c, result.LatencyP99, format.Value),
			sampled(c, result.FloorRatio, format.Value), cellChecks(c)})
	}
	t.Render()
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Reason != "" {
			fmt.Fprintf(w, "%s: %s: %s\n", c.Label(varying), c.Status, c.Reason)
		}
	}
}

func sampled(c *set.Cell, metric string, show func(result.Metric) string) string {
	values := c.Samples[metric]
	if len(values) == 0 {
		return "-"
	}
	return show(result.Summarize(metric, values))
}

// cellChecks counts the failed checks of a cell by severity.
func cellChecks(c *set.Cell) string {
	var severities []result.Severity
	for _, d := range c.Warnings {
		severities = append(severities, d.Severity)
	}
	return checkSummary(severities, c.Incomplete)
}
