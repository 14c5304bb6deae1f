package compare

import (
	"cmp"
	"math"
	"slices"

	"transportbench/core/base/parallel"
	"transportbench/core/lab/store/result"
)

// Seen describes which changes the tests of a comparison could have found.
type Seen struct {
	// Tests counts the tests, and None those that could not have found any change.
	Tests int `json:"tests"`
	None  int `json:"none"`
	// Median and Largest are over the other tests: the smallest change that each would have called,
	// beyond the threshold or for the worse, if the values had scattered as they did. They are
	// shares.
	Median  float64 `json:"median"`
	Largest float64 `json:"largest"`
	// Cell and Metric are those of the largest, or of the first test that could not have found any.
	Cell   string `json:"cell,omitempty"`
	Metric string `json:"metric,omitempty"`
	// Why is the reason why that test could not have found any.
	Why string `json:"why,omitempty"`
}

// detectable is the change that a test could have found.
type detectable struct {
	cell, metric string
	change       *float64 // a share above 0; nil if there is no such change
	why          string   // there is none
	decided      bool     // the test did find a change
}

// detectableChanges sets Detectable of every change that was tested, and returns those of all
// changes that have a direction.
func (r *Report) detectableChanges() (list []detectable) {
	level := r.level(r.Changes)
	_ = parallel.Each(len(r.Changes), func(i int) error {
		if c := &r.Changes[i]; c.PHolm != nil {
			c.Detectable = c.findableWorse(level)
		}
		return nil
	})
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Scheduled || c.Better == result.None || c.Change == nil {
			continue
		}
		list = append(list, detectable{c.Cell, c.Metric, c.Detectable, c.why(level),
			c.Verdict == Better || c.Verdict == Worse})
	}
	return list
}

func (t *thresholdTest) detectable(alpha float64) detectable {
	d := detectable{cell: t.change.Cell, metric: t.change.Metric, why: t.change.why(alpha)}
	if t.change.P != nil {
		d.change = t.change.findable(t.limit, t.above, alpha)
	}
	return d
}

// why returns why a test at a level could not have found any change, if it could not.
func (c *Change) why(level float64) string {
	few := c.few(level)
	switch {
	case c.withheld != "":
		return c.withheld
	case few == FewWindows:
		return few
	case c.OneStart:
		return "several repeats of a process start"
	case few == "" && c.P == nil:
		return "the cell was disturbed"
	}
	return FewRepeats
}

// findableWorse is [Change.findable] for a change for the worse beyond the minimum effect.
func (c *Change) findableWorse(level float64) *float64 {
	if c.Better == result.Higher {
		return c.findable(-c.minChange(), false, level)
	}
	return c.findable(c.minChange(), true, level)
}

// repeatsForSmall is the least number of repeats that is offered if a small change is sought, one
// below small: nobody measures more for what doubles or halves.
const (
	repeatsForSmall = 30
	small           = 0.5
)

// timesMore returns by how much more repeats [Report.MoreRepeats] are than the sets have.
func (r *Report) timesMore() int {
	n := max(1, min(r.OldSide.MinRepeats, r.NewSide.MinRepeats))
	return max(2, (repeatsForSmall+n-1)/n)
}

// MoreRepeats returns how many repeats of each side to measure if a smaller change is sought.
func (r *Report) MoreRepeats() int {
	return r.timesMore() * min(r.OldSide.MinRepeats, r.NewSide.MinRepeats)
}

// SeenWithMore returns the median of [Seen] with [Report.MoreRepeats], if those scattered as the
// values do: each value counts several times, and the minimum effect is that of so many repeats. ok
// is false if it is no smaller, and if it is no small change.
func (r *Report) SeenWithMore() (median float64, ok bool) {
	level, times := r.level(r.Changes), r.timesMore()
	sizes := make([]float64, len(r.Changes))
	_ = parallel.Each(len(r.Changes), func(i int) error {
		if r.Changes[i].PHolm == nil || len(r.Changes[i].blocks) == 0 {
			return nil
		}
		more := r.Changes[i]
		more.Floor, more.blocks = more.floorOfMore, more.blocks.Repeated(times)
		if size := more.findableWorse(level); size != nil {
			sizes[i] = *size
		}
		return nil
	})
	sizes = slices.DeleteFunc(sizes, func(size float64) bool { return size == 0 })
	if len(sizes) == 0 {
		return 0, false
	}
	slices.Sort(sizes)
	median = sizes[len(sizes)/2]
	return median, median < min(small, r.Seen.Median)
}

// findable returns the size of the smallest change that is significantly above the limit, or below
// it, at alpha of a two-sided test. It takes the scatter of the values as it is and moves their
// shift. The interval of a shift moves with it, so the change is found if its end is at the limit.
// It returns nil if there are too few values for an interval.
func (c *Change) findable(limit float64, above bool, alpha float64) *float64 {
	ratio, low, high := c.observations.interval(alpha)
	end := high
	if above {
		end = low
	}
	if end <= 0 || math.IsInf(end, 0) {
		return nil
	}
	size := math.Abs((1+limit)*ratio/end - 1)
	if c.step > 0 { // a change within a step of the clock beyond the limit has no verdict
		size = max(size, math.Abs(limit)+c.step/c.Old.Median)
	}
	return &size
}

// seen sums up what tests could have found.
func seen(list []detectable) Seen {
	s := Seen{Tests: len(list)}
	var sizes []float64
	for _, d := range list {
		switch {
		case d.change == nil:
			if s.None++; s.None == 1 {
				s.Cell, s.Metric, s.Why = d.cell, d.metric, d.why
			}
		default:
			if sizes = append(sizes, *d.change); s.None == 0 && *d.change > s.Largest {
				s.Cell, s.Metric = d.cell, d.metric
			}
			s.Largest = max(s.Largest, *d.change)
		}
	}
	if len(sizes) > 0 {
		slices.SortFunc(sizes, cmp.Compare[float64])
		s.Median = sizes[len(sizes)/2]
	}
	return s
}

// Unseen returns how many tests found no change and could not have found one of the given size.
func (r *Report) Unseen(size float64) int {
	n := 0
	for _, d := range r.detectable {
		if !d.decided && (d.change == nil || *d.change > size) {
			n++
		}
	}
	return n
}
