package present

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/format"
)

// Reproduction writes the tables of a document, each row with our figures and below them the published
// ones.
func Reproduction(w io.Writer, c *reproduce.Comparison) {
	fmt.Fprintf(w, "%s, ours and published; x floor: the ratio to the least that the medium needs, each of its own machine\n", c.Source)
	for i := range c.Tables {
		fmt.Fprintln(w)
		reproduced(w, &c.Tables[i])
	}
	fmt.Fprintln(w)
	if len(c.Objectives) > 0 {
		fmt.Fprintln(w, "The load with the highest throughput that meets each objective")
		objectives(w, c.Objectives)
		fmt.Fprintln(w)
	}
	for _, text := range c.Wrong {
		paragraph(w, 0, 2, "published: "+text)
	}
	for _, note := range c.Notes {
		paragraph(w, 0, 2, "note: "+note)
	}
	for _, part := range c.Absent {
		paragraph(w, 0, 2, "not here: "+part)
	}
}

func reproduced(w io.Writer, t *reproduce.ComparedTable) {
	header := []string{t.Row, ""}
	for _, name := range t.Columns {
		header = append(header, ">"+name)
	}
	ratios := slices.ContainsFunc(t.Lines, func(l reproduce.Line) bool { return l.Ours.XFloor > 0 || l.Theirs.XFloor > 0 })
	if ratios {
		header = append(header, ">x floor")
	}
	grid := newTable(w, append(header, "remarks")...)
	line := func(name, side string, s *reproduce.Side, remark string) {
		row := table.Row{name, side}
		for _, f := range s.Figures {
			row = append(row, f.String())
		}
		if ratios {
			row = append(row, ratio(s.XFloor))
		}
		grid.AppendRow(append(row, remark))
	}
	ours, theirs, texts := t.Remarks()
	for i := range t.Lines {
		l := &t.Lines[i]
		side := "ours"
		if l.Provider != "" {
			side += ", " + l.Provider
		}
		line(l.Name, side, &l.Ours, ours[i])
		if l.Theirs.Any() { // else the document has no such row
			line("", "published", &l.Theirs, theirs[i])
		}
	}
	fmt.Fprintln(w, t.Title)
	grid.Render()
	for _, text := range texts {
		paragraph(w, 0, 3, text)
	}
}

func ratio(x float64) string {
	if x == 0 {
		return "-"
	}
	return format.Number(x, "ratio")
}
