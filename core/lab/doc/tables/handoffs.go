package tables

import (
	"slices"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Handoffs returns how long the hand-offs of each measured cell take, and which share of the rate
// in bulk they reach. It is empty if the set has none.
func Handoffs(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	list := analyze.HandoffsOf(s)
	if len(list) == 0 {
		return out
	}
	loads, shown := loadsOf(s.Cells), state.ShownOf(s)
	slices.SortStableFunc(list, func(a, b analyze.Handoff) int {
		return loads.position(&s.Cells[a.At]) - loads.position(&s.Cells[b.At])
	})
	rows, handoffs := make([]*set.Cell, len(list)), map[*set.Cell]*analyze.Handoff{}
	ended := true
	for i := range list {
		rows[i] = shown.Cell(&s.Cells[list[i].At])
		handoffs[rows[i]] = &list[i]
		ended = ended && list[i].All != nil
	}
	out.Line("\nhand-offs: from the first page that is sent to the last of the first layer, and " +
		"to the last of all;\nof bulk: rate over that in bulk, and its 95% interval:")
	labels := loads.labels.Without(append(analyze.OfPages(), "read_ratio")...)
	writeRows(out, rows, func(c *set.Cell) string { return labels.Load(c.Config) },
		col(">first layer", metricColumn(result.FirstPart+"_p50", doc.Median)),
		col(">p99", metricColumn(result.FirstPart+"_p99", doc.Median)),
		col(">all", metricColumn(result.Iteration+"_p50", doc.Median)),
		col(">p99 of all", metricColumn(result.Iteration+"_p99", doc.Median)),
		col(">rate", metricColumn(result.Goodput, doc.Median)),
		col(">of bulk", func(c *set.Cell) doc.Cell {
			if share := handoffs[c].BulkShare; share != nil {
				return doc.Part(*share)
			}
			return doc.None()
		}),
		col(">between", func(c *set.Cell) doc.Cell {
			if h := handoffs[c]; h.Low != nil {
				return doc.CellOf(format.Digits(100**h.Low) + " to " +
					format.Digits(100**h.High) + "%")
			}
			return doc.None()
		}),
		col("checks", CellChecks),
	)
	if !ended {
		out.Line("-: no hand-off ended in a window; use a longer --duration")
	}
	return out
}
