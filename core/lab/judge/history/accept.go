package history

import (
	"fmt"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/set"
)

// Accept marks the changes for the worse that were accepted for the new set, by what was recorded
// next to its results.
func Accept(r *compare.Report) error {
	list, err := readBlessings(r.New)
	if err != nil {
		return err
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Verdict != compare.Worse {
			continue
		}
		b := lastFor(list, set.ID(set.Key(c.Config)), c.Metric)
		if b == nil {
			continue
		}
		c.Accepted = &compare.Acceptance{Who: b.Who, Why: b.Why, At: b.At}
		c.AddNote(fmt.Sprintf("%s is accepted by %s: %s", c.Metric, b.Who, b.Why))
	}
	return nil
}
