package comparison

import (
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
)

// LeastChange is the smallest change that counts, from calibrations unless the
// user has chosen one.
type LeastChange struct {
	chosen bool
	found  []calibration.Found
}

// FindLeastChange looks for calibrations, unless the user has chosen the least change,
// and notes those that it cannot use.
func FindLeastChange(a *app.App, c *Flags, find func() []calibration.Found) LeastChange {
	if c.floor != "" {
		return LeastChange{chosen: true}
	}
	l := LeastChange{found: find()}
	noted := map[string]bool{} // a file may be of no use for several machines
	for _, f := range l.found {
		for _, why := range f.Unused {
			if !noted[why] {
				a.Note("%s", why)
			}
			noted[why] = true
		}
	}
	return l
}

// Of returns the least change that counts with so many repeats, and where it is
// from if not from the user.
func (l LeastChange) Of(o compare.Options, repeats int) (share float64, from string) {
	if l.chosen {
		return o.Floor, ""
	}
	return calibration.LeastChange(l.found, repeats, compare.Defaults().Floor)
}

// Along compares the values of an option within a set. Leads must exceed the least change that
// counts.
func (l LeastChange) Along(s *set.Set, axis string, o compare.Options) (*compare.Ranking, error) {
	if l.chosen {
		return compare.Along(s, axis, o)
	}
	return calibration.Along(l.found, s, axis, o)
}

// Between returns the least change that counts between two sets that were measured at different
// times, and where it is from. It is no less than least.
func (l LeastChange) Between(least float64, from string) (share float64, source string) {
	if l.chosen {
		return least, from
	}
	return calibration.LeastChangeBetween(l.found, least, from)
}

// Drift is the least change that counts between sets of different times without a control, and
// where it is from; 0 if the user has chosen the least change.
func (l LeastChange) Drift() (share float64, from string) {
	if l.chosen {
		return 0, ""
	}
	return calibration.DriftOf(l.found)
}
