package cli

import (
	"maps"

	"transportbench/cmd/transportbench/internal/present"
	"transportbench/core/base/machine"
	"transportbench/core/lab/calibrate"
	"transportbench/core/lab/compare"
	"transportbench/core/lab/result/set"
)

// leastChange is the smallest change that counts, from calibrations unless the
// user has chosen one.
type leastChange struct {
	chosen bool
	found  []calibrate.Found
}

// calibrated looks for the calibrations of the machines of sets. It notes those
// that it cannot use, and on a terminal that this machine has none.
func (a *app) calibrated(c *comparison, sets ...*set.Set) leastChange {
	if c.floor != "" {
		return leastChange{chosen: true}
	}
	l := leastChange{found: calibrate.OfSets(sets...)}
	a.noteCalibrations(l.found)
	return l
}

func (a *app) noteCalibrations(found []calibrate.Found) {
	for _, f := range found {
		for _, why := range f.Unused {
			a.note("%s", why)
		}
		if f.Document == nil && present.IsTerminal(a.stderr) && isHere(f.Identity) {
			a.note("no calibration of this machine, so it is not known which changes it can see; run transportbench calibrate")
		}
	}
}

// isHere reports whether identity is that of this machine.
func isHere(identity map[string]string) bool {
	here, err := set.Flatten(machine.ReadEnvironment().Identity)
	return err == nil && maps.Equal(here, identity)
}

// of returns the least change that counts with so many repeats, and where it is
// from if not from the user.
func (l leastChange) of(o compare.Options, repeats int) (share float64, from string) {
	if l.chosen {
		return o.Floor, ""
	}
	return calibrate.LeastChange(l.found, repeats, compare.Defaults().Floor)
}
