package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// mostFlows bounds the rows of a terminal's table. The result has all flows.
const mostFlows = 16

// Flows returns one row for each calling rank and rank that it called, or the most slowest ones of
// many. If most is 0, it returns all.
func Flows(list []result.Flow, most int) *doc.Doc {
	out := new(doc.Doc)
	if len(list) == 0 {
		return out
	}
	all := 0.0
	for _, f := range list {
		all += f.PerSecond
	}
	worst := ""
	if ratio, ok := result.Straggler(list); ok {
		slowest := slices.MaxFunc(list, func(a, b result.Flow) int {
			return cmp.Compare(a.Latency.P50, b.Latency.P50)
		})
		worst = fmt.Sprintf(
			"the slowest pair is rank %d to rank %d: its p50 of %s is %s x that of "+
				"the median pair", slowest.From, slowest.To, format.Time(slowest.Latency.P50),
			format.Digits(ratio))
	}
	more := len(list) - most
	if most > 0 && more > 0 {
		slices.SortStableFunc(list, func(a, b result.Flow) int {
			return int(b.Latency.P50 - a.Latency.P50)
		})
		list = list[:most]
	}
	out.Line(
		"the operations by the calling rank and the rank that it called; times are service times")
	t := doc.NewTable(">from", ">to", ">throughput", ">share", ">mean", ">p50", ">p99", ">max")
	for _, f := range list {
		l := f.Latency
		t.Row(strconv.Itoa(f.From), strconv.Itoa(f.To), doc.Rate(f.PerSecond),
			doc.Part(f.PerSecond/all), doc.Time(l.Mean), doc.Time(l.P50), doc.Time(l.P99),
			doc.Time(l.Max))
	}
	out.Add(t)
	if most > 0 && more > 0 {
		out.Line("and %s, faster at the median, in the result", format.Count(more, "more pair"))
	}
	if worst != "" {
		out.Line("%s", worst)
	}
	out.Gap()
	return out
}
