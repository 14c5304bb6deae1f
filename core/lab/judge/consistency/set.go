package consistency

import (
	"fmt"

	"transportbench/core/base/parallel"
	"transportbench/core/lab/judge/check"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// ReadSet is [set.Load] with the warnings of [Set].
func ReadSet(path string) (*set.Set, error) {
	s, err := set.Load(path)
	if err != nil {
		return nil, err
	}
	return s, Set(s)
}

// ReadBoth reads two sets in parallel.
func ReadBoth(a, b string) (*set.Set, *set.Set, error) {
	var sets [2]*set.Set
	err := parallel.Each(2, func(i int) (err error) {
		sets[i], err = ReadSet([]string{a, b}[i])
		return err
	})
	return sets[0], sets[1], err
}

// Set adds warnings to the published figures of a set that are not consistent, and judges cells of
// several results over all their windows, as those of a sweep that is not finished. Published
// figures that contradict each other without saying so are an error.
func Set(s *set.Set) error {
	for i := range s.Cells {
		c := &s.Cells[i]
		switch {
		case c.Row != nil:
			if err := row(c); err != nil {
				return fmt.Errorf("reading %s: %w", s.Source, err)
			}
		case c.Status == set.Measured && (len(c.Files) > 1 || len(c.Results) > 1):
			if parts, err := s.Results(c); err == nil {
				check.Again(c, parts)
			}
		}
	}
	return nil
}

// row judges a cell of published figures.
func row(c *set.Cell) error {
	r := c.Row
	found := Row(r)
	if err := contradicted(r, found); err != nil {
		return err
	}
	for i := range found {
		found[i].Subject, found[i].Message = r.Name, r.Name+": "+found[i].Message
	}
	c.Warn(found)
	c.Warn(Document(r.Document()))
	if r.Contradiction != "" && c.Broken() == "" {
		c.Warn(failed("published", result.Error, 0, 0, "%s", r.Contradiction))
	}
	return nil
}
