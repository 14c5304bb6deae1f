package experiment

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// shareOptions are those whose value may be a share of the capacity, such as "70%". Speed is that
// of a replay.
var shareOptions = []string{"rate", "speed"}

// takeShare removes a load that is a share of the capacity from layers. It returns its option and
// the share, which is 0 for another load.
func takeShare(values map[string]string, layers []config.Layer) (option string, share float64,
	err error) {
	at := slices.IndexFunc(shareOptions, func(name string) bool {
		return strings.HasSuffix(strings.TrimSpace(values[name]), "%")
	})
	if at < 0 {
		return "", 0, nil
	}
	option = shareOptions[at]
	digits := strings.TrimSuffix(strings.TrimSpace(values[option]), "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !(percent > 0 && percent <= 100) {
		return "", 0, &config.Error{Option: option, Problem: fmt.Sprintf(
			"%q is not a share of the capacity, which is above 0%% and at most 100%%",
			values[option])}
	}
	for _, l := range layers {
		delete(l.Values, option)
	}
	return option, percent / 100, nil
}

// addReference sets the reference of a cell that runs at a share of its capacity, and adds the
// reference to the plan if it is not there yet. at has the indices of the plan's cells by ID.
func (p *Plan) addReference(c *Cell, at map[string]int, atMax func() (Cell, error)) error {
	if c.Share == 0 {
		return nil
	}
	reference, err := atMax()
	if err != nil {
		return err
	}
	i, known := at[reference.ID]
	if !known {
		i = len(p.Cells)
		at[reference.ID] = i
		p.Cells = append(p.Cells, reference)
	}
	p.Cells[i].isReference = true
	c.Reference = i
	return nil
}

// configOf returns the configuration of a run of cell i. If the rate is a share of the capacity, it
// also returns the capacity, or an error if that was not found.
func (s *sweep) configOf(i int) (config.Config, *result.Capacity, error) {
	cell := &s.Plan.Cells[i]
	c := cell.Config
	if cell.Share == 0 {
		return c, nil, nil
	}
	if f, failed := s.failures[cell.Reference]; failed {
		if f.Status == set.Unavailable {
			return c, nil, transport.Unavailable("%s", f.Reason)
		}
		return c, nil, fmt.Errorf("the capacity is unknown, because it was not measured: %s",
			f.Reason)
	}
	reference := &s.store.cells[cell.Reference]
	if !reference.complete {
		return c, nil, errors.New("the capacity is unknown, because repeats of it are missing")
	}
	for _, w := range reference.cell.Warnings {
		if w.Severity == result.Error {
			return c, nil, fmt.Errorf("the capacity is unknown, because its figures must not be "+
				"used: check %s failed: %s", w.Name, w.Message)
		}
	}
	windows, err := capacityWindows(&reference.cell)
	if err != nil {
		return c, nil, err
	}
	capacity := capacityOf(windows, s.capacityStates(), cell.Share)
	c.SetRate(config.Rate(capacity.Rate))
	return c, capacity, c.Validate()
}

// capacityWindows returns the windows of a cell that measures a capacity.
func capacityWindows(c *set.Cell) ([]result.Window, error) {
	throughput := c.Samples[result.Throughput]
	if len(throughput) != len(c.Windows) || len(throughput) == 0 || slices.Min(throughput) <= 0 {
		return nil, errors.New("the capacity is unknown, because a window completed nothing")
	}
	windows := make([]result.Window, len(throughput))
	for i, w := range c.Windows {
		windows[i] = result.Window{
			StartedAt: w.StartedAt, Throughput: throughput[i], DistanceBefore: w.DistanceBefore,
			DistanceAfter: w.DistanceAfter,
		}
	}
	return windows, nil
}

// capacityStates returns the states of the machine that the windows of all capacities show.
func (s *sweep) capacityStates() state.States {
	var distances []float64
	for i := range s.Plan.Cells {
		if !s.Plan.Cells[i].isReference {
			continue
		}
		for _, w := range s.store.cells[i].cell.Windows {
			distances = append(distances, w.DistanceBefore, w.DistanceAfter)
		}
	}
	return state.Find(distances)
}

// capacityOf returns the capacity that follows from windows at [config.RateMax]. A closed loop
// would not do: it has no schedule, and its responses come in batches that make calls in batches,
// so that some transports serve more than of an open loop.
//
// The capacity is that of the slowest state of the machine that at least two windows were in,
// because later windows will be in it too; a single window may be an outlier, and counts only if no
// state has two. Of several windows in that state it is the lower end of the throughput's interval,
// because most launches must be able to serve it: at a rate that half of them do not reach, the
// response time is that of a queue which grows until the window ends.
func capacityOf(windows []result.Window, states state.States, share float64) *result.Capacity {
	by := map[string][]float64{}
	for _, w := range windows {
		name := states.Of(w.DistanceBefore, w.DistanceAfter)
		by[name] = append(by[name], w.Throughput)
	}
	longest := 0 // windows in one state
	for _, name := range states.Names() {
		longest = max(longest, len(by[name]))
	}
	c := &result.Capacity{Share: share, Windows: windows}
	var throughput []float64
	statesSeen := 0
	for _, name := range states.Names() {
		if n := len(by[name]); n == 0 || n < min(longest, 2) {
			continue
		}
		statesSeen++
		if median := medianOf(by[name]); throughput == nil || median < medianOf(throughput) {
			c.State, throughput = name, by[name]
		}
	}
	if statesSeen == 0 { // of one state, or all mixed or without readings
		for _, w := range windows {
			throughput = append(throughput, w.Throughput)
		}
	}
	c.Throughput = result.Summarize(result.Throughput, throughput)
	switch {
	case c.Throughput.Low != nil:
		c.Value = *c.Throughput.Low
	case statesSeen > 1:
		c.Value = c.Throughput.Median
	default:
		c.Value = slices.Min(throughput)
	}
	c.Rate = math.Round(share * c.Value)
	return c
}

func medianOf(throughput []float64) float64 {
	return result.Summarize(result.Throughput, throughput).Median
}
