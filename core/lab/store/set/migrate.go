package set

import (
	"encoding/json"
	"fmt"
	"os"

	"transportbench/core/base/parallel"
	"transportbench/core/lab/store/jsondoc"
	"transportbench/core/lab/store/result"
)

// migrateFrom1 brings a set of schema 1.x to 2.0. Its samples have metrics that mean something else
// now, and it has no windows. The results in d, if it has any, have both; renewOld reads those in
// files.
func (s *Set) migrateFrom1(d *jsondoc.Document) error {
	var document struct {
		Cells []struct {
			Results []json.RawMessage `json:"results"`
		} `json:"cells"`
	}
	if err := d.Decode(&document); err != nil {
		return err
	}
	for i := range s.Cells {
		c := &s.Cells[i]
		c.migrateSamples()
		c.Results = nil
		for _, text := range document.Cells[i].Results {
			r, err := result.Parse(text)
			if err != nil {
				return fmt.Errorf("cells[%d]: %w", i, err)
			}
			c.Results = append(c.Results, r)
		}
		if len(c.Results) > 0 {
			if err := s.renew(c, c.Results); err != nil {
				return err
			}
		}
	}
	return nil
}

// nameWarnings sets the names of warnings, which sets before 3.0 have as their check.
func (s *Set) nameWarnings(d *jsondoc.Document) error {
	var document struct {
		Cells []struct {
			Warnings []struct {
				Check string `json:"check"`
			} `json:"doubts"`
		} `json:"cells"`
	}
	if err := d.Decode(&document); err != nil {
		return err
	}
	for i := range s.Cells {
		for j := range s.Cells[i].Warnings {
			s.Cells[i].Warnings[j].Name = document.Cells[i].Warnings[j].Check
		}
	}
	return nil
}

// migrateSamples drops what result.Read renames or drops in a result of schema 1.x.
func (c *Cell) migrateSamples() {
	if c.Status == Published {
		return
	}
	c.Schema = "1.0.0"
	result.RenameFrom1(c.Samples, c.Transport())
}

// renew takes the samples and all else that is not about the outcome of a cell from its results.
func (s *Set) renew(c *Cell, results []*result.Result) error {
	for i, r := range results {
		fresh, err := s.NewCell(r)
		if err != nil {
			return err
		}
		if i > 0 {
			fresh.Warnings, fresh.Incomplete, fresh.StartedAt = nil, false, c.StartedAt
			c.Merge(fresh)
			continue
		}
		c.Run, c.Config, c.Schema, c.ClockStep = fresh.Run, fresh.Config, fresh.Schema,
			fresh.ClockStep
		c.Windows, c.Samples = fresh.Windows, fresh.Samples
		c.Pooled, c.responses = fresh.Pooled, fresh.responses
	}
	return nil
}

// renewOld completes the cells of a migrated index from their files. It leaves cells as they are
// whose files are not beside the index.
func (s *Set) renewOld(dir string) error {
	results := make([][]*result.Result, len(s.Cells))
	err := parallel.Each(len(s.Cells), func(i int) error {
		c := &s.Cells[i]
		if result.Major(c.Schema) != "1" || len(c.Windows) > 0 || len(c.Files) == 0 ||
			!exist(dir, c.Files) {
			return nil
		}
		for _, f := range c.Files {
			r, err := result.Read(f.path(dir))
			if err != nil {
				return err
			}
			results[i] = append(results[i], r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, list := range results {
		if err := s.renew(&s.Cells[i], list); err != nil {
			return err
		}
	}
	return nil
}

func exist(dir string, files []File) bool {
	for _, f := range files {
		if _, err := os.Stat(f.path(dir)); err != nil {
			return false
		}
	}
	return true
}
