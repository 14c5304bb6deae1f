package present

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/lab/reproduce"
	"transportbench/core/lab/result/format"
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
			row = append(row, reproducedFigure(f))
		}
		if ratios {
			row = append(row, ratio(s.XFloor))
		}
		grid.AppendRow(append(row, remark))
	}
	var missing []string // each once
	for i := range t.Lines {
		l := &t.Lines[i]
		var marks []string
		for n := range t.Wrong {
			if slices.Contains(t.Wrong[n].Cells, l.Name) {
				marks = append(marks, strconv.Itoa(n+1))
			}
		}
		mark := ""
		if l.Missing != "" {
			if !slices.Contains(missing, l.Missing) {
				missing = append(missing, l.Missing)
			}
			mark = letter(slices.Index(missing, l.Missing))
		}
		ours := "ours"
		if l.Provider != "" {
			ours += ", " + l.Provider
		}
		published := slices.ContainsFunc(l.Theirs.Figures, func(f *reproduce.Figure) bool { return f != nil })
		if !published { // the document has no such row
			mark, marks = strings.Join(append(marks, mark), " "), nil
		}
		line(l.Name, ours, &l.Ours, mark)
		if published {
			line("", "published", &l.Theirs, strings.Join(marks, " "))
		}
	}
	fmt.Fprintln(w, t.Title)
	grid.Render()
	for i, text := range missing {
		paragraph(w, 0, 3, letter(i)+": "+text)
	}
	for i := range t.Wrong {
		paragraph(w, 0, 3, fmt.Sprintf("%d: %s", i+1, t.Wrong[i].Message))
	}
	for _, note := range t.Notes {
		paragraph(w, 0, 2, note)
	}
}

// letter returns the mark of the i-th reason for missing figures.
func letter(i int) string { return string(rune('a' + i%26)) }

func reproducedFigure(f *reproduce.Figure) string {
	switch {
	case f == nil:
		return "-"
	case f.To > 0:
		return format.Number(f.Value, f.Unit) + " to " + format.Number(f.To, f.Unit)
	}
	return format.Number(f.Value, f.Unit)
}

func ratio(x float64) string {
	if x == 0 {
		return "-"
	}
	return format.Number(x, "ratio")
}
