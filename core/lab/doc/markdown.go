package doc

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"transportbench/core/base/printable"
)

// markdownEscaper escapes what would make a link, code, HTML, emphasis or a cell of a table out of
// plain text. A table takes a backslash and a bar apart, so a bar becomes an entity.
var markdownEscaper = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "<", `\<`, "@", `\@`,
	"&", `\&`, "]", `\]`, "|", "&#124;",
	"://", `:\//`, "www.", `www\.`)

func markdown(plain string) string { return markdownEscaper.Replace(printable.Text(plain)) }

// Markdown returns a document in Markdown as GitHub has it.
func Markdown(d *Doc) string {
	var out strings.Builder
	for _, b := range d.Blocks {
		switch b := b.(type) {
		case Text:
			out.WriteString(markdownLine(b) + "\n")
		case *Table:
			w := pretty(b, func(row []Cell) table.Row {
				cells := make(table.Row, len(row))
				for i, c := range row {
					cells[i] = markdown(c.Text)
				}
				return cells
			})
			w.SetColumnConfigs(configs(b))
			out.WriteString(w.RenderMarkdown() + "\n")
		case *Fold:
			fmt.Fprintf(&out, "<details><summary>%s</summary>\n\n%s\n</details>\n\n",
				escapeHTML(b.Title), Markdown(&b.Doc))
		}
	}
	return out.String()
}

func markdownLine(t Text) string {
	line := markdown(t.Text)
	switch {
	case t.Title != "" && t.Text != "":
		return fmt.Sprintf("**%s**: %s\n", markdown(t.Title), line)
	case t.Title != "":
		return fmt.Sprintf("**%s**\n", markdown(t.Title))
	}
	switch t.Kind {
	case Heading:
		return "### " + line + "\n"
	case Note, Remark, Item:
		return "- " + line
	}
	return line
}
