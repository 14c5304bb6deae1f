package doc

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"transportbench/core/base/printable"
)

// CSVWriter writes comma-separated values that a spreadsheet does not run: a cell that would be a
// formula, and is not a number, has an apostrophe before it, which spreadsheets take for the sign
// of plain text.
type CSVWriter struct{ *csv.Writer }

// NewCSVWriter returns a CSVWriter that writes to w.
func NewCSVWriter(w io.Writer) CSVWriter { return CSVWriter{csv.NewWriter(w)} }

// formulas has the first characters of what spreadsheets take for a formula, in either width.
const formulas = "=+-@＝＋－＠\t\r\n"

// Write writes a row.
func (w CSVWriter) Write(row []string) error {
	cells := make([]string, len(row))
	for i, cell := range row {
		if strings.IndexAny(cell, formulas) == 0 {
			if _, err := strconv.ParseFloat(cell, 64); err != nil {
				cell = "'" + cell
			}
		}
		cells[i] = cell
	}
	return w.Writer.Write(cells)
}

// WriteAll writes rows and flushes.
func (w CSVWriter) WriteAll(rows [][]string) error {
	for _, row := range rows {
		if err := w.Write(row); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// WriteCSV writes a table. Numbers are plain, and missing values empty.
func WriteCSV(w io.Writer, t *Table) error {
	out := NewCSVWriter(w)
	header := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		header[i] = printable.Text(c.Name)
	}
	rows := [][]string{header}
	for _, row := range t.Rows {
		line := make([]string, len(row))
		for i, c := range row {
			switch c.Type {
			case Missing:
			case Quantity, Count, Share:
				line[i] = strconv.FormatFloat(c.Value, 'g', -1, 64)
			default:
				line[i] = printable.Text(c.Text)
			}
		}
		rows = append(rows, line)
	}
	return out.WriteAll(rows)
}
