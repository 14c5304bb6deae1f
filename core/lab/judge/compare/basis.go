package compare

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/lab/judge/state"
)

// Basis is what the verdicts of a comparison rest on.
type Basis struct {
	// Alpha is the significance level over all tests together, and Floor the smallest change that
	// counts, as a share.
	Alpha float64 `json:"alpha"`
	Floor float64 `json:"floor"`
	// FloorFrom says where Floor is from, if the caller has chosen it by what is known of the
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
	b.Across = slices.DeleteFunc(slices.Clone(differences),
		func(d Difference) bool { return d.Key == runtimeKey })
	if b.Runtime != nil {
		b.Notes = append(b.Notes, b.Runtime.String())
	}
	return b, nil
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
