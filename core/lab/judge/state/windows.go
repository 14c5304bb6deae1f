package state

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"transportbench/core/lab/judge/check"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Classifier tells the states of the windows of sets.
type Classifier struct{ States }

// NewClassifier returns a classifier for the states that the windows of all cells of the sets show.
func NewClassifier(sets ...*set.Set) Classifier {
	var distances []float64
	for _, s := range sets {
		for i := range s.Cells {
			for _, w := range s.Cells[i].Windows {
				distances = append(distances, w.DistanceBefore, w.DistanceAfter)
			}
		}
	}
	return Classifier{Find(distances)}
}

// Of returns the state of a window: [States.Of], or [Disturbed] if it is disturbed.
func (s Classifier) Of(w set.Window) string {
	name := s.ofDistances(w)
	if w.Disturbed() {
		return Disturbed(name)
	}
	return name
}

func (s Classifier) ofDistances(w set.Window) string {
	return s.States.Of(w.DistanceBefore, w.DistanceAfter)
}

// All returns the names of all states that windows may have, those of disturbed windows last.
func (s Classifier) All() []string {
	names := []string{""}
	if s.Count() > 1 {
		names = append(s.Names(), Mixed, Unread)
	}
	for _, name := range slices.Clone(names) {
		names = append(names, Disturbed(name))
	}
	return names
}

// Median is the median of a metric over the windows in one state.
type Median struct {
	State  string        `json:"state"`
	Metric result.Metric `json:"metric"`
}

// Medians returns the medians of a metric of a cell by state, in the order of [Classifier.Divide].
func (s Classifier) Medians(c *set.Cell, metric string) []Median {
	var list []Median
	for _, in := range s.Divide(c.WindowsOf(metric)) {
		list = append(list, Median{in.State,
			result.Summarize(metric, of(in, c.Samples[metric]))})
	}
	return list
}

// Ratios returns the medians of the ratio to the floor that the load of a cell allows, as Medians
// does. A state may be missing: not every window has a floor, and a ratio may be void.
func (s Classifier) Ratios(c *set.Cell) []Median {
	metric := result.OpTimeRatio
	if len(c.Samples[result.FloorRatio]) > 0 {
		metric = result.FloorRatio
	}
	return slices.DeleteFunc(s.Medians(c, metric),
		func(m Median) bool { return s.Within(c, m.State).Void(metric) })
}

// Pool has the percentiles of a cell's response times over the windows in one state.
type Pool struct {
	State   string
	Windows int
	// Percentiles are as in [result.Pool].
	Percentiles map[string]result.Pooled
	// Served is the share of the operations due that were completed.
	Served float64
}

// Pool returns the percentiles of an open loop by state, of the response times of each of its
// windows, in the order of [Classifier.Divide].
func (s Classifier) Pool(c *set.Cell, responses []result.Responses) ([]Pool, error) {
	throughput, offered := c.Samples[result.Throughput], c.Samples[result.OfferedLoad]
	if n := len(c.Windows); len(responses) != n || len(throughput) != n || len(offered) != n {
		return nil, nil
	}
	var list []Pool
	for _, in := range s.Divide(c.Windows) {
		pool := Pool{State: in.State, Windows: len(in.Windows)}
		var err error
		if pool.Percentiles, err = result.Pool(of(in, responses)); err != nil {
			return nil, err
		}
		due, done := 0.0, 0.0
		for _, w := range in.Windows {
			due, done = due+offered[w], done+throughput[w]
		}
		if due > 0 {
			pool.Served = done / due
		}
		list = append(list, pool)
	}
	return list, nil
}

// InState are the windows of a cell in one state, by index.
type InState struct {
	State   string
	Windows []int
}

// of returns those of the values, one for each window of the cell, that are of windows in the
// state.
func of[T any](in InState, values []T) []T {
	list := make([]T, len(in.Windows))
	for i, w := range in.Windows {
		list[i] = values[w]
	}
	return list
}

// Divide returns the windows of a cell by state, in the order of [States.Names] with [Mixed],
// [Unread] and the states of disturbed windows last. It returns nil if the machine showed one state
// only, or the cell none.
func (s Classifier) Divide(windows []set.Window) []InState {
	by, known := map[string][]int{}, false
	for i, w := range windows {
		by[s.Of(w)] = append(by[s.Of(w)], i)
		known = known || Plain(s.ofDistances(w))
	}
	if s.Count() < 2 || !known {
		return nil
	}
	var list []InState
	for _, name := range s.All() {
		if len(by[name]) > 0 {
			list = append(list, InState{name, by[name]})
		}
	}
	return list
}

// Counts are the windows of a cell in each state of the machine, as [Classifier.Divide] has them.
type Counts []Count

// Count counts the windows in one state.
type Count struct {
	State   string `json:"state"`
	Windows int    `json:"windows"`
}

// Counts counts the windows of a cell in each state.
func (s Classifier) Counts(c *set.Cell) (list Counts) {
	for _, in := range s.Divide(c.Windows) {
		list = append(list, Count{in.State, len(in.Windows)})
	}
	return list
}

// String lists the states: "9 near, 1 far".
func (list Counts) String() string {
	var parts []string
	for _, in := range list {
		parts = append(parts, fmt.Sprintf("%d %s", in.Windows, in.State))
	}
	return strings.Join(parts, ", ")
}

