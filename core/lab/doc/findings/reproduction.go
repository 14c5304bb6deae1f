package findings

import (
	"slices"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/format"
)

// Reproduction returns the tables of a document, each row with our figures and below them the
// published ones, the loads that meet its objectives, what is wrong with its figures, and what is
// missing.
func Reproduction(c *reproduce.Comparison) *doc.Doc {
	out := new(doc.Doc)
	out.Line("%s, ours and published; x floor: the ratio to the least that the medium needs, "+
		"each of its own machine", c.Source)
	for i := range c.Tables {
		out.Gap()
		out.Append(reproducedTable(&c.Tables[i]))
	}
	out.Gap()
	if len(c.Objectives) > 0 {
		out.Line("The load with the highest throughput that meets each objective")
		objectives(out, c.Objectives)
		out.Gap()
	}
	for _, text := range c.Wrong {
		out.Paragraph("published: " + text)
	}
	for _, note := range c.Notes {
		out.Paragraph("note: " + note)
	}
	for _, part := range c.Absent {
		out.Paragraph("not here: " + part)
	}
	return out
}

// reproducedTable returns one table of a document.
func reproducedTable(t *reproduce.ComparedTable) *doc.Doc {
	out := new(doc.Doc)
	header := []string{t.Row, ""}
	for _, name := range t.Columns {
		header = append(header, ">"+name)
	}
	ratios := slices.ContainsFunc(t.Lines, func(l reproduce.Line) bool {
		return l.Ours.XFloor > 0 ||
			l.Theirs.XFloor > 0
	})
	if ratios {
		header = append(header, ">x floor")
	}
	grid := doc.NewTable(append(header, "remarks")...)
	line := func(name, side string, s *reproduce.Side, remark string) {
		row := []any{name, side}
		for _, f := range s.Figures {
			row = append(row, f.String())
		}
		if ratios {
			row = append(row, ratio(s.XFloor))
		}
		grid.Row(append(row, remark)...)
	}
	ours, theirs, texts := t.Remarks()
	for i := range t.Lines {
		l := &t.Lines[i]
		side := "ours"
		for _, more := range []string{l.Provider, l.Windows} {
			if more != "" {
				side += ", " + more
			}
		}
		line(l.Name, side, &l.Ours, ours[i])
		if l.Theirs.Any() { // else the document has no such row
			line("", "published", &l.Theirs, theirs[i])
		}
	}
	out.Line(t.Title)
	out.Add(grid)
	for _, text := range texts {
		out.Add(doc.Text{Kind: doc.Paragraph, Text: text, Hang: 3})
	}
	return out
}

func ratio(x float64) string {
	if x == 0 {
		return "-"
	}
	return format.Number(x, "ratio")
}
