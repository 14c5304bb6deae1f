package comparison

import (
	"transportbench/cmd/transportbench/internal/app"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
)

// MinEffect is the minimum effect of a comparison: the user's choice, or from calibrations.
type MinEffect struct {
	chosen bool
	found  []calibration.Found
}

// FindMinEffect looks for calibrations, unless the user has chosen the minimum effect, and notes
// those that it cannot use.
func FindMinEffect(a *app.App, c *Flags, find func() []calibration.Found) MinEffect {
	if c.floor != "" {
		return MinEffect{chosen: true}
	}
	m := MinEffect{found: find()}
	noted := map[string]bool{} // a file may be of no use for several machines
	for _, f := range m.found {
		for _, why := range f.Unused {
			if !noted[why] {
				a.Note("%s", why)
			}
			noted[why] = true
		}
	}
	return m
}

// Of returns the minimum effects with so many repeats, or nil if the user has chosen one for all.
func (m MinEffect) Of(repeats int) func(c *set.Cell, times int) (share float64, from string) {
	if m.chosen {
		return nil
	}
	return calibration.MinEffects(m.found, repeats, compare.Defaults().Floor)
}

// Along compares the values of an option within a set. Leads must exceed the minimum effect.
func (m MinEffect) Along(s *set.Set, axis string, o compare.Options) (*compare.Ranking, error) {
	if m.chosen {
		return compare.Along(s, axis, o)
	}
	return calibration.Along(m.found, s, axis, o)
}

// Diff compares two sets. Changes must exceed the minimum effect.
func (m MinEffect) Diff(old, new *set.Set, o compare.Options) (*compare.Report, error) {
	if m.chosen {
		return compare.Diff(old, new, o)
	}
	return calibration.Diff(m.found, old, new, o)
}
