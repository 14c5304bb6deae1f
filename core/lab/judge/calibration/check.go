package calibration

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// checkConclusions returns an error for what the types of the conclusions allow but [Conclude]
// never writes. Who shows them relies on it.
func (d *Document) checkConclusions() error {
	for i := range d.Recovery {
		if err := d.Recovery[i].check(); err != nil {
			return fmt.Errorf("recovery[%d]: %w", i, err)
		}
	}
	for i := range d.Observer {
		if err := d.Observer[i].check(); err != nil {
			return fmt.Errorf("observer[%d]: %w", i, err)
		}
	}
	if err := d.Resolution.check(); err != nil {
		return fmt.Errorf("resolution: %w", err)
	}
	for i := range d.FalseVerdicts {
		if err := d.FalseVerdicts[i].check(); err != nil {
			return fmt.Errorf("false_verdicts[%d]: %w", i, err)
		}
	}
	for i := range d.Power {
		p := &d.Power[i]
		err := checkTrials(p.Trials)
		if p.Repeats <= 0 {
			err = fmt.Errorf("repeats: %d is not positive", p.Repeats)
		}
		if err != nil {
			return fmt.Errorf("power[%d]: %w", i, err)
		}
	}
	if drift := d.Drift; drift != nil && (drift.Comparisons <= 0 || drift.Repeats <= 0 ||
		!within(0, 1, drift.Limit) || !within(0, math.MaxInt32, drift.ApartS)) {
		return fmt.Errorf("drift: %+v is out of range", *drift)
	}
	if d.Pairs != nil {
		if err := d.Pairs.check(); err != nil {
			return fmt.Errorf("pairs: %w", err)
		}
	}
	return nil
}

func finite(values ...float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool {
		return math.IsNaN(v) ||
			math.IsInf(v, 0)
	})
}

// within reports whether all values are from low to high. NaN is not.
func within(low, high float64, values ...float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v >= low && v <= high) })
}

// numbers returns the value and the bounds.
func (e Estimate) numbers() []float64 {
	if e.Low == nil {
		return []float64{e.Value}
	}
	return []float64{e.Value, *e.Low, *e.High}
}

// check returns an error for an interval with one bound, for bounds that are exchanged, and for
// numbers that are not from least to most.
func (e Estimate) check(lowest, highest float64) error {
	switch {
	case (e.Low == nil) != (e.High == nil):
		return errors.New("the interval has one bound only")
	case e.Low != nil && *e.Low > *e.High:
		return fmt.Errorf("the interval from %g to %g is empty", *e.Low, *e.High)
	case !within(lowest, highest, e.numbers()...):
		return fmt.Errorf("%g is out of range (%g to %g)", e.numbers(), lowest, highest)
	}
	return nil
}

func (r *Recovery) check() error {
	switch {
	case !finite(r.Known):
		return fmt.Errorf("known: %g is not finite", r.Known)
	case r.Quantity == quantityDelay && r.Known <= 0:
		return fmt.Errorf("known: %g is not a delay", r.Known)
	case !within(0, math.MaxFloat64, r.Tolerance):
		return fmt.Errorf("tolerance: %g is out of range", r.Tolerance)
	case r.Windows < 0:
		return fmt.Errorf("windows: %d is negative", r.Windows)
	}
	if err := r.Measured.check(-math.MaxFloat64, math.MaxFloat64); err != nil {
		return fmt.Errorf("measured: %w", err)
	}
	return nil
}

func (o *Observer) check() error {
	switch {
	case o.SampleEvery <= 0:
		return fmt.Errorf("sample_every: %d is not positive", o.SampleEvery)
	case o.InFlight < 0 || o.Windows < 0:
		return fmt.Errorf("in_flight %d or windows %d is negative", o.InFlight, o.Windows)
	}
	if err := o.Change.check(-math.MaxFloat64, math.MaxFloat64); err != nil {
		return fmt.Errorf("change: %w", err)
	}
	return nil
}

func (r *Resolution) check() error {
	switch {
	case r.Repeats < 0 || r.Repeats == 0 && len(r.Trials) > 0:
		return fmt.Errorf("repeats: %d is not positive", r.Repeats)
	case !within(0, math.MaxFloat64, r.Delay):
		return fmt.Errorf("delay_ns: %g is out of range", r.Delay)
	case !within(0, 1, r.FoundShare):
		return fmt.Errorf("found_share: %g is out of range (0 to 1)", r.FoundShare)
	}
	return checkTrials(r.Trials)
}

func checkTrials(trials []Trials) error {
	for i := range trials {
		t := &trials[i]
		wrong := func(format string, args ...any) error {
			return fmt.Errorf("trials[%d]: %s", i, fmt.Sprintf(format, args...))
		}
		switch {
		case !finite(t.Known):
			return wrong("known: %g is not finite", t.Known)
		case i > 0 && t.Known < trials[i-1].Known:
			return wrong("known: %g is below the one before, %g", t.Known, trials[i-1].Known)
		case t.Count < 0:
			return wrong("count: %d is negative", t.Count)
		case min(t.Found, t.Wrong, t.Beyond) < 0 || max(t.Found, t.Wrong, t.Beyond) > t.Count:
			return wrong("found %d, wrong %d or beyond %d is out of range (0 to %d)", t.Found,
				t.Wrong, t.Beyond, t.Count)
		}
		if err := t.Share.check(0, 1); err != nil {
			return wrong("share: %v", err)
		}
	}
	return nil
}

func (f *FalseVerdicts) check() error {
	switch {
	case f.Repeats <= 0:
		return fmt.Errorf("repeats: %d is not positive", f.Repeats)
	case f.Comparisons < 0 || f.Tests < 0:
		return fmt.Errorf("comparisons %d or tests %d is negative", f.Comparisons, f.Tests)
	case min(f.False, f.Beyond) < 0 || max(f.False, f.Beyond) > f.Comparisons:
		return fmt.Errorf("false %d or beyond %d is out of range (0 to %d)", f.False, f.Beyond,
			f.Comparisons)
	}
	if err := f.Share.check(0, 1); err != nil {
		return fmt.Errorf("share: %w", err)
	}
	return nil
}
