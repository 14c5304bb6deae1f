package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"transportbench/core/base/record"
	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// roundsPerBlock is the number of rounds that a block has at least.
const roundsPerBlock = 5

// sample has the values of one metric of a cell, in order of time.
type sample struct {
	values  []float64
	windows []set.Window // one for each value; nil if unknown
}

// newSample returns a cell's sample of a metric, in the order of time if its windows are known. It
// has no response times at [config.RateMax], which are those of a backlog.
func newSample(c *set.Cell, metric string) sample {
	if c.FindsCapacity() && strings.HasPrefix(metric, "response_") {
		return sample{}
	}
	s := sample{values: c.Samples[metric]}
	windows := c.WindowsOf(metric)
	if windows == nil {
		return s
	}
	order := make([]int, len(s.values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return windows[i].StartedAt.Compare(windows[j].StartedAt)
	})
	values := make([]float64, len(order))
	s.windows = make([]set.Window, len(order))
	for at, i := range order {
		values[at], s.windows[at] = s.values[i], windows[i]
	}
	s.values = values
	return s
}

// state returns the state of the i-th value; "" if there are no states to tell apart.
func (s sample) state(i int, states state.Classifier) string {
	switch {
	case s.windows != nil:
		return states.Of(s.windows[i])
	case states.Count() < 2:
		return ""
	}
	return state.Unread
}

// read reports whether a reading of the machine's state exists for any value.
func (s sample) read() bool {
	return slices.ContainsFunc(s.windows,
		func(w set.Window) bool { return w.DistanceBefore > 0 || w.DistanceAfter > 0 })
}

// shareRounds reports whether two samples are interleaved: the i-th windows of both began before
// the next window of either. Sweeps and ab measure in such rounds.
func shareRounds(a, b sample) bool {
	if len(a.windows) < 2 || len(a.windows) != len(b.windows) {
		return false
	}
	for i := range a.windows[1:] {
		ends, begins := a.windows[i].StartedAt, a.windows[i+1].StartedAt
		if other := b.windows[i].StartedAt; other.After(ends) {
			ends = other
		}
		if other := b.windows[i+1].StartedAt; other.Before(begins) {
			begins = other
		}
		if !begins.After(ends) {
			return false
		}
	}
	return true
}

// comparison is what the values of two samples can be compared in.
type comparison struct {
	blocks ranktest.Blocks
	// states has the values of both samples by state, in order of appearance; one entry named "" if
	// there are no states to tell apart.
	states []stateValues
	// compared counts the values in blocks, and all the values.
	comparedA, comparedB, allA, allB int
}

type stateValues struct {
	state string
	a, b  []float64
}

// newComparison divides two samples into blocks. Values are compared within a block only.
//
// Each state is a block, and so is being mixed, unread or disturbed: under the null hypothesis a
// window's value does not depend on its side, given the state. If the samples share rounds, each
// state is divided further, into consecutive rounds of which each side has at least roundsPerBlock
// in that state. The division does not depend on the values.
func newComparison(a, b sample, states state.Classifier) comparison {
	if !a.read() || !b.read() {
		states = state.Classifier{} // nothing tells the windows of one side apart
	}
	c := comparison{allA: len(a.values), allB: len(b.values)}
	rounds := shareRounds(a, b)
	for _, state := range states.All() {
		c.addState(state, a, b, states, rounds)
	}
	return c
}

// addState adds the blocks of one state.
func (c *comparison) addState(state string, a, b sample, states state.Classifier, rounds bool) {
	v := stateValues{state: state}
	var current ranktest.Block
	var list ranktest.Blocks
	for i := range max(len(a.values), len(b.values)) {
		if i < len(a.values) && a.state(i, states) == state {
			v.a, current.A = append(v.a, a.values[i]), append(current.A, a.values[i])
		}
		if i < len(b.values) && b.state(i, states) == state {
			v.b, current.B = append(v.b, b.values[i]), append(current.B, b.values[i])
		}
		if rounds && min(len(current.A), len(current.B)) >= roundsPerBlock {
			list, current = append(list, current), ranktest.Block{}
		}
	}
	if n := len(list); n > 0 { // the rest is too short for a block
		list[n-1].A, list[n-1].B = append(list[n-1].A, current.A...),
			append(list[n-1].B, current.B...)
	} else {
		list = ranktest.Blocks{current}
	}
	if len(v.a)+len(v.b) > 0 {
		c.states = append(c.states, v)
	}
	if len(v.a) == 0 || len(v.b) == 0 {
		return
	}
	for _, one := range list {
		slices.Sort(one.A)
		slices.Sort(one.B)
		c.blocks = append(c.blocks, one)
	}
	c.comparedA, c.comparedB = c.comparedA+len(v.a), c.comparedB+len(v.b)
}

