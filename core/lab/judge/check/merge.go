package check

import (
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Merge is [result.Join] with the checks, which it applies anew to all repeats.
func Merge(parts []*result.Result) (*result.Result, error) {
	merged, err := result.Join(parts)
	if err != nil {
		return nil, err
	}
	e := Evidence{Result: merged}
	for _, part := range parts {
		e.Add(part)
	}
	merged.Checks = Run(e)
	return merged, nil
}

// Again judges a cell of several results over all their windows: the checks of each were over its
// own. It leaves a cell alone whose results cannot be joined.
func Again(c *set.Cell, parts []*result.Result) {
	merged, err := Merge(parts)
	if err != nil {
		return
	}
	c.Warnings = nil
	for _, f := range merged.Checks {
		if !f.OK {
			c.Warnings = append(c.Warnings, f)
		}
	}
}
