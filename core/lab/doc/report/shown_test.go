package report

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The figures of the page, its heat maps and diff --along transport are of the same windows, for
// all transports and metrics of a set that saw several states of the machine.
func TestFiguresAreThoseOfDiff(t *testing.T) {
	s := committed(t)
	o := compare.Defaults()
	o.Metrics = compare.AllMetrics()
	ranking, err := compare.Along(s, "transport", o)
	require.NoError(t, err)
	require.Greater(t, len(ranking.States), 1)
	s = committed(t) // Build sorts its cells
	p := build(t, s)
	numbers := map[string]int{}
	for i := range s.Cells {
		numbers[s.Cells[i].Key()] = i
	}
	shown := map[int]string{} // the throughput in the heat map
	for _, m := range p.heat {
		for _, row := range m.Rows {
			for _, c := range row.Cells {
				shown[c.Cell] = c.Text
			}
		}
	}
	compared, inState, choice := 0, 0, state.ShownOf(s)
	for _, group := range ranking.Groups {
		for i, c := range group.Cells() {
			cell, known := numbers[c.Key()]
			if !known {
				continue // a copy on the other track
			}
			compared++
			want := group.List[i]
			for _, m := range p.doc.Metrics {
				if m.Name == group.Metric && !choice.Cell(&s.Cells[cell]).Void(m.Name) {
					require.Equal(t, want.Metric.Median, m.Values[cell].Median, "%s %s",
						p.doc.Cells.Label[cell], group.Metric)
					require.Equal(t, want.Metric.N, m.Values[cell].N)
				}
			}
			if want.State != "" {
				inState++
				require.Contains(t, p.doc.Cells.Windows[cell], want.State)
			}
			if group.Metric == result.Throughput {
				require.Equal(t, format.Value(want.Metric), shown[cell])
			}
		}
	}
	require.Greater(t, compared, 100)
	require.Greater(t, inState, compared*9/10, "the others have no such window")
}

// A diff of two sets has the failed checks of its cells, and the calibration of its two machines
// alone.
func TestDiffOnThePageIsThatOfTheCommand(t *testing.T) {
	old, new := fakeSet(t, loads()[:3], 6, 1), fakeSet(t, loads()[:3], 6, 1.3)
	want, err := compare.Diff(old, new, compare.Defaults())
	require.NoError(t, err)
	require.NotEmpty(t, want.Warnings)
	got := build(t, old, new).doc.Diffs[0].Report
	require.Equal(t, want.Warnings, got.Warnings)
}

// Void ratios are void on the page, too, and in no chart.
func TestVoidRatios(t *testing.T) {
	s := fakeSet(t, loads()[:2], 6, 1)
	find := func(p *Page) int {
		return slices.IndexFunc(p.doc.Metrics, func(m metricColumn) bool {
			return slices.Contains(result.RatiosToFloor, m.Name) && m.Values[0] != nil
		})
	}
	require.GreaterOrEqual(t, find(build(t, s)), 0)
	s.Cells[0].Warnings = append(s.Cells[0].Warnings,
		result.Finding{Name: set.FloorBeaten, Severity: result.Warning, Message: "beaten"})
	p := build(t, s)
	require.Negative(t, find(p))
	require.Empty(t, p.doc.Cells.Limit[0])
	table, err := json.Marshal(p.doc.Tables.All)
	require.NoError(t, err)
	require.Contains(t, string(table), "void")
}