// overlap returns why the states of two samples prevent a verdict, or make one less sure; "" if
// they do neither.
func (c *comparison) overlap() (note string, prevents bool) {
	switch {
	case len(c.blocks) == 0:
		return fmt.Sprintf("no state of the machine in common: %s", c.shares()), true
	case 2*c.comparedA < c.allA || 2*c.comparedB < c.allB:
		return fmt.Sprintf("only %d of %d and %d of %d windows are in states of the machine that "+
			"both sides had: %s",
			c.comparedA, c.allA, c.comparedB, c.allB, c.shares()), false
	}
	return "", false
}

// shares lists the windows of both sides by state.
func (c *comparison) shares() string {
	var parts []string
	for _, s := range c.states {
		parts = append(parts, fmt.Sprintf("%s %d and %d windows",
			cmp.Or(s.state, state.Undisturbed), len(s.a), len(s.b)))
	}
	return strings.Join(parts, ", ")
}

// changes returns the medians by state, or nil if there are no states to tell apart.
func (c *comparison) changes(metric string) []StateChange {
	if len(c.states) < 2 {
		return nil
	}
	var list []StateChange
	for _, s := range c.states {
		change := StateChange{State: cmp.Or(s.state, state.Undisturbed), OldN: len(s.a),
			NewN: len(s.b)}
		if len(s.a) > 0 {
			change.Old = new(result.Summarize(metric, s.a).Median)
		}
		if len(s.b) > 0 {
			change.New = new(result.Summarize(metric, s.b).Median)
		}
		if len(s.a) > 0 && len(s.b) > 0 {
			ratio, _, _ := ranktest.Shift(ranktest.Blocks{{A: sorted(s.a), B: sorted(s.b)}}, 0.05)
			change.Change = new(ratio - 1)
		}
		list = append(list, change)
	}
	return list
}

// StateChange compares a metric in one state of the machine.
type StateChange struct {
	State string `json:"state"`
	// Old and New are medians, absent if that side has no windows in the state. OldN and NewN count
	// the windows.
	Old  *float64 `json:"old,omitempty"`
	New  *float64 `json:"new,omitempty"`
	OldN int      `json:"old_n"`
	NewN int      `json:"new_n"`
	// Change is new over old minus 1, absent if one side has no windows in the state.
	Change *float64 `json:"change,omitempty"`
}

// Common returns the state of the machine in which both sides have most windows, so that their
// medians there compare; nil if there are no states to tell apart or none in common.
func Common(states []StateChange) *StateChange {
	var common *StateChange
	for i := range states {
		s := &states[i]
		if n := min(s.OldN, s.NewN); state.Plain(s.State) && n > 0 &&
			(common == nil || n > min(common.OldN, common.NewN)) {
			common = s
		}
	}
	return common
}

// Shown returns the medians of both sides that tables show, and the state that they are in: those
// of the windows in the common state, or of all windows if state is "". A side without the metric
// is nil.
func (c *Change) Shown() (old, new *result.Metric, state string) {
	common := Common(c.States)
	if common == nil || c.Old == nil || c.New == nil {
		return c.Old, c.New, ""
	}
	in := func(m result.Metric, median float64, n int) *result.Metric {
		return &result.Metric{Unit: m.Unit, Better: m.Better, Median: median, N: n}
	}
	return in(*c.Old, *common.Old, common.OldN), in(*c.New, *common.New, common.NewN), common.State
}

// ofMedians returns new over old minus 1 of the medians in the common state of two samples, or of
// all values if there is none.
func ofMedians(before, after *result.Metric, states []StateChange) *float64 {
	a, b := before.Median, after.Median
	if common := Common(states); common != nil {
		a, b = *common.Old, *common.New
	}
	return new(b/a - 1)
}

// levelOf is the level of a sample in one state, and how many values it has there.
type levelOf struct {
	median float64 // of the log
	n      int
}

// levels returns a level for each of several samples that does not depend on the states that each
// happened to draw: the effect of the sample in a model of log values with one effect of the sample
// and one of the state, fitted to the medians by least squares with the numbers of windows as
// weights. With one state it orders samples by their medians.
func levels(samples []sample, states state.Classifier) []float64 {
	table := make([]map[string]levelOf, len(samples))
	for i, s := range samples {
		by := map[string][]float64{}
		for at, v := range s.values {
			by[s.state(at, states)] = append(by[s.state(at, states)], v)
		}
		table[i] = map[string]levelOf{}
		for state, values := range by {
			table[i][state] = levelOf{math.Log(record.Median(values)), len(values)}
		}
	}
	level, effect := make([]float64, len(samples)), map[string]float64{}
	const rounds = 50 // it converges in a few
	for range rounds {
		sum, weight := map[string]float64{}, map[string]float64{}
		for i := range samples {
			level[i] = 0
			n := 0.0
			for _, state := range slices.Sorted(maps.Keys(table[i])) {
				l := table[i][state]
				level[i] += float64(l.n) * (l.median - effect[state])
				n += float64(l.n)
			}
			level[i] /= n
			for state, l := range table[i] {
				sum[state] += float64(l.n) * (l.median - level[i])
				weight[state] += float64(l.n)
			}
		}
		for state := range sum {
			effect[state] = sum[state] / weight[state]
		}
	}
	return level
}
