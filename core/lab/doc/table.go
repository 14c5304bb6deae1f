package doc

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// Table is a table with typed cells.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	// Prose limits the table to the length of a line of prose, wherever it is written.
	Prose bool
	// Narrow leaves columns with a turn out of a stream, too, as on a terminal of 120 columns.
	Narrow bool
}

// Column is a column of a table.
type Column struct {
	Name string
	// Help explains the column.
	Help string
	// Right aligns numbers.
	Right bool
	// Drop is the turn in which a narrow terminal leaves the column out, from 1; 0: after those
	// that have one.
	Drop int
	// MinWidth is the width to which a narrow terminal wraps the texts of the column; 0 if it does
	// not.
	MinWidth int
	// MaxWidth is the width to which texts are wrapped everywhere but in formats that wrap
	// themselves; 0 if none.
	MaxWidth int
}

// NewTable returns a table with the columns of these names. A name that begins with > is of a
// column of numbers, which is aligned to the right.
func NewTable(names ...string) *Table {
	t := new(Table)
	for _, name := range names {
		name, right := strings.CutPrefix(name, ">")
		t.Columns = append(t.Columns, Column{Name: name, Right: right})
	}
	return t
}

func (t *Table) column(name string) *Column {
	if i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name }); i >= 0 {
		return &t.Columns[i]
	}
	return new(Column) // the table does without it
}

// Drop names the columns that a narrow terminal leaves out, the least important first.
func (t *Table) Drop(names ...string) *Table {
	for i, name := range names {
		t.column(name).Drop = i + 1
	}
	return t
}

// Wrap names columns of texts, which a narrow terminal wraps between words if it has room for
// minWidth characters of each.
func (t *Table) Wrap(minWidth int, names ...string) *Table {
	for _, name := range names {
		t.column(name).MinWidth = minWidth
	}
	return t
}

// Explain gives columns their help by name.
func (t *Table) Explain(helps map[string]string) *Table {
	for i, c := range t.Columns {
		t.Columns[i].Help = cmp.Or(c.Help, helps[c.Name])
	}
	return t
}

// MaxWidth wraps the texts of a column to a width.
func (t *Table) MaxWidth(width int, name string) *Table {
	t.column(name).MaxWidth = width
	return t
}

// Short limits the table to the length of a line of prose.
func (t *Table) Short() *Table {
	t.Prose = true
	return t
}

// Row adds a row: of cells, texts, numbers that count something, and what prints itself. A dash is
// a missing value.
func (t *Table) Row(values ...any) {
	row := make([]Cell, len(values))
	for i, v := range values {
		row[i] = CellOf(v)
	}
	t.Rows = append(t.Rows, row)
}

// Type is the type of a cell.
type Type int

// The types of cells.
const (
	Words    Type = iota // a text
	Missing              // no value
	Quantity             // a value with a unit
	Count                // a number of things
	Share                // a part of a whole, or a relative change
	Severity             // how bad something is
)

// Cell is a cell of a table: how people read it and, for numbers, the value.
type Cell struct {
	Type  Type
	Text  string
	Value float64
	Unit  string
	// Severity is that of what the cell says.
	Severity result.Severity
	// Link is the address that the cell leads to where the format has links.
	Link string
}

// Good is the severity of good news.
const Good result.Severity = "good"

// Judged returns the cell of a text about something of a severity. Cells sort by value.
func Judged(severity result.Severity, text string, value float64) Cell {
	return Cell{Type: Severity, Text: text, Value: value, Severity: severity}
}

// CellOf returns the cell of a text, of a number that counts something, or of what prints itself. A
// dash is a missing value.
func CellOf(v any) Cell {
	switch v := v.(type) {
	case Cell:
		return v
	case string:
		if v == "-" {
			return Cell{Type: Missing, Text: v}
		}
		return Cell{Text: v}
	case int:
		return Cell{Type: Count, Text: strconv.Itoa(v), Value: float64(v)}
	case uint64:
		return Cell{Type: Count, Text: strconv.FormatUint(v, 10), Value: float64(v)}
	case result.Severity:
		return Judged(v, string(v), 0)
	}
	return Cell{Text: fmt.Sprint(v)}
}

// None is the cell of a value that is missing.
func None() Cell { return Cell{Type: Missing, Text: "-"} }

// Number returns the cell of a value with a unit, or [None] of none.
func Number(value float64, unit string) Cell {
	if math.IsNaN(value) {
		return None()
	}
	return Cell{Type: Quantity, Text: format.Number(value, unit), Value: value, Unit: unit}
}

// Median returns the cell of the median of a metric.
func Median(m result.Metric) Cell {
	return Cell{Type: Quantity, Text: format.Value(m), Value: m.Median, Unit: m.Unit}
}

// MedianOf returns the cell of the median of a metric, or [None] of nil.
func MedianOf(m *result.Metric) Cell {
	if m == nil {
		return None()
	}
	return Median(*m)
}

// Time returns the cell of a time in nanoseconds.
func Time(ns float64) Cell { return Number(ns, "ns") }

// Rate returns the cell of operations per second.
func Rate(perSecond float64) Cell { return Number(perSecond, "op/s") }

// Change returns the cell of a relative change, or [None] of nil.
func Change(share *float64) Cell {
	if share == nil {
		return None()
	}
	return Cell{Type: Share, Text: format.Percent(share), Value: *share}
}

// Part returns the cell of a part of a whole.
func Part(share float64) Cell {
	return Cell{Type: Share, Text: strconv.FormatFloat(100*share, 'f', 1, 64) + "%", Value: share}
}

// Exact returns the cell of a number as programs read it, empty without one.
func Exact(v *float64) Cell {
	if v == nil || math.IsNaN(*v) {
		return Cell{Type: Missing}
	}
	return Cell{Type: Quantity, Text: strconv.FormatFloat(*v, 'g', -1, 64), Value: *v}
}
