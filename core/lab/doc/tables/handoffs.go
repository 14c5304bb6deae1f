package tables

import (
	"fmt"
	"slices"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Handoffs returns how long the hand-offs of each measured cell take, and which share of the rate
// in bulk they reach. It is empty if the set has none.
func Handoffs(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	loads := loadsOf(s.Cells)
	var rows []*set.Cell
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Status == set.Measured && c.Run != nil && c.Run.Handoff != "" {
			rows = append(rows, c)
		}
	}
	if len(rows) == 0 {
		return out
	}
	slices.SortStableFunc(rows, func(a, b *set.Cell) int {
		return loads.position(a) - loads.position(b)
	})
	rows = shownCells(rows, compare.ShownOf(s))
	inBulk := map[string]float64{}
	for _, c := range rows {
		if c.Run.Bulk() {
			key := handoffKey(c)
			inBulk[key] = max(inBulk[key], medianOf(c, result.Goodput))
		}
	}
	out.Line("\nhand-offs: from the first page that is sent to the last of the first layer, and " +
		"to the last of all;\nof bulk: rate over that in bulk:")
	labels := loads.labels.Without(append(slices.Clone(ofPages), "read_ratio")...)
	writeRows(out, rows, func(c *set.Cell) string { return labels.Load(c.Config) },
		col(">first layer", metricColumn(result.FirstPart+"_p50", doc.Median)),
		col(">p99", metricColumn(result.FirstPart+"_p99", doc.Median)),
		col(">all", metricColumn(result.Iteration+"_p50", doc.Median)),
		col(">p99 of all", metricColumn(result.Iteration+"_p99", doc.Median)),
		col(">rate", metricColumn(result.Goodput, doc.Median)),
		col(">of bulk", func(c *set.Cell) doc.Cell {
			if bulk := inBulk[handoffKey(c)]; bulk > 0 && !c.Run.Bulk() {
				return doc.Part(medianOf(c, result.Goodput) / bulk)
			}
			return doc.None()
		}),
		col("checks", CellChecks),
	)
	if slices.ContainsFunc(rows, func(c *set.Cell) bool {
		_, ended := c.Metric(result.Iteration + "_p50")
		return !ended
	}) {
		out.Line("-: no hand-off ended in a window; use a longer --duration")
	}
	return out
}

// ofPages are the options that follow from the size of pages.
var ofPages = []string{"value_size", "in_flight", "keys", "distribution"}

// handoffKey identifies a hand-off, however it moves.
func handoffKey(c *set.Cell) string {
	return fmt.Sprintf("%d %s %s", c.Environment, c.Plugin.Provider,
		c.Key(append(slices.Clone(ofPages), "tokens_per_block")...))
}
