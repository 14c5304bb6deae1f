package present

import (
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/study/micro"
)

// leastChange is the change over all rounds that counts as one.
const leastChange = 0.02

// trendOf returns the trend for people: over all rounds. An interval that is wider than the value itself
// says nothing.
func trendOf(p *micro.Phase) (change, verdict string) {
	rounds := float64(len(p.Values))
	if p.Trend == nil || rounds*(p.Trend.High-p.Trend.Low) > 1 {
		return "-", "too few rounds to tell"
	}
	t := *p.Trend
	low, high := rounds*t.Low, rounds*t.High
	change = fmt.Sprintf("%s (%s)", format.Percent(new(rounds*t.Slope)), format.Percents(&low, &high))
	switch {
	case t.Rises() && rounds*t.Slope >= leastChange:
		return change, "gets slower"
	case t.Falls() && rounds*t.Slope <= -leastChange:
		return change, "gets faster"
	}
	return change, "no trend"
}

// SetupPhases writes the phases of setups, with the trends over their rounds.
func SetupPhases(w io.Writer, phases []micro.Phase) {
	t := newTable(w, ">connections", "phase", ">median", ">95% interval", ">rounds", ">over the rounds", "")
	before := 0
	for i := range phases {
		p := &phases[i]
		connections := ""
		if p.Connections != before {
			connections, before = strconv.Itoa(p.Connections), p.Connections
		}
		change, verdict := trendOf(p)
		m := result.Metric{Unit: p.Unit, Median: p.Median, Low: p.Low, High: p.High, N: len(p.Values)}
		t.AppendRow(table.Row{connections, p.Metric, format.Value(m), format.Interval(m), len(p.Values), change, verdict})
	}
	t.Render()
}
