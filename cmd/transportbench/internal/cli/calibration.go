package cli

import (
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
)

// leastChange is the smallest change that counts, from calibrations unless the
// user has chosen one.
type leastChange struct {
	chosen bool
	found  []calibration.Found
}

// calibrated looks for calibrations, unless the user has chosen the least change,
// and notes those that it cannot use.
func (a *app) calibrated(c *comparison, find func() []calibration.Found) leastChange {
	if c.floor != "" {
		return leastChange{chosen: true}
	}
	l := leastChange{found: find()}
	noted := map[string]bool{} // a file may be of no use for several machines
	for _, f := range l.found {
		for _, why := range f.Unused {
			if !noted[why] {
				a.note("%s", why)
			}
			noted[why] = true
		}
	}
	return l
}

// of returns the least change that counts with so many repeats, and where it is
// from if not from the user. apart tells that the sides were measured at
// different times.
func (l leastChange) of(o compare.Options, repeats int, apart bool) (share float64, from string) {
	if l.chosen {
		return o.Floor, ""
	}
	return calibration.LeastChange(l.found, repeats, apart, compare.Defaults().Floor)
}
