package present

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable returns a table without frames, which reads well in a terminal, a
// log and a mail. A header that begins with > is of a column of numbers, which
// is aligned to the right.
func newTable(w io.Writer, headers ...string) grid {
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
	return grid{t, columns}
}

// grid is a table and the form of its columns.
type grid struct {
	table.Writer
	columns []table.ColumnConfig
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
func renderTable(t grid, markdown bool) {
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
