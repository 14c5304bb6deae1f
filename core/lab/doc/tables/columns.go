package tables

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Columns are metrics, and options of a run, that a user chose for a table.
type Columns []string

// ParseColumns reads a list of names with commas between them: metrics, and some of options. It
// takes hyphens for underscores.
func ParseColumns(text string, options []string) (Columns, error) {
	var list Columns
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
		if err := compare.CheckMetric(name); err != nil &&
			!slices.Contains(options, strings.ReplaceAll(name, "_", "-")) {
			return nil, err
		}
		if slices.Contains(list, name) {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		list = append(list, name)
	}
	return list, nil
}

// Of returns a row for each measured or published cell, in the order of the set, with its load and
// the columns. Figures are medians. Cells without a result follow.
func (names Columns) Of(s *set.Set) *doc.Doc {
	out := new(doc.Doc)
	var rows []*set.Cell
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Status == set.Measured || c.Status == set.Published {
			rows = append(rows, c)
		}
	}
	loads := loadsOf(s.Cells)
	columns := []column{col("load", loads.name)}
	if slices.ContainsFunc(rows, func(c *set.Cell) bool {
		return c.Transport() != rows[0].Transport()
	}) {
		columns = append(columns, col("transport", (*set.Cell).Transport))
	}
	for _, name := range names {
		columns = append(columns, col(">"+name, func(c *set.Cell) doc.Cell {
			if value, is := c.Shown(name); is {
				return doc.CellOf(value)
			}
			return sampled(c, name, doc.Median)
		}))
	}
	out.Add(tableOf(rows, columns))
	writeReasons(out, s, loads)
	return out
}

// Figures returns the columns of each measured or published cell.
func (names Columns) Figures(s *set.Set) []CellFigures {
	var list []CellFigures
	labels := set.LabelsOf(s.Cells)
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Status != set.Measured && c.Status != set.Published {
			continue
		}
		f := CellFigures{Cell: labels.Of(c.Config), Config: c.Config,
			Metrics: map[string]result.Metric{}}
		for _, name := range names {
			if m, known := c.Metric(name); known {
				f.Metrics[name] = m
			}
		}
		list = append(list, f)
	}
	return list
}

// CellFigures are the chosen metrics of a cell.
type CellFigures struct {
	Cell    string                   `json:"cell"`
	Config  map[string]string        `json:"config"`
	Metrics map[string]result.Metric `json:"metrics"`
}
