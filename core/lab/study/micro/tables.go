package micro

import (
	"fmt"
	"strconv"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// minChange is the change over all rounds that counts as one.
const minChange = 0.02

// trendOf returns the trend for people: over all rounds. An interval that is wider than the value
// itself says nothing.
func trendOf(p *Phase) (change, verdict string) {
	rounds := float64(len(p.Values))
	if p.Trend == nil || rounds*(p.Trend.High-p.Trend.Low) > 1 {
		return "-", "too few rounds to tell"
	}
	t := *p.Trend
	low, high := rounds*t.Low, rounds*t.High
	change = fmt.Sprintf("%s (%s)", format.Percent(new(rounds*t.Slope)),
		format.Percents(&low, &high))
	switch {
	case t.Rises() && rounds*t.Slope >= minChange:
		return change, "gets slower"
	case t.Falls() && rounds*t.Slope <= -minChange:
		return change, "gets faster"
	}
	return change, "no trend"
}

// SetupPhases returns the phases of setups, with the trends over their rounds.
func SetupPhases(phases []Phase) *doc.Doc {
	out := new(doc.Doc)
	t := doc.NewTable(">connections", "phase", ">median", ">95% interval", ">rounds",
		">over the rounds", "")
	before := 0
	for i := range phases {
		p := &phases[i]
		connections := ""
		if p.Connections != before {
			connections, before = strconv.Itoa(p.Connections), p.Connections
		}
		change, verdict := trendOf(p)
		m := result.Metric{Unit: p.Unit, Median: p.Median, Low: p.Low, High: p.High,
			N: len(p.Values)}
		t.Row(connections, p.Metric, doc.Median(m), format.Interval(m), len(p.Values),
			change, verdict)
	}
	out.Add(t)
	return out
}
