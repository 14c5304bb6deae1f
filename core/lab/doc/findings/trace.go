package findings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"transportbench/core/base/replay"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
)

// Trace says what is in a part of a trace.
func Trace(p *replay.Part) *doc.Doc {
	d := new(doc.Doc)
	t := doc.NewTable("", "")
	row := func(name, text string, args ...any) { t.Row(name, fmt.Sprintf(text, args...)) }
	row("digest", "sha256:%s", p.Digest)
	row("format", "%s", p.Format)
	if p.Length > 0 {
		row("requests", "%d in %s", p.Requests, p.Length)
	} else {
		row("requests", "%d, all at one time", p.Requests)
	}
	if p.Operations != p.Requests {
		row("operations", "%d", p.Operations)
	}
	var ops []string
	for _, op := range slices.Sorted(maps.Keys(p.ByOp)) {
		ops = append(ops, fmt.Sprintf("%s %s", op,
			format.Share(float64(p.ByOp[op])/float64(p.Operations))))
	}
	row("", "%s", strings.Join(ops, ", "))
	if len(p.Classes) > 0 {
		var classes []string
		for _, class := range slices.Sorted(maps.Keys(p.Classes)) {
			classes = append(classes, fmt.Sprintf("%s %d", class, p.Classes[class]))
		}
		row("classes", "%s", strings.Join(classes, ", "))
	}
	row("reads", "%s of operations; %s find a key that occurred before", format.Share(p.ReadShare),
		format.Share(p.HitRate))
	if p.Length > 0 {
		row("rate", "%s on average, %s in the busiest %s", format.Rate(p.Rate()),
			format.Rate(p.PeakRate()), p.Step)
		row("over time", "%s", doc.Bars(p.Rates, 0))
	}
	if p.Burstiness > 0 {
		row("burstiness", "%.3g (variance by mean of a second's operations; 1 is independent "+
			"arrivals)", p.Burstiness)
	}
	row("sizes", "%s to %s, %s on average", format.Bytes(float64(p.Sizes.Min())),
		format.Bytes(float64(p.Sizes.Max())), format.Bytes(p.Sizes.Mean()))
	row("working set", "%d keys, %s", p.Keys, format.Bytes(float64(p.WorkingSet)))
	row("reuse distance", "%d other keys at the median, %d at p99; %s of operations are the first "+
		"of their key", p.ReuseMedian, p.ReuseLargest,
		format.Share(float64(p.Once)/float64(p.Operations)))
	d.Add(t)
	if p.Length == 0 {
		d.Note("without times the trace has no rate; replay it with --closed or --speed max")
	} else if p.Rounded {
		d.Note("times in the format %s are rounded: a replay spreads requests of one time evenly "+
			"up to the next time", p.Format)
	}
	if p.Shared > 0 {
		d.Note("%d operations are on keys beyond the first %d, and share the entry of another key",
			p.Shared, p.Keys)
	}
	return d
}

// replayTimes shows response times over the time of a trace.
func replayTimes(times *analyze.ReplayTimes) *doc.Doc {
	d := new(doc.Doc)
	first := &times.Steps[0]
	d.Line("over the time of the trace, %s a bar: what was due, and response times by where "+
		"operations ended", format.Time(first.For))
	t := doc.NewTable("", "", ">min", ">max")
	for _, of := range []struct {
		name string
		cell func(float64) doc.Cell
		of   func(*analyze.ReplaySpan) float64
	}{
		{"rate", doc.Rate, func(s *analyze.ReplaySpan) float64 { return s.Rate }},
		{"p50", doc.Time, func(s *analyze.ReplaySpan) float64 { return s.P50 }},
		{"p99", doc.Time, func(s *analyze.ReplaySpan) float64 { return s.P99 }},
	} {
		var values []float64
		for i := range times.Steps {
			values = append(values, of.of(&times.Steps[i]))
		}
		t.Row(of.name, doc.Bars(values, 0), of.cell(slices.Min(values)),
			of.cell(slices.Max(values)))
	}
	d.Add(t)
	d.Paragraph("%s", WorstSpan(&times.Worst))
	return d
}

// WorstSpan describes the worst span of a replay in a sentence.
func WorstSpan(s *analyze.ReplaySpan) string {
	text := fmt.Sprintf("the worst %s of the trace, from %s on: p99 %s, p50 %s, %s due",
		format.Time(s.For), format.Time(s.At), format.Time(s.P99), format.Time(s.P50),
		format.Rate(s.Rate))
	if s.Within != nil {
		text += fmt.Sprintf(", %.3f%% within the objective", 100**s.Within)
	}
	return text
}
