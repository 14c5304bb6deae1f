package cellpage

import (
	"html/template"

	"transportbench/core/lab/doc"
)

// Table is a table of the page, as HTML. The script shows the rows that the filters leave, in the
// order that the reader chooses.
type Table struct {
	Open string   `json:"open"` // all before the rows
	Rows []string `json:"rows"`
	// Cells has the number of each row's cell, or -1; it is empty if no filter applies.
	Cells []int `json:"cells,omitempty"`
	// Groups lists the cells of each row if rows are about several cells. The script counts them in
	// the third cell of the row, and lists them in the last.
	Groups [][]int `json:"groups,omitempty"`
}

// NewTable renders a table; row i is about cells[i].
func NewTable(caption string, t *doc.Table, cells ...int) *Table {
	open, rows := doc.HTMLTable(t, caption)
	return &Table{Open: open, Rows: rows, Cells: cells}
}

func escape(s string) string { return template.HTMLEscapeString(s) }
