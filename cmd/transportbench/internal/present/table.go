package present

import (
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable returns a table without frames, which reads well in a terminal, a
// log and a mail.
func newTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleDefault
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Box.MiddleHorizontal = "-"
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(header)
	return t
}

// rightAlign aligns columns of numbers. The first column is 1.
func rightAlign(t table.Writer, columns ...int) {
	configs := make([]table.ColumnConfig, len(columns))
	for i, number := range columns {
		configs[i] = table.ColumnConfig{Number: number, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.SetColumnConfigs(configs)
}

// renderTable renders plain text or Markdown.
func renderTable(t table.Writer, markdown bool) {
	if markdown {
		t.RenderMarkdown()
	} else {
		t.Render()
	}
}
