package present

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// mostFlows bounds the rows of the table. The result has all flows.
const mostFlows = 16

// flows writes one row for each calling rank and rank that it called, or the slowest ones of many.
func flows(w io.Writer, r *result.Result) {
	list, err := result.FlowsOf(r.Repeats)
	if err != nil || len(list) == 0 {
		return // a check reports it
	}
	all := 0.0
	for _, f := range list {
		all += f.PerSecond
	}
	more := len(list) - mostFlows
	if more > 0 {
		slices.SortStableFunc(list, func(a, b result.Flow) int { return int(b.Latency.P50 - a.Latency.P50) })
		list = list[:mostFlows]
	}
	fmt.Fprintln(w, "the operations by rank")
	t := newTable(w, ">from", ">to", ">throughput", ">share", ">mean", ">p50", ">p99", ">max")
	for _, f := range list {
		l := f.Latency
		t.AppendRow(table.Row{strconv.Itoa(f.From), strconv.Itoa(f.To), format.Rate(f.PerSecond), portion(f.PerSecond / all),
			format.Time(l.Mean), format.Time(l.P50), format.Time(l.P99), format.Time(l.Max)})
	}
	t.Render()
	if more > 0 {
		fmt.Fprintf(w, "and %s, faster at the median, in the result\n", format.Count(more, "more pair"))
	}
	fmt.Fprintln(w)
}
