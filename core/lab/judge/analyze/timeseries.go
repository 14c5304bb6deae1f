package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// TimeSeries is a figure of the transport over the course of a window, averaged over all threads of
// one side and all repeats.
type TimeSeries struct {
	Side string `json:"side"` // "clients" or "daemons"
	Name string `json:"name"`
	// Mean is the mean of Values, Low the smallest and High the largest.
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Values has the mean for each part of the window.
	Values []float64 `json:"values"`
	Help   string    `json:"help"`
	// Remedy is set if the transport is stalled; the figures are then shares of time.
	Remedy  string `json:"remedy,omitempty"`
	Message string `json:"message"`
}

// The sides of a call.
const (
	clientSide = "clients"
	daemonSide = "daemons"
)

// negligible is the share of time below which a stall is left out.
const negligible = 0.05

// timeSeries returns the series of both sides, of each side first the stalls, the largest first,
// and then the rest.
func (e *measurements) timeSeries() []TimeSeries {
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

// seriesSums adds up the series of the threads of one side.
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
			s.list = append(s.list, TimeSeries{Side: s.side, Name: one.Name, Help: one.Help,
				Remedy: one.Remedy, Values: make([]float64, record.Slices)})
		}
		for i, v := range one.Values[:min(len(one.Values), record.Slices)] {
			s.list[at].Values[i] += v
		}
	}
}

// timeSeries returns the means over threads, without negligible stalls.
func (s *seriesSums) timeSeries() (list []TimeSeries) {
	for _, c := range s.list {
		for i := range c.Values {
			c.Values[i] /= float64(s.threads)
			c.Mean += c.Values[i] / float64(len(c.Values))
		}
		c.Low, c.High = slices.Min(c.Values), slices.Max(c.Values)
		if c.Remedy == "" {
			c.Message = fmt.Sprintf("%s: %s %.3g on average, %.3g to %.3g over the window (%s)",
				c.Side, c.Name, c.Mean, c.Low, c.High, c.Help)
		} else {
			c.Message = fmt.Sprintf(
				"%s: %s %.0f%% of the time, %.0f to %.0f%% over the window: %s; remedy: %s",
				c.Side, c.Name, 100*c.Mean, 100*c.Low, 100*c.High, c.Help, c.Remedy)
		}
		if c.Remedy == "" || c.Mean >= negligible {
			list = append(list, c)
		}
	}
	stall := func(s TimeSeries) float64 { // sorts others behind all stalls
		if s.Remedy == "" {
			return -1
		}
		return s.Mean
	}
	slices.SortStableFunc(list, func(a, b TimeSeries) int {
		return cmp.Compare(stall(b), stall(a))
	})
	return list
}

// mainStall returns the largest stall of one side.
func mainStall(list []TimeSeries, side string) (TimeSeries, bool) {
	for _, c := range list {
		if c.Side == side && c.Remedy != "" {
			return c, true
		}
	}
	return TimeSeries{}, false
}
