package tables

import (
	"slices"
	"strconv"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// mostFlows bounds the rows of the table. The result has all flows.
const mostFlows = 16

// flows writes one row for each calling rank and rank that it called, or the slowest ones of many.
func flows(out *doc.Doc, r *result.Result) {
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
	out.Line("the operations by rank")
	t := doc.NewTable(">from", ">to", ">throughput", ">share", ">mean", ">p50", ">p99", ">max")
	for _, f := range list {
		l := f.Latency
		t.Row(strconv.Itoa(f.From), strconv.Itoa(f.To), doc.Rate(f.PerSecond), doc.Part(f.PerSecond/all), doc.Time(l.Mean), doc.Time(l.P50), doc.Time(l.P99), doc.Time(l.Max))
	}
	out.Add(t)
	if more > 0 {
		out.Line("and %s, faster at the median, in the result", format.Count(more, "more pair"))
	}
	out.Gap()
}
