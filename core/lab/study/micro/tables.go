package micro

import (
	"fmt"
	"strconv"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// minChange is the change from the first to the last quarter that counts as one.
const minChange = 0.02

// trendOf returns the trend for people. An interval that is wider than the value itself says
// nothing.
func trendOf(t *Trend) (change, verdict string) {
	if t == nil || t.High-t.Low > 1 {
		return "-", "too few rounds to tell"
	}
	change = fmt.Sprintf("%s (%s)", format.Percent(&t.Change), format.Percents(&t.Low, &t.High))
	switch {
	case t.Direction > 0 && t.Change >= minChange:
		return change, "gets slower"
	case t.Direction < 0 && t.Change <= -minChange:
		return change, "gets faster"
	}
	return change, "no trend"
}

// SetupPhases returns the phases of setups, with the trends over their rounds.
func SetupPhases(phases []Phase) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable(">connections", "phase", ">median", ">95% interval", ">rounds",
		">last over first quarter", "")
	before := 0
	for i := range phases {
		p := &phases[i]
		connections := ""
		if p.Connections != before {
			connections, before = strconv.Itoa(p.Connections), p.Connections
		}
		change, verdict := trendOf(p.Trend)
		m := result.Metric{Unit: p.Unit, Median: p.Median, Low: p.Low, High: p.High,
			N: len(p.Values)}
		t.Row(connections, p.Metric, doc.Median(m), format.Interval(m), len(p.Values),
			change, verdict)
	}
	out.Add(t)
	return out
}
