package history

import (
	"cmp"
	"fmt"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
)

// Accept marks the changes for the worse that were accepted for the new set, by what was recorded
// next to its results. That of a transport is accepted with that of one of its cells.
func Accept(r *compare.Report) error {
	list, err := readBlessings(r.New)
	if err != nil {
		return err
	}
	for _, c := range r.Rows() {
		if c.Verdict != compare.Worse {
			continue
		}
		var b *Blessing
		for _, of := range r.CellsOf(c) {
			b = cmp.Or(lastFor(list, set.ID(set.Key(of.Config)), c.Metric), b)
		}
		if b == nil {
			continue
		}
		c.Accepted = &compare.Acceptance{Who: b.Who, Why: b.Why, At: b.At}
		c.AddNote(fmt.Sprintf("%s is accepted by %s: %s", c.Metric, b.Who, b.Why))
	}
	return nil
}
