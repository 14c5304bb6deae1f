package tables

import (
	"cmp"
	"fmt"
	"slices"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// writeStates writes the medians of closed loops in each state of the machine, with the ratio to
// the floor that the load allows. If there is one state only, it writes nothing.
func writeStates(out *doc.Doc, closed []*set.Cell, loads loads, states state.Classifier) {
	t := statesTable(states, "", " p50", " x floor")
	for _, c := range closed {
		rates := states.Medians(c, result.Throughput)
		if rates == nil {
			continue
		}
		times, ratios := states.Medians(c, result.LatencyP50), states.Ratios(c)
		row := []any{loads.name(c), c.Transport()}
		for _, name := range states.Names() {
			row = append(row, inState(rates, name), inState(times, name), inState(ratios, name))
		}
		t.Row(append(row, states.Counts(c))...)
	}
	if len(t.Rows) > 0 {
		out.Line("states are from the core distances around each window; x floor: p50/floor or " +
			"op/floor in that state\n")
		out.Add(t)
	}
}

// writeOpenStates writes the percentiles of open loops in each state of the machine, and the share
// of the load that was served. The load is shown as a share of the throughput of closed, which has
// the cells at [config.RateMax], in that state. If there is one state only, it writes nothing.
func writeOpenStates(out *doc.Doc, open, closed []*set.Cell, loads loads, states state.Classifier,
	pools map[*set.Cell][]state.Pool) {
	t := statesTable(states, " load", " p50", " p99", " served")
	for _, c := range open {
		if pools[c] == nil {
			continue
		}
		row := []any{loads.name(c), c.Transport()}
		for _, name := range states.Names() {
			row = append(row, shareOfCapacity(closed, c, states, name))
			row = append(row, poolInState(pools[c], name)...)
		}
		t.Row(append(row, states.Counts(c))...)
	}
	if len(t.Rows) > 0 {
		out.Line("open loops: response times of all windows in that state together,\n" +
			"the load as a share of the median throughput at rate=max in that state, and the " +
			"share of the operations due that was served:\n")
		out.Add(t)
	}
}

// openPools returns the percentiles of open loops by state. Cells without results have none.
func openPools(s *set.Set, open []*set.Cell,
	states state.Classifier) map[*set.Cell][]state.Pool {
	pools := map[*set.Cell][]state.Pool{}
	for _, c := range open {
		if states.Divide(c.Windows) == nil {
			continue
		}
		if responses, err := s.Responses(c); err == nil {
			pools[c], _ = states.Pool(c, responses) // nil if a histogram is broken
		}
	}
	return pools
}

// statesTable returns a table of cells with some columns for each state.
func statesTable(states state.Classifier, columns ...string) *doc.Table {
	headers := []string{"load", "transport"}
	for _, name := range states.Names() {
		for _, column := range columns {
			headers = append(headers, ">"+name+column)
		}
	}
	var fewer []string // the fastest state and its p50 are kept longest
	for i, name := range slices.Backward(states.Names()) {
		for j, column := range slices.Backward(columns) {
			if i > 0 || j > 1 {
				fewer = append(fewer, name+column)
			}
		}
	}
	return doc.NewTable(append(headers, "windows")...).Drop(fewer...)
}

// shownCells returns each cell with the windows that the tables show.
func shownCells(cells []*set.Cell, shown state.Shown) []*set.Cell {
	rows := make([]*set.Cell, len(cells))
	for i, c := range cells {
		rows[i] = shown.Cell(c)
	}
	return rows
}

// bestFirst sorts cells by load, and within a load by a metric, the best first: by its value in the
// state of the machine in which all cells of the load were measured most, so that no transport
// leads because it drew the fast state more often. Without such a state, the order is that of
// [compare.BestFirst]. Cells that missed their rate are last. value returns the metric of a cell
// in a state, or of all windows if it has none in the state.
func bestFirst(cells []*set.Cell, loads loads, states state.Classifier, metric string,
	value func(c *set.Cell, state string) float64) {
	sorted := cells[:0:0]
	for _, list := range loads.groups(cells) {
		common := states.Common(list)
		slices.SortStableFunc(list, func(a, b *set.Cell) int {
			order := cmp.Compare(value(a, common), value(b, common))
			if result.Define(metric).Better == result.Higher {
				return -order
			}
			return order
		})
		if common == "" && states.Count() > 1 {
			compare.BestFirst(list, metric, states)
		}
		slices.SortStableFunc(list, func(a, b *set.Cell) int {
			switch missed := missedRate(a); {
			case missed == missedRate(b):
				return 0
			case missed:
				return 1
			}
			return -1
		})
		sorted = append(sorted, list...)
	}
	copy(cells, sorted)
}

func inState(medians []state.Median, state string) doc.Cell {
	for _, m := range medians {
		if m.State == state {
			return doc.Median(m.Metric)
		}
	}
	return doc.None()
}

// shareOfCapacity returns the rate of an open loop as a share of the median throughput at rate=max
// in a state, or a dash if it was not measured there.
func shareOfCapacity(closed []*set.Cell, c *set.Cell, states state.Classifier,
	state string) string {
	for _, reference := range closed {
		if !reference.FindsCapacity() || reference.Key(rateOption) != c.Key(rateOption) {
			continue
		}
		for _, m := range states.Medians(reference, result.Throughput) {
			if m.State == state && m.Metric.Median > 0 {
				if share := c.OfferedRate() / m.Metric.Median; share >= 0.01 {
					return fmt.Sprintf("%.0f%%", 100*share)
				}
				return "<1%"
			}
		}
	}
	return "-"
}

func poolInState(pools []state.Pool, state string) []any {
	for _, p := range pools {
		if p.State != state {
			continue
		}
		row := []any{}
		for _, metric := range []string{result.ResponseP50, result.ResponseP99} {
			cell := doc.None()
			if q, known := p.Percentiles[metric]; known {
				cell = doc.Time(q.Value)
			}
			row = append(row, cell)
		}
		return append(row, fmt.Sprintf("%.0f%%", 100*p.Served))
	}
	return []any{"-", "-", "-"}
}
