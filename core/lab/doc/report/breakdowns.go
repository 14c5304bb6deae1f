package report

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"transportbench/core/base/grouped"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
)

// breakdown shows one kind of time and its parts for each cell that has it.
type breakdown struct {
	Title  string
	Legend []legendPart
	Loads  []loadBars
	More   int // cells that are in the table only

	cells []int // all that have it, with their parts
	parts []analyze.Breakdown
}

// loadBars are the rows of one load, which share a scale.
type loadBars struct {
	Load string
	Rows []barRow
}

type legendPart struct {
	Name, Help string
	Class      string
}

type barRow struct {
	Cell   int
	Name   string // of the transport
	Label  string
	Whole  string
	At     float64 // end of the whole, in percent of the longest row of the load
	Bars   []bar
	Excess string // by how much the parts exceed the whole
	// Fill is the ratio of the longest row to this one: multiplied by it, the row fills its width.
	Fill float64
}

type bar struct {
	X, W  float64 // percent
	Class string
	Text  string
	Inset bool // drawn inside the bar before it
}

// barsShown is the number of rows of one kind that are drawn, unless the newest set has more; the
// table has all.
const barsShown = 60

// breakdowns returns the breakdowns of the analyses by name and then those of the starts, as
// drawings.
func (b *builder) breakdowns() []breakdown {
	var list []breakdown
	add := func(cell int, d analyze.Breakdown) {
		title := heading(d.Name)
		at := slices.IndexFunc(list, func(have breakdown) bool { return have.Title == title })
		if at < 0 {
			at = len(list)
			list = append(list, breakdown{Title: title})
		}
		list[at].cells, list[at].parts = append(list[at].cells, cell), append(list[at].parts, d)
	}
	for cell, overview := range b.overviews {
		if overview.Analysis != nil {
			for _, d := range overview.Analysis.Breakdowns {
				add(cell, d)
			}
		}
	}
	analyses := len(list)
	for cell, overview := range b.overviews {
		if overview.Start != nil {
			add(cell, *overview.Start)
		}
	}
	for i, s := range slices.Backward(b.sets) {
		for _, stack := range analyze.StacksOf(s) {
			add(b.first[i]+stack.Cell, stack.Breakdown())
		}
	}
	for i := range list {
		b.drawBars(&list[i])
		if i < analyses {
			list[i].explainRest()
		}
	}
	return list
}

// drawBars draws the cells by load, so that the transports of one load are next to each other: all
// loads of the newest set, and then others until they are too many.
func (b *builder) drawBars(l *breakdown) {
	all := make([]int, len(l.cells)) // numbers in l.cells
	for i := range all {
		all[i] = i
	}
	load := func(i int) string {
		cell := l.cells[i]
		if len(b.sets) > 1 {
			return b.names[b.doc.Cells.Set[cell]] + ": " + b.doc.Cells.Load[cell]
		}
		return b.doc.Cells.Load[cell]
	}
	newest := b.doc.Cells.Set[l.cells[0]]
	left := barsShown
	for _, cells := range grouped.By(all, load) {
		left -= len(cells)
		if left < 0 && b.doc.Cells.Set[l.cells[cells[0]]] != newest {
			l.More += len(cells)
			continue
		}
		group := loadBars{Load: load(cells[0])}
		for _, i := range cells {
			cell := l.cells[i]
			row := l.row(l.parts[i])
			row.Cell, row.Label = cell, b.doc.Cells.Label[cell]
			row.Name = strings.TrimSpace(b.doc.Series[b.doc.Cells.Series[cell]].Name + " " +
				b.doc.Cells.Own[cell])
			group.Rows = append(group.Rows, row)
		}
		group.scale()
		l.Loads = append(l.Loads, group)
	}
}

// class returns the CSS class of a part.
func (l *breakdown) class(p analyze.Part) string {
	if p.Name == analyze.Unexplained {
		return "unexplained"
	}
	at := slices.IndexFunc(l.Legend, func(have legendPart) bool { return have.Name == p.Name })
	if at < 0 {
		at = len(l.Legend)
		l.Legend = append(l.Legend, legendPart{p.Name, p.Help, partClass(at)})
	}
	return l.Legend[at].Class
}

const partColours = 8

func partClass(i int) string { return "p" + string(rune('0'+i%partColours)) }

// row returns a row with bars in nanoseconds; scale converts them to percent.
func (l *breakdown) row(d analyze.Breakdown) barRow {
	row := barRow{Whole: format.Time(d.Whole), At: d.Whole}
	x := 0.0
	for i, p := range d.Parts {
		if p.Mean < 0 {
			row.Excess = format.Time(-p.Mean)
			continue
		}
		if p.Inside != "" { // drawn with the next part, inside of which it is
			continue
		}
		whole := p
		inset := i > 0 && d.Parts[i-1].Inside == p.Name
		if inset {
			whole.Mean += d.Parts[i-1].Mean
			whole.Share += d.Parts[i-1].Share
		}
		row.Bars = append(row.Bars, l.bar(x, whole))
		if inset {
			row.Bars = append(row.Bars, l.bar(x, d.Parts[i-1]))
		}
		x += whole.Mean
	}
	return row
}

// bar returns the bar of a part from x on.
func (l *breakdown) bar(x float64, p analyze.Part) bar {
	return bar{X: x, W: p.Mean, Class: l.class(p), Text: p.Label() + ": " + format.Time(p.Mean) +
		", " + percent(p.Share), Inset: p.Inside != ""}
}

// scale converts nanoseconds to percent of the longest row.
func (l *loadBars) scale() {
	lengths := make([]float64, len(l.Rows))
	for i, row := range l.Rows {
		lengths[i] = row.At
		for _, bar := range row.Bars {
			lengths[i] = max(lengths[i], bar.X+bar.W)
		}
	}
	longest := slices.Max(lengths)
	for i, length := range lengths {
		if length <= 0 {
			continue
		}
		row := &l.Rows[i]
		row.Fill = longest / length
		row.At *= 100 / longest
		for j := range row.Bars {
			row.Bars[j].X *= 100 / longest
			row.Bars[j].W *= 100 / longest
		}
	}
}

// explainRest adds what the parts leave over to the legend.
func (l *breakdown) explainRest() {
	if i := slices.IndexFunc(l.Legend, func(p legendPart) bool {
		return p.Class == "unexplained"
	}); i < 0 {
		l.Legend = append(l.Legend, legendPart{analyze.Unexplained, "the whole minus its parts",
			"unexplained"})
	}
}

// heading capitalizes a breakdown's name. Its title may have figures of one cell.
func heading(name string) string {
	r, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(r)) + name[size:]
}
