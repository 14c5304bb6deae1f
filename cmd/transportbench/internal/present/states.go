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

// writeStates writes the medians of cells in each state of the machine, for those that were measured
// in several. Without such cells it writes nothing.
func writeStates(w io.Writer, s *set.Set, cells []*set.Cell, loads loads) {
	states := compare.FindStates(s)
	headers := []string{"load", "transport"}
	for _, name := range states.Names() {
		headers = append(headers, ">"+name, ">"+name+" p50")
	}
	t := newTable(w, append(headers, "windows")...)
	for _, c := range cells {
		latency := result.LatencyP50
		if len(c.Samples[result.ResponseP50]) > 0 {
			latency = result.ResponseP50
		}
		rates := states.Medians(c, result.Throughput)
		if rates == nil {
			continue
		}
		times := states.Medians(c, latency)
		row := table.Row{loads.name(c), c.Transport()}
		for _, name := range states.Names() {
			row = append(row, inState(rates, name), inState(times, name))
		}
		var windows []string
		for _, m := range rates {
			windows = append(windows, fmt.Sprintf("%d %s", m.Metric.N, m.State))
		}
		t.AppendRow(append(row, strings.Join(windows, ", ")))
	}
	if t.Length() == 0 {
		return
	}
	fmt.Fprintf(w, "\nby state of the machine (%s), from the bounces around each window:\n\n", strings.Join(states.Names(), ", "))
	t.Render()
}

func inState(medians []compare.StateMedian, state string) string {
	for _, m := range medians {
		if m.State == state {
			return format.Value(m.Metric)
		}
	}
	return "-"
}
