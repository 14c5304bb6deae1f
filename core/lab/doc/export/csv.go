package export

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
)

// CSVWriter writes comma-separated values that a spreadsheet does not run: a cell that would be a
// formula, and is not a number, has an apostrophe before it, which spreadsheets take for the sign of
// plain text.
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
