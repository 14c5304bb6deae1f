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

// Set adds warnings to the cells of a set whose figures are not consistent, and judges cells of
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
		case c.Status == set.Measured:
			if len(c.Files) > 1 || len(c.Results) > 1 {
				if parts, err := s.Results(c); err == nil {
					check.Again(c, parts)
				}
			}
			c.Warn(cell(c))
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
		found[i] = about(found[i], r.Name)
	}
	c.Warn(found)
	c.Warn(Document(r.Document()))
	if r.Contradiction != "" && c.Broken() == "" {
		c.Warn(failed("published", result.Error, 0, 0, "%s", r.Contradiction))
	}
	return nil
}

// cell applies [Check] to every repeat of a measured cell. It ignores metrics without one sample
// per repeat, such as those that a run measures once.
func cell(c *set.Cell) []result.Finding {
	repeats := 0
	for _, name := range []string{result.Throughput, result.LatencyP50, result.IterationRate} {
		repeats = max(repeats, len(c.Samples[name]))
	}
	f := Figures{Load: Load{MaxValue: -1, RemoteShare: -1}, Values: map[string]float64{}}
	if c.Run != nil {
		f.Load = LoadOf(c.Run)
	}
	var list []result.Finding
	for i := range repeats {
		clear(f.Values)
		for name, values := range c.Samples {
			if len(values) == repeats {
				f.Values[name] = values[i]
			}
		}
		list = append(list, Check(f)...)
	}
	return bySeverity(first(list))
}
