package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// TimeSeries is a series of the transport's own in the course of a window, over all threads of
// one side and all repeats.
type TimeSeries struct {
	Side string `json:"side"` // "clients" or "daemons"
	Name string `json:"name"`
	// Mean is over the parts of the window, Low and High are the least and the largest.
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Values are means for each part.
	Values []float64 `json:"values"`
	Help   string    `json:"help"`
	// Remedy is set for what holds the transport up; the figures are shares of time then.
	Remedy  string `json:"remedy,omitempty"`
	Message string `json:"message"`
}

// Sides, by who polls.
const (
	clientSide = "clients"
	daemonSide = "daemons"
)

// negligible is the share of time from which on a hold is told.
const negligible = 0.05

// timeSeries are what transports tell in the course of a window: for each side what holds it
// up, the largest share first, and then the rest.
func (e *evidence) timeSeries() []TimeSeries {
	clients, daemons := &seriesSums{side: clientSide}, &seriesSums{side: daemonSide}
	for i := range e.repeats {
		for _, c := range e.repeats[i].Clients() {
			clients.add(c.Series)
		}
		for _, d := range e.repeats[i].Daemons() {
			daemons.add(d.Series)
		}
	}
	return append(clients.timeSeries(), daemons.timeSeries()...)
}

// seriesSums adds the series of threads up.
type seriesSums struct {
	side    string
	threads int
	list    []TimeSeries
}

func (s *seriesSums) add(series []transport.Series) {
	if len(series) == 0 {
		return
	}
	s.threads++
	for _, one := range series {
		at := slices.IndexFunc(s.list, func(c TimeSeries) bool { return c.Name == one.Name })
		if at < 0 {
			at = len(s.list)
			s.list = append(s.list, TimeSeries{Side: s.side, Name: one.Name, Help: one.Help, Remedy: one.Remedy, Values: make([]float64, record.Slices)})
		}
		for i, v := range one.Values[:min(len(one.Values), record.Slices)] {
			s.list[at].Values[i] += v
		}
	}
}

func (s *seriesSums) timeSeries() (told []TimeSeries) {
	for _, c := range s.list {
		for i := range c.Values {
			c.Values[i] /= float64(s.threads)
			c.Mean += c.Values[i] / float64(len(c.Values))
		}
		c.Low, c.High = slices.Min(c.Values), slices.Max(c.Values)
		if c.Remedy == "" {
			c.Message = fmt.Sprintf("%s: %s %.3g in the mean, %.3g to %.3g in the course of the window (%s)", c.Side, c.Name, c.Mean, c.Low, c.High, c.Help)
		} else {
			c.Message = fmt.Sprintf("%s: %s %.0f%% of the time, %.0f to %.0f%% in the course of the window: %s; what would make it less: %s",
				c.Side, c.Name, 100*c.Mean, 100*c.Low, 100*c.High, c.Help, c.Remedy)
		}
		if c.Remedy == "" || c.Mean >= negligible {
			told = append(told, c)
		}
	}
	slices.SortStableFunc(told, func(a, b TimeSeries) int {
		switch {
		case a.Remedy != "" && b.Remedy != "":
			return cmp.Compare(b.Mean, a.Mean)
		case a.Remedy != "":
			return -1
		case b.Remedy != "":
			return 1
		}
		return 0
	})
	return told
}

// mainStall is what holds one side up most, of what was told of it.
func mainStall(timeSeries []TimeSeries, side string) (TimeSeries, bool) {
	for _, c := range timeSeries {
		if c.Side == side && c.Remedy != "" {
			return c, true
		}
	}
	return TimeSeries{}, false
}
