package present

import (
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/judge/trend"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// SetupPhase is one phase of setups that were made again and again in one process.
type SetupPhase struct {
	Connections int    `json:"connections"`
	Metric      string `json:"metric"`
	Unit        string `json:"unit"`
	// Median, Low and High are over the rounds, with a 95% interval of the median.
	Median float64  `json:"median"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	// Trend is the change from round to round, as a share of the median, without the first tenth of the
	// rounds, in which the process warms up; absent if there are too few.
	Trend *trend.Trend `json:"trend,omitempty"`
	// Values has one value for each round, in order.
	Values []float64 `json:"values"`
}

// NewSetupPhase summarizes the values of a phase, one for each round.
func NewSetupPhase(connections int, metric, unit string, values []float64) SetupPhase {
	m := result.Summarize(metric, values)
	p := SetupPhase{Connections: connections, Metric: metric, Unit: unit, Median: m.Median, Low: m.Low, High: m.High, Values: values}
	if t, ok := trend.Of(values[len(values)/10:]); ok {
		p.Trend = &t
	}
	return p
}

// leastChange is the change over all rounds that counts as one.
const leastChange = 0.02

// trend returns the trend for people: over all rounds. An interval that is wider than the value itself
// says nothing.
func (p *SetupPhase) trend() (change, verdict string) {
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
func SetupPhases(w io.Writer, phases []SetupPhase) {
	t := newTable(w, ">connections", "phase", ">median", ">95% interval", ">rounds", ">over the rounds", "")
	before := 0
	for i := range phases {
		p := &phases[i]
		connections := ""
		if p.Connections != before {
			connections, before = strconv.Itoa(p.Connections), p.Connections
		}
		change, verdict := p.trend()
		m := result.Metric{Unit: p.Unit, Median: p.Median, Low: p.Low, High: p.High, N: len(p.Values)}
		t.AppendRow(table.Row{connections, p.Metric, format.Value(m), format.Interval(m), len(p.Values), change, verdict})
	}
	t.Render()
}
