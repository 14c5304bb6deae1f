package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/set"
)

// Basis is what the verdicts of a comparison rest on.
type Basis struct {
	// Alpha is the significance level over all tests together, and Floor the smallest change that
	// counts, as a share: the largest of all cells, and MinFloor the smallest, if that differs.
	Alpha    float64 `json:"alpha"`
	Floor    float64 `json:"floor"`
	MinFloor float64 `json:"min_floor,omitempty"`
	// FloorFrom says where they are from, if the caller has chosen them by what is known of the
	// machine.
	FloorFrom string `json:"floor_from,omitempty"`
	// Same is the margin within which the interval of what is [Same] lies, as a share; at most
	// Floor.
	Same float64 `json:"same"`
	// Tests is how many tests the p-values and the intervals were adjusted for.
	Tests int `json:"tests"`
	// Across lists the differences of identity that were allowed, except that of the runtime.
	Across []Difference `json:"across,omitempty"`
	// Runtime is set if the sides have different versions of the runtime.
	Runtime *RuntimeDifference `json:"runtime,omitempty"`
	// States are the states of the machine within which values were compared, absent if there are
	// not several.
	States []string `json:"states,omitempty"`
	// Notes list what else may explain a difference.
	Notes []string `json:"notes,omitempty"`
}

// newBasis returns the basis of a comparison of pairs, or an error if they differ in what o does
// not allow.
func newBasis(o Options, differences []Difference, pairs []pair) (Basis, error) {
	if err := forbidden(differences, o); err != nil {
		return Basis{}, err
	}
	b := Basis{Alpha: o.Alpha, Floor: o.Floor, Same: o.same(), Runtime: runtimeDifference(pairs)}
	b.setFloors(o, pairs)
	b.Across = slices.DeleteFunc(slices.Clone(differences),
		func(d Difference) bool { return d.Key == runtimeKey })
	if b.Runtime != nil {
		b.Notes = append(b.Notes, b.Runtime.String())
	}
	return b, nil
}

// setFloors sets the minimum effects of the cells that were measured, and where they are from.
func (b *Basis) setFloors(o Options, pairs []pair) {
	floors := map[string]float64{}
	for _, p := range pairs {
		for _, c := range []*set.Cell{p.old, p.new} {
			if o.MinEffect != nil && c.Status == set.Measured {
				floor, from := o.MinEffect(c, 1)
				floors[from] = floor
			}
		}
	}
	sources := slices.SortedFunc(maps.Keys(floors), func(x, y string) int {
		return cmp.Or(cmp.Compare(floors[y], floors[x]), cmp.Compare(x, y))
	})
	for i, from := range sources {
		switch floor := floors[from]; {
		case i == 0:
			b.Floor, b.FloorFrom = floor, from
		case floor < b.Floor:
			b.MinFloor = floor
			b.FloorFrom += "; elsewhere " + format.Share(floor) + ", " + from
		}
	}
}

// oneMachine reports whether the sides were measured on one machine. The states of several cannot
// be distinguished; a note then says so.
func (b *Basis) oneMachine() bool {
	var keys []string
	for _, d := range b.Across {
		if !slices.Contains([]string{"provider", kernelKey, "source"}, d.Key) {
			keys = append(keys, d.Key)
		}
	}
	if len(keys) > 0 {
		b.Notes = append(b.Notes,
			"not compared within states of the machine, because the machines differ in "+
				strings.Join(keys, ", "))
	}
	return len(keys) == 0
}

// within records the states of the machine.
func (b *Basis) within(states state.Classifier) {
	if b.States = states.Names(); len(b.States) > 0 {
		b.Notes = append(b.Notes, fmt.Sprintf("compared within states of the machine (%s)",
			strings.Join(b.States, ", ")))
	}
}
