package calibrate

import (
	"fmt"
	"slices"
	"time"

	"transportbench/core/lab/result/format"
	"transportbench/core/lab/result/set"
)

// LeastChange returns the least change that counts in comparisons of so many repeats a side, and a text
// on where it is from: the smallest change that the machines were seen to find, or standard if that is
// larger. from is empty if no machine has a full calibration.
func LeastChange(found []Found, repeats int, standard float64) (share float64, from string) {
	share = standard
	for _, f := range found {
		if f.Document == nil {
			continue
		}
		seen, ok := f.Document.LeastChange(repeats)
		if !ok {
			continue
		}
		by := fmt.Sprintf("with %s (calibration of %s, %s)",
			format.Count(repeats, "repeat"), f.Document.StartedAt.UTC().Format(time.DateOnly), f.Path)
		switch {
		case seen > share && f.Document.finds(seen):
			share, from = seen, "what the machine was seen to find "+by
		case seen > share:
			share, from = seen, "which the machine was not seen to find "+by
		case from == "":
			from = fmt.Sprintf("the default; the machine was seen to find %s %s", format.Share(seen), by)
		}
	}
	return share, from
}

// finds reports whether a change was found in enough trials on quiet processors.
func (d *Document) finds(change float64) bool {
	return slices.ContainsFunc(d.Power, func(p Power) bool {
		return !p.Loaded && slices.ContainsFunc(p.Trials, func(t Trials) bool { return t.Known == change && t.Share.Value >= foundShare })
	})
}

// Repeats returns the least number of repeats of the measured cells whose configuration all sets have,
// or of all measured cells if they have none in common. The options in ignore do not count.
func Repeats(ignore []string, sets ...*set.Set) int {
	in := map[string]int{} // the number of the last set that has the configuration, if all before have it
	for number, s := range sets {
		for i := range s.Cells {
			if key := s.Cells[i].Key(ignore...); in[key] == number {
				in[key] = number + 1
			}
		}
	}
	common, any := 0, 0
	for _, s := range sets {
		for i := range s.Cells {
			c := &s.Cells[i]
			n := 0
			for _, values := range c.Samples {
				n = max(n, len(values))
			}
			if c.Status != set.Measured || n == 0 {
				continue
			}
			if any == 0 || n < any {
				any = n
			}
			if in[c.Key(ignore...)] == len(sets) && (common == 0 || n < common) {
				common = n
			}
		}
	}
	if common > 0 {
		return common
	}
	return any
}
