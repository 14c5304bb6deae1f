package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/format"
)

// documentPart shows the tables of a document with our figures and the published ones.
type documentPart struct {
	Source string
	Notes  template.HTML
	Tables []documentTable
}

// documentTable has the charts of a table, and the table.
type documentTable struct {
	Title  string
	Charts []documentChart
	HTML   template.HTML
}

// documentChart is a column of a table: over another column, or with a row for each line.
type documentChart struct {
	Title     string
	Low, High string // ends of the axis, which is logarithmic
	Rows      []documentRow
	// Ours and Theirs are points of polylines from 0 to 100, over Along.
	Ours, Theirs               string
	Along, AlongLow, AlongHigh string
}

// documentRow has the marks of a line in percent of the axis.
type documentRow struct {
	Label        string
	Cell         int // -1 without one
	Ours, Theirs *documentMark
	Text         string
}

type documentMark struct{ X, W float64 }

// documents compares the sets with the documents whose published figures they have.
func (b *builder) documents() ([]documentPart, error) {
	var list []documentPart
	for i, s := range b.sets {
		for _, d := range b.Documents {
			if !d.In(s) {
				continue
			}
			c, err := d.Compare(s)
			if err != nil {
				return nil, err
			}
			notes := template.HTML(doc.HTML(findings.ReproductionNotes(c)))
			part := documentPart{Source: c.Source, Notes: notes}
			for t := range c.Tables {
				part.Tables = append(part.Tables, tableOf(&c.Tables[t], b.first[i]))
			}
			list = append(list, part)
		}
	}
	return list, nil
}

// tableOf draws a table. Its cells are numbered from first.
func tableOf(t *reproduce.ComparedTable, first int) documentTable {
	table := template.HTML(doc.HTML(findings.ReproducedTable(t)))
	drawn := documentTable{Title: t.Title, HTML: table}
	along := slices.Index(t.Columns, t.Along)
	for column, name := range t.Columns {
		if column == along {
			continue
		}
		chart := documentChart{Title: name}
		if along < 0 {
			chart.rows(t, column, first)
		} else {
			chart.Along = t.Along
			chart.lines(t, along, column)
		}
		if chart.High != "" {
			drawn.Charts = append(drawn.Charts, chart)
		}
	}
	return drawn
}

// axisOf is a logarithmic axis.
type axisOf struct{ low, high float64 }

func (a *axisOf) add(f *reproduce.Figure) {
	if f == nil || f.Value <= 0 {
		return
	}
	if a.low == 0 || f.Value < a.low {
		a.low = f.Value
	}
	a.high = max(a.high, f.Value, f.To)
}

// at returns the place of a value, from 0 to 100.
func (a *axisOf) at(value float64) float64 {
	if a.high <= a.low {
		return 50
	}
	return 100 * math.Log(value/a.low) / math.Log(a.high/a.low)
}

func (a *axisOf) mark(f *reproduce.Figure) *documentMark {
	if f == nil || f.Value <= 0 {
		return nil
	}
	m := &documentMark{X: a.at(f.Value)}
	if f.To > f.Value {
		m.W = a.at(f.To) - m.X
	}
	return m
}

// axisOfColumn returns the axis of the figures of a column, and their unit.
func axisOfColumn(t *reproduce.ComparedTable, column int) (a axisOf, unit string) {
	for i := range t.Lines {
		for _, side := range []*reproduce.Side{&t.Lines[i].Ours, &t.Lines[i].Theirs} {
			if f := side.Figures[column]; f != nil && !t.Lines[i].Ratio {
				a.add(f)
				unit = f.Unit
			}
		}
	}
	return a, unit
}

// rows draws each line on its own.
func (c *documentChart) rows(t *reproduce.ComparedTable, column, first int) {
	a, unit := axisOfColumn(t, column)
	if a.high == 0 {
		return
	}
	c.Low, c.High = format.Number(a.low, unit), format.Number(a.high, unit)
	for i := range t.Lines {
		l := &t.Lines[i]
		ours, theirs := l.Ours.Figures[column], l.Theirs.Figures[column]
		if l.Ratio {
			continue
		}
		row := documentRow{Label: l.Name, Cell: -1, Text: ours.String() + " / " + theirs.String(),
			Ours: a.mark(ours), Theirs: a.mark(theirs)}
		if l.Cell >= 0 {
			row.Cell = first + l.Cell
		}
		if row.Ours != nil || row.Theirs != nil {
			c.Rows = append(c.Rows, row)
		}
	}
}

// lines draws the column over another one.
func (c *documentChart) lines(t *reproduce.ComparedTable, along, column int) {
	x, xUnit := axisOfColumn(t, along)
	y, yUnit := axisOfColumn(t, column)
	if x.high == 0 || y.high == 0 {
		return
	}
	c.Low, c.High = format.Number(y.low, yUnit), format.Number(y.high, yUnit)
	c.AlongLow, c.AlongHigh = format.Number(x.low, xUnit), format.Number(x.high, xUnit)
	var ours, theirs strings.Builder
	for i := range t.Lines {
		l := &t.Lines[i]
		for _, side := range []struct {
			of *reproduce.Side
			to *strings.Builder
		}{{&l.Ours, &ours}, {&l.Theirs, &theirs}} {
			if h, v := side.of.Figures[along], side.of.Figures[column]; h != nil && v != nil &&
				h.Value > 0 && v.Value > 0 {
				fmt.Fprintf(side.to, "%.1f,%.1f ", x.at(h.Value), 100-y.at(v.Value))
			}
		}
	}
	c.Ours, c.Theirs = strings.TrimSpace(ours.String()), strings.TrimSpace(theirs.String())
}
