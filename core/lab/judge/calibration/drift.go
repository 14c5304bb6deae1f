package calibration

import (
	"math"
	"slices"
	"time"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// Drift is how far a configuration moves between two times without a change, as diff sees it.
type Drift struct {
	// ApartS is the time in seconds between the two sides of a comparison, the median.
	ApartS float64 `json:"apart_s"`
	// Comparisons is how many were made, each of Repeats repeats a side.
	Comparisons int `json:"comparisons"`
	Repeats     int `json:"repeats"`
	// Limit is the smallest minimum effect, as a share, with which at most alpha of the comparisons
	// give a verdict. It is 0 if so few do with none.
	Limit float64 `json:"limit"`
}

// Apart returns ApartS for people.
func (d *Drift) Apart() string {
	return format.Count(int(math.Round(d.ApartS/60)), "minute")
}

// driftStep is the precision of Drift.Limit.
const driftStep = 0.001

// drift returns the drift between the sides of the comparisons of diff, or nil if there are too few
// comparisons to tell.
func (d *Document) drift() (*Drift, error) {
	e := d.experiment(ExperimentSelf)
	if e == nil {
		return nil, nil
	}
	var limits, apart []float64
	for block := range e.rounds() / selfRepeats {
		limit, ok, err := e.driftOf(block, d.Alpha)
		if err != nil {
			return nil, err
		}
		if ok {
			limits, apart = append(limits, limit), append(apart, e.apart(block).Seconds())
		}
	}
	if len(limits) < fewestComparisons {
		return nil, nil
	}
	slices.Sort(limits)
	slices.Sort(apart)
	allowed := int(d.Alpha * float64(len(limits))) // comparisons that may give a verdict
	return &Drift{
		ApartS: apart[len(apart)/2], Comparisons: len(limits), Repeats: selfRepeats,
		Limit: limits[len(limits)-1-allowed],
	}, nil
}

// driftOf returns the smallest minimum effect with which diff gives no verdict on a block of e; ok
// is false if it cannot compare. A verdict at one minimum effect is one at every smaller one.
func (e *Experiment) driftOf(block int, alpha float64) (limit float64, ok bool, err error) {
	verdict := func(steps int) bool {
		o := compare.Defaults()
		o.Alpha, o.Floor = alpha, float64(steps)*driftStep
		var found outcome
		if err == nil {
			found, ok, err = e.selfDiff(block, o)
		}
		return found.any
	}
	none, steps := 0, 0
	for verdict(steps) && float64(steps)*driftStep < 1 { // no verdict is beyond -100%
		none, steps = steps+1, max(1, 2*steps)
	}
	for none < steps {
		if middle := (none + steps) / 2; verdict(middle) {
			none = middle + 1
		} else {
			steps = middle
		}
	}
	return float64(steps) * driftStep, ok, err
}

// apart returns the time between the sides of a comparison of diff.
func (e *Experiment) apart(n int) time.Duration {
	a, b, _ := diffPair(n, e.rounds()/selfRepeats, len(e.Set.Cells))
	began := func(p part) time.Time {
		return e.Set.Cells[p.cell].Windows[p.block*selfRepeats].StartedAt
	}
	return began(b).Sub(began(a)).Abs()
}
