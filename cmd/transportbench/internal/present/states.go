package present

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/compare"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
)

// writeStates writes the medians of closed loops in each state of the machine, for those that were
// measured in several. Without such cells it writes nothing.
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
		fmt.Fprintf(w, "\nby state of the machine (%s), from the bounces around each window:\n\n", strings.Join(states.Names(), ", "))
		t.Render()
	}
}

// writeOpenStates writes the percentiles of open loops in each state of the machine, and the share of
// the load that was served, for those that were measured in several.
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
