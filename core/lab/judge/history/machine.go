package history

import (
	"math"
	"slices"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/compare/control"
)

// group is what series have in common that are each other's control.
type group struct{ load, machine, metric string }

// transportOptions returns the options of all sets that do not belong to a load.
func (h *History) transportOptions() (list []string) {
	for _, s := range h.loaded {
		list = append(list, compare.TransportOptions(s)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// control sets the movement of the machine in the points of each series, by the other transports
// under its load, and adds a series of what all transports of a group share. A series is controlled
// if its newest point and at least half of all have a movement.
func (h *History) control(list []Series, groups []group) []Series {
	rows := map[group][]control.Row{}
	for i := range list {
		values := make([]float64, len(h.Sets))
		for at := range values {
			values[at] = math.NaN()
		}
		for _, p := range list[i].Points {
			if p.Value > 0 {
				values[p.Set] = math.Log(p.Value)
			}
		}
		rows[groups[i]] = append(rows[groups[i]],
			control.Row{Transport: list[i].Transport, Values: values})
	}
	type part struct {
		group
		transport string // that is left out
	}
	movements := map[part][]float64{}
	of := func(p part) []float64 {
		moved, known := movements[p]
		if !known {
			moved = control.Movements(rows[p.group], p.transport, control.Fewest)
			movements[p] = moved
		}
		return moved
	}
	shared := map[group]bool{}
	var all []Series
	for i := range list {
		s, g := &list[i], groups[i]
		s.take(of(part{g, s.Transport}))
		if !shared[g] {
			shared[g] = true
			if together := newShared(s, of(part{g, ""}), rows[g]); len(together.Points) >= 2 {
				all = append(all, together)
			}
		}
	}
	return append(list, all...)
}

// take sets the movement of the machine in the points of a series.
func (s *Series) take(moved []float64) {
	newest := s.Points[len(s.Points)-1].Set
	if len(moved) == 0 || math.IsNaN(moved[newest]) {
		return
	}
	n := 0
	for i := range s.Points {
		p := &s.Points[i]
		if by := math.Expm1(moved[p.Set] - moved[newest]); !math.IsNaN(by) {
			p.Machine = &by
			n++
		}
	}
	s.Controlled = 2*n >= len(s.Points)
}

// newShared returns the series of what all transports of a load share, of which s is one. Its
// values are relative to the newest set, and counted by the cells in each.
func newShared(s *Series, moved []float64, rows []control.Row) Series {
	all := Series{Load: s.load, Transport: Shared, Machine: s.Machine, Metric: s.Metric}
	for at, by := range moved {
		if math.IsNaN(by) {
			continue
		}
		p := Point{Set: at, Value: math.Exp(by)}
		for _, r := range rows {
			if !math.IsNaN(r.Values[at]) {
				p.N++
			}
		}
		all.Points = append(all.Points, p)
	}
	for i := range all.Points {
		all.Points[i].Value /= all.Points[len(all.Points)-1].Value
	}
	return all
}

// Shared is the transport of a series of what all transports under a load have in common: the
// movement of the machine, which cannot be distinguished from a change of them all.
const Shared = "all transports"

// Judged returns the points that levels are of, of a controlled series with the values that they
// would have on the machine as it was in the newest set.
func (s *Series) Judged() []Point {
	if !s.Controlled {
		return s.Points
	}
	var points []Point
	for _, p := range s.Points {
		if p.Machine != nil {
			p.Value /= 1 + *p.Machine
			points = append(points, p)
		}
	}
	return points
}