// Within returns a cell with only its windows in a state, which judge its floor, or itself without
// any. The name "" is all windows of open loops and of several states, else the undisturbed ones.
func (s Classifier) Within(c *set.Cell, name string) *set.Cell {
	if name == "" && (s.Count() > 1 || c.OpenLoop()) {
		return c
	}
	other := func(w set.Window) bool { return s.Of(w) != name }
	some := *c
	some.Windows = slices.DeleteFunc(slices.Clone(c.Windows), other)
	if n := len(some.Windows); n == 0 || name == "" && n == len(c.Windows) {
		return c
	}
	some.Samples, some.Pooled = map[string][]float64{}, nil
	for metric, values := range c.Samples {
		for i, w := range c.WindowsOf(metric) {
			if !other(w) {
				some.Samples[metric] = append(some.Samples[metric], values[i])
			}
		}
	}
	check.JudgeFloor(&some)
	return &some
}

// Common returns the state in which all of the cells were measured most: the one with the most
// windows in the cell that has the fewest there. Cells without readings do not count. It returns ""
// if there is no such state.
func (s Classifier) Common(cells []*set.Cell) string {
	cells = slices.DeleteFunc(slices.Clone(cells), func(c *set.Cell) bool {
		return !slices.ContainsFunc(c.Windows,
			func(w set.Window) bool { return s.ofDistances(w) != Unread })
	})
	common, windows := "", 0
	for _, name := range s.Names() {
		fewest := math.MaxInt
		for _, c := range cells {
			n := 0
			for _, w := range c.Windows {
				if s.Of(w) == name {
					n++
				}
			}
			fewest = min(fewest, n)
		}
		if len(cells) > 0 && fewest > windows {
			common, windows = name, fewest
		}
	}
	return common
}

// Shown decides which windows of a set's cells the tables and pictures show, so that they agree. A
// closed loop is shown in the state in which all cells of its load have most undisturbed windows,
// and an open loop with all windows, over which its response times are pooled.
type Shown struct {
	Classifier
	labels set.Labels
	common map[string]string // state by load
}

// ShownOf returns the choice for the cells of a set.
func ShownOf(s *set.Set) Shown {
	shown := Shown{Classifier: NewClassifier(s),
		labels: set.LabelsOf(s.Cells).Without(s.TransportOptions()...),
		common: map[string]string{}}
	loads := map[string][]*set.Cell{}
	for i := range s.Cells {
		if c := &s.Cells[i]; !c.OpenLoop() &&
			(c.Status == set.Measured || c.Status == set.Published) {
			load := shown.load(c)
			loads[load] = append(loads[load], c)
		}
	}
	for load, cells := range loads {
		shown.common[load] = shown.Common(cells)
	}
	return shown
}

// load names what the cell measures, without the transport and its own options.
func (s Shown) load(c *set.Cell) string {
	return c.Config["profile"] + " " + s.labels.Load(c.Config)
}

// State returns the state that the cell is shown in, or "" if it is shown with all its windows.
func (s Shown) State(c *set.Cell) string {
	if c.OpenLoop() {
		return ""
	}
	common := s.common[s.load(c)]
	if !slices.ContainsFunc(c.Windows, func(w set.Window) bool { return s.Of(w) == common }) {
		return ""
	}
	return common
}

// Cell returns a cell with only the windows that are shown, or the cell itself if all are. Metrics
// without samples in these windows, such as those that a run measures once, keep all samples.
func (s Shown) Cell(c *set.Cell) *set.Cell {
	in := s.Within(c, s.State(c))
	if in != c {
		for metric, values := range c.Samples {
			if len(in.Samples[metric]) == 0 {
				in.Samples[metric] = values
			}
		}
	}
	return in
}

// Set returns a set with the shown windows of its cells.
func (s Shown) Set(whole *set.Set) *set.Set {
	in := *whole
	in.Cells = make([]set.Cell, len(whole.Cells))
	for i := range whole.Cells {
		in.Cells[i] = *s.Cell(&whole.Cells[i])
	}
	return &in
}

// Results returns the results of a cell with only the repeats whose windows are shown. If the cell
// does not have one window for each repeat, it returns all repeats.
func (s Shown) Results(c *set.Cell, results []*result.Result) (list []*result.Result) {
	repeats := 0
	for _, r := range results {
		repeats += len(r.Repeats)
	}
	if n := len(c.Windows); n != repeats || len(s.Cell(c).Windows) == n {
		return results
	}
	name, at := s.State(c), 0
	for _, r := range results {
		in := *r
		in.Repeats = nil
		for _, repeat := range r.Repeats {
			if s.Of(c.Windows[at]) == name {
				in.Repeats = append(in.Repeats, repeat)
			}
			at++
		}
		if len(in.Repeats) > 0 {
			list = append(list, &in)
		}
	}
	return list
}

// Windows counts the windows that are shown, as in "8 near" or "all 10"; it is "" if there are no
// states to tell apart and all are shown.
func (s Shown) Windows(c *set.Cell) string {
	switch name, n := s.State(c), len(s.Cell(c).Windows); {
	case n == 0 || s.Count() < 2 && n == len(c.Windows):
		return ""
	case s.Count() < 2:
		return fmt.Sprintf("%d %s", n, Undisturbed)
	case name == "":
		return fmt.Sprintf("all %d", n)
	default:
		return fmt.Sprintf("%d %s", n, name)
	}
}

// OfCapacity returns the state of the windows that a capacity was taken from, or "" if it is
// unknown or there is one state only. The capacity's own State is the name that the sweep had for
// it when it knew no other windows than those of capacities.
func (s Classifier) OfCapacity(c *result.Capacity) string {
	by := map[string][]float64{}
	for _, w := range c.Windows {
		name := s.States.Of(w.DistanceBefore, w.DistanceAfter)
		by[name] = append(by[name], w.Throughput)
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		m := result.Summarize(result.Throughput, by[name])
		if s.Count() > 1 && m.N == c.Throughput.N && m.Median == c.Throughput.Median {
			return name
		}
	}
	return ""
}
