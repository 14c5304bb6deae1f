package present

import (
	"bytes"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable returns a table without frames, which reads well in a terminal, a
// log and a mail. A header that begins with > is of a column of numbers, which
// is aligned to the right.
func newTable(w io.Writer, headers ...string) table.Writer {
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
	var numbers []table.ColumnConfig
	for i, header := range headers {
		name, number := strings.CutPrefix(header, ">")
		if number {
			numbers = append(numbers, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
		row = append(row, name)
	}
	t.AppendHeader(row)
	t.SetColumnConfigs(numbers)
	return t
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
func renderTable(t table.Writer, markdown bool) {
	if markdown {
		t.RenderMarkdown()
	} else {
		t.Render()
	}
}
