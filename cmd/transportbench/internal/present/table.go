package present

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable returns a table without frames, which reads well in a terminal, a
// log and a mail. A header that begins with > is of a column of numbers, which
// is aligned to the right.
func newTable(w io.Writer, headers ...string) *grid {
	limit := 0
	if s := newScreen(w); s.width != nil {
		limit = max(s.width()-1, narrowest)
	}
	if plain, ok := w.(markdownText); ok {
		w = plain.Writer // cells are escaped one by one
	}
	t := table.NewWriter()
	t.SetOutputMirror(ruled{w})
	style := table.StyleDefault
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Box.MiddleHorizontal = "-"
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	var row table.Row
	var columns []table.ColumnConfig
	for i, header := range headers {
		name, number := strings.CutPrefix(header, ">")
		column := table.ColumnConfig{Number: i + 1}
		if number {
			column.Align, column.AlignHeader = text.AlignRight, text.AlignRight
		}
		columns = append(columns, column)
		row = append(row, name)
	}
	t.AppendHeader(row)
	t.SetColumnConfigs(columns)
	g := &grid{Writer: t, out: w, limit: limit, columns: columns}
	for _, header := range headers {
		name := strings.TrimPrefix(header, ">")
		g.names, g.widths = append(g.names, name), append(g.widths, text.LongestLineLen(name))
	}
	return g
}

// grid is a table and the form of its columns. On a terminal that is too narrow it leaves columns out.
type grid struct {
	table.Writer
	out     io.Writer
	columns []table.ColumnConfig
	names   []string
	widths  []int    // of the columns
	limit   int      // the longest line; 0 if there is none
	dropped []string // columns to leave out, in this order
	texts   []string // columns with texts
	least   int      // the width of each of them at least
}

// drop names the columns that a narrow terminal leaves out, the least important first.
func (g *grid) drop(columns ...string) *grid {
	g.dropped = columns
	return g
}

// wrap names columns of texts, which a narrow terminal wraps between words if it has room for least
// characters of each.
func (g *grid) wrap(least int, columns ...string) *grid {
	g.texts, g.least = columns, least
	return g
}

// prose limits the table to the length of a line of text, wherever it is written.
func (g *grid) prose() *grid {
	g.limit = widthOf(g.out)
	return g
}

// AppendRow adds a row.
func (g *grid) AppendRow(row table.Row, configs ...table.RowConfig) {
	for i, cell := range row {
		g.widths[i] = max(g.widths[i], text.LongestLineLen(fmt.Sprint(cell)))
	}
	g.Writer.AppendRow(row, configs...)
}

// Render writes the table, and which columns are left out.
func (g *grid) Render() string {
	left := g.fit()
	text := g.Writer.Render()
	if len(left) > 0 {
		paragraph(g.out, 0, 2, "left out on this narrow terminal: "+strings.Join(left, ", "))
	}
	return text
}

// gap is the space between two columns.
const gap = 2

// fit leaves columns out, and wraps the texts, until a line is not longer than the limit. It returns the
// names of the columns that are left out.
func (g *grid) fit() (left []string) {
	if g.limit == 0 {
		return nil
	}
	order := append(slices.Clone(g.dropped), g.names[1:]...)
	slices.Reverse(order[len(g.dropped):]) // the last resort: from the right
	for _, next := range append(order, "") {
		room := g.limit + gap
		var texts []int
		for i, name := range g.names {
			switch {
			case g.columns[i].Hidden:
			case slices.Contains(g.texts, name):
				texts = append(texts, i)
				room -= gap + min(g.least, g.widths[i])
			default:
				room -= g.widths[i] + gap
			}
		}
		if room >= 0 {
			g.share(texts, room)
			break
		}
		if i := slices.Index(g.names, next); i > 0 && !g.columns[i].Hidden {
			g.columns[i].Hidden = true
			left = append(left, cmp.Or(next, "the explanation"))
		}
	}
	g.SetColumnConfigs(g.columns)
	return left
}

// share divides the room beyond the least among columns of texts, and wraps them.
func (g *grid) share(texts []int, room int) {
	slices.SortStableFunc(texts, func(a, b int) int { return cmp.Compare(g.widths[a], g.widths[b]) })
	for n, i := range texts {
		least := min(g.least, g.widths[i])
		more := min(room/(len(texts)-n), g.widths[i]-least)
		room -= more
		if least+more < g.widths[i] {
			g.columns[i].WidthMax, g.columns[i].WidthMaxEnforcer = least+more, text.WrapSoft
		}
	}
}

// ruled writes a table and cuts the padding off the line below its header.
type ruled struct{ io.Writer }

func (r ruled) Write(text []byte) (int, error) {
	if _, err := r.Writer.Write(bytes.Replace(text, []byte("---\n"), []byte("-\n"), 1)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// renderTable renders plain text or Markdown.
func renderTable(t *grid, markdown bool) {
	if !markdown {
		t.Render()
		return
	}
	escape := func(cell any) string { return markdownEscaper.Replace(fmt.Sprint(cell)) }
	for i := range t.columns {
		t.columns[i].Transformer, t.columns[i].TransformerHeader = escape, escape
	}
	t.SetColumnConfigs(t.columns)
	t.RenderMarkdown()
}
