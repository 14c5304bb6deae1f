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

// maxFlows bounds the rows of a terminal's table. The result has all flows.
const maxFlows = 16

// Flows returns a row for each pair of a calling rank and a rank that it called, or the slowest
// pairs if there are more than limit. A limit of 0 is none.
func Flows(list []result.Flow, limit int) *doc.Doc {
	out := new(doc.Doc)
	if len(list) == 0 {
		return out
	}
	all := 0.0
	for _, f := range list {
		all += f.PerSecond
	}
	slowest := func(timesOf func(result.Flow) result.Spread) result.Flow {
		return slices.MaxFunc(list, func(a, b result.Flow) int {
			return cmp.Compare(timesOf(a).P50, timesOf(b).P50)
		})
	}
	alone := slowest(func(f result.Flow) result.Spread { return f.Alone })
	worst := ""
	if ratio, ok := result.Straggler(list); ok {
		loaded := slowest(func(f result.Flow) result.Spread { return f.Latency })
		worst = fmt.Sprintf(
			"the slowest pair is rank %d to rank %d: its p50 of %s is %s x that of "+
				"the median pair", loaded.From, loaded.To, format.Time(loaded.Latency.P50),
			format.Digits(ratio))
	}
	isolated := alone.Alone.Samples > 0
	if isolated && worst != "" {
		worst += fmt.Sprintf("; alone, rank %d to rank %d is the slowest, with %s", alone.From,
			alone.To, format.Time(alone.Alone.P50))
	}
	more := len(list) - limit
	if limit > 0 && more > 0 {
		slices.SortStableFunc(list, func(a, b result.Flow) int {
			return int(b.Latency.P50 - a.Latency.P50)
		})
		list = list[:limit]
	}
	out.Line(
		"the operations by the calling rank and the rank that it called; times are service times")
	columns := []string{">from", ">to", ">throughput", ">share", ">mean", ">p50", ">p99", ">max"}
	if isolated {
		columns = append(columns, ">p50 alone", ">p99 alone", ">slowdown")
	}
	t := doc.NewTable(columns...)
	for _, f := range list {
		l := f.Latency
		row := []any{strconv.Itoa(f.From), strconv.Itoa(f.To), doc.Rate(f.PerSecond),
			doc.Part(f.PerSecond / all), doc.Time(l.Mean), doc.Time(l.P50), doc.Time(l.P99),
			doc.Time(l.Max)}
		switch {
		case f.Alone.Samples > 0:
			row = append(row, doc.Time(f.Alone.P50), doc.Time(f.Alone.P99),
				format.Digits(f.Slowdown))
		case isolated: // its turn was in no repeat
			row = append(row, doc.None(), doc.None(), doc.None())
		}
		t.Row(row...)
	}
	out.Add(t)
	if limit > 0 && more > 0 {
		out.Line("and %s, faster at the median, in the result", format.Count(more, "more pair"))
	}
	if worst != "" {
		out.Line("%s", worst)
	}
	out.Gap()
	return out
}
