package doc

import (
	"fmt"
	"html"
	"strconv"
	"strings"

	"transportbench/core/base/printable"
)

func escapeHTML(plain string) string { return html.EscapeString(printable.Text(plain)) }

// HTML returns a document as a fragment of HTML. Cells with numbers have them in data-value, by which a
// page can sort.
func HTML(d *Doc) string {
	var out strings.Builder
	list := false
	for _, b := range d.Blocks {
		t, isText := b.(Text)
		item := isText && (t.Kind == Note || t.Kind == Remark || t.Kind == Item)
		if item != list {
			out.WriteString(map[bool]string{true: "<ul>\n", false: "</ul>\n"}[item])
			list = item
		}
		switch b := b.(type) {
		case Text:
			out.WriteString(htmlText(b))
		case *Table:
			htmlTable(&out, b)
		case *Fold:
			fmt.Fprintf(&out, "<details><summary>%s</summary>\n%s</details>\n", escapeHTML(b.Title), HTML(&b.Doc))
		}
	}
	if list {
		out.WriteString("</ul>\n")
	}
	return out.String()
}

func htmlText(t Text) string {
	line := escapeHTML(t.Text)
	switch {
	case t.Kind == Gap || line == "" && t.Title == "":
		return ""
	case t.Title != "" && line != "":
		return fmt.Sprintf("<h4>%s</h4>\n<p>%s</p>\n", escapeHTML(t.Title), line)
	case t.Title != "":
		return fmt.Sprintf("<h4>%s</h4>\n", escapeHTML(t.Title))
	case t.Kind == Heading:
		return fmt.Sprintf("<h3>%s</h3>\n", line)
	case t.Kind == Note || t.Kind == Remark || t.Kind == Item:
		return fmt.Sprintf("<li>%s</li>\n", line)
	}
	return fmt.Sprintf("<p>%s</p>\n", line)
}

// cellClasses are the classes of cells by their types.
var cellClasses = map[Type]string{Missing: "missing", Severity: "severity"}

func htmlTable(out *strings.Builder, t *Table) {
	class := func(i int, c Cell) string {
		var names []string
		if t.Columns[i].Right {
			names = append(names, "number")
		}
		if name := cellClasses[c.Type]; name != "" {
			names = append(names, name)
		}
		if len(names) == 0 {
			return ""
		}
		return fmt.Sprintf(` class="%s"`, strings.Join(names, " "))
	}
	out.WriteString("<table>\n<thead><tr>")
	for i, c := range t.Columns {
		title := ""
		if c.Help != "" {
			title = fmt.Sprintf(` title="%s"`, escapeHTML(c.Help))
		}
		fmt.Fprintf(out, "<th%s%s>%s</th>", class(i, Cell{}), title, escapeHTML(c.Name))
	}
	out.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range t.Rows {
		out.WriteString("<tr>")
		for i, c := range row {
			value := ""
			if c.Type == Quantity || c.Type == Count || c.Type == Share {
				value = fmt.Sprintf(` data-value="%s"`, strconv.FormatFloat(c.Value, 'g', -1, 64))
			}
			fmt.Fprintf(out, "<td%s%s>%s</td>", class(i, c), value, escapeHTML(c.Text))
		}
		out.WriteString("</tr>\n")
	}
	out.WriteString("</tbody>\n</table>\n")
}
