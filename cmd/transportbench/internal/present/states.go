package present

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/compare"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
)

// writeStates writes the medians of closed loops in each state of the machine. If there is one state
// only, it writes nothing.
func writeStates(w io.Writer, closed []*set.Cell, loads loads, states compare.States) {
	t := statesTable(w, states, "", " p50")
	for _, c := range closed {
		rates := states.Medians(c, result.Throughput)
		if rates == nil {
			continue
		}
		times := states.Medians(c, result.LatencyP50)
		row := table.Row{loads.name(c), c.Transport()}
		for _, name := range states.Names() {
			row = append(row, inState(rates, name), inState(times, name))
		}
		t.AppendRow(append(row, windowsByState(states.Divide(c.Windows))))
	}
	if t.Length() > 0 {
		fmt.Fprintf(w, "\nby state of the machine (%s), from the bounces around each window; the order of the rows is that of the state\nin which all of a load have most windows:\n\n", strings.Join(states.Names(), ", "))
		t.Render()
	}
}

// writeOpenStates writes the percentiles of open loops in each state of the machine, and the share of
// the load that was served. If there is one state only, it writes nothing.
func writeOpenStates(w io.Writer, s *set.Set, open []*set.Cell, loads loads, states compare.States) {
	t := statesTable(w, states, " p50", " p99", " served")
	for _, c := range open {
		divided := states.Divide(c.Windows)
		if divided == nil {
			continue
		}
		responses, err := s.Responses(c)
		if err != nil {
			continue // the results are not there
		}
		pools, err := states.Pool(c, responses)
		if pools == nil || err != nil {
			continue
		}
		row := table.Row{loads.name(c), c.Transport()}
		for _, name := range states.Names() {
			row = append(row, poolInState(pools, name)...)
		}
		t.AppendRow(append(row, windowsByState(divided)))
	}
	if t.Length() > 0 {
		fmt.Fprintf(w, "\nopen loops by state of the machine (%s): response times of all windows in that state together, and the share of the operations due that was served:\n\n",
			strings.Join(states.Names(), ", "))
		t.Render()
	}
}

// statesTable returns a table of cells with some columns for each state.
func statesTable(w io.Writer, states compare.States, columns ...string) table.Writer {
	headers := []string{"load", "transport"}
	for _, name := range states.Names() {
		for _, column := range columns {
			headers = append(headers, ">"+name+column)
		}
	}
	return newTable(w, append(headers, "windows")...)
}

// windowsByState counts windows: "9 near, 1 far".
func windowsByState(divided []compare.InState) string {
	var counts []string
	for _, in := range divided {
		counts = append(counts, fmt.Sprintf("%d %s", len(in.Windows), in.State))
	}
	return strings.Join(counts, ", ")
}

// byCommonState sorts cells by load, and within a load by throughput, the highest first. If the
// machine was in several states, the median in the state counts in which all cells of the load were
// measured most, so that no transport leads because it drew the fast state more often.
func byCommonState(cells []*set.Cell, loads loads, states compare.States) {
	of := map[string][]*set.Cell{}
	for _, c := range cells {
		of[loads.name(c)] = append(of[loads.name(c)], c)
	}
	rates := map[*set.Cell]float64{}
	for _, list := range of {
		common := states.Common(list)
		for _, c := range list {
			rates[c] = medianOf(c, result.Throughput)
			for _, m := range states.Medians(c, result.Throughput) {
				if m.State == common {
					rates[c] = m.Metric.Median
				}
			}
		}
	}
	slices.SortStableFunc(cells, func(a, b *set.Cell) int {
		return cmp.Or(cmp.Compare(loads.position(a), loads.position(b)), cmp.Compare(rates[b], rates[a]))
	})
}

func inState(medians []compare.StateMedian, state string) string {
	for _, m := range medians {
		if m.State == state {
			return format.Value(m.Metric)
		}
	}
	return "-"
}

func poolInState(pools []compare.StatePool, state string) table.Row {
	for _, p := range pools {
		if p.State != state {
			continue
		}
		row := table.Row{}
		for _, metric := range []string{result.ResponseP50, result.ResponseP99} {
			text := "-"
			if q, known := p.Percentiles[metric]; known {
				text = format.Time(q.Value)
			}
			row = append(row, text)
		}
		return append(row, fmt.Sprintf("%.0f%%", 100*p.Served))
	}
	return table.Row{"-", "-", "-"}
}
