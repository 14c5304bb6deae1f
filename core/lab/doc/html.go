package doc

import (
	"fmt"
	"html"
	"strconv"
	"strings"

	"transportbench/core/base/printable"
)

func escapeHTML(plain string) string { return html.EscapeString(printable.Text(plain)) }

// HTML returns a document as a fragment of HTML. The line before a table is its caption.
func HTML(d *Doc) string {
	var out strings.Builder
	list := false
	for i, b := range d.Blocks {
		t, isText := b.(Text)
		item := isText && (t.Kind == Note || t.Kind == Remark || t.Kind == Item)
		if item != list {
			out.WriteString(map[bool]string{true: "<ul>\n", false: "</ul>\n"}[item])
			list = item
		}
		switch b := b.(type) {
		case Text:
			if i+1 == len(d.Blocks) || !captions(b, d.Blocks[i+1]) {
				out.WriteString(htmlText(b))
			}
		case *Table:
			caption := ""
			if i > 0 && captions(d.Blocks[i-1], b) {
				t := d.Blocks[i-1].(Text)
				if caption = t.Title + t.Text; t.Title != "" && t.Text != "" {
					caption = t.Title + ": " + t.Text
				}
			}
			open, rows := HTMLTable(b, caption)
			fmt.Fprintf(&out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "+
				"aria-label=\"%s\">%s%s</tbody></table></div>\n", escapeHTML(caption), open,
				strings.Join(rows, "\n"))
		case *Fold:
			fmt.Fprintf(&out, "<details class=\"table\"><summary>%s</summary>\n%s</details>\n",
				escapeHTML(b.Title), HTML(&b.Doc))
		}
	}
	if list {
		out.WriteString("</ul>\n")
	}
	return out.String()
}

// captions reports whether a block is the caption of the next one.
func captions(b, next Block) bool {
	t, isText := b.(Text)
	_, isTable := next.(*Table)
	return isText && isTable && t.Kind == Line && t.Title+t.Text != ""
}

// partOfWhole reports whether a share is formatted by [Part], which sorts as text.
func partOfWhole(text string) bool {
	return text != "" && text[0] >= '0' && text[0] <= '9' && strings.HasSuffix(text, "%")
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

// HTMLTable returns a table's HTML up to its first row, and its rows, which are named by their
// first cell. Cells have their values in data-value with four digits, by which a page can sort, if
// their text does not sort as well and the quantities of their column have one unit.
func HTMLTable(t *Table, caption string) (open string, rows []string) {
	classes := func(i int, c Cell) string {
		var names []string
		if t.Columns[i].Right {
			names = append(names, "right")
		} else if t.Columns[i].MinWidth > 0 {
			names = append(names, "long")
		}
		if c.Severity != "" {
			names = append(names, escapeHTML(string(c.Severity)))
		}
		if len(names) == 0 {
			return ""
		}
		return fmt.Sprintf(` class="%s"`, strings.Join(names, " "))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "<table><caption>%s</caption><thead><tr>", escapeHTML(caption))
	for i, c := range t.Columns {
		title := ""
		if c.Help != "" {
			title = fmt.Sprintf(` title="%s"`, escapeHTML(c.Help))
		}
		fmt.Fprintf(&out, `<th scope="col"%s%s>%s</th>`, classes(i, Cell{}), title,
			escapeHTML(c.Name))
	}
	out.WriteString("</tr></thead><tbody>")
	sorts := make([]bool, len(t.Columns))
	for i := range sorts {
		units := map[string]bool{}
		for _, row := range t.Rows {
			if row[i].Type == Quantity {
				units[row[i].Unit] = true
			}
		}
		sorts[i] = len(units) == 1
	}
	rows = make([]string, len(t.Rows))
	for at, row := range t.Rows {
		var out strings.Builder
		out.WriteString("<tr>")
		for i, c := range row {
			value, text := "", escapeHTML(c.Text)
			if sorts[i] && c.Type == Quantity || c.Type == Share && !partOfWhole(c.Text) ||
				c.Type == Severity && c.Value != 0 {
				value = fmt.Sprintf(` data-value="%s"`, strconv.FormatFloat(c.Value, 'g', 4, 64))
			}
			if c.Link != "" {
				text = fmt.Sprintf(`<a href="%s">%s</a>`, escapeHTML(c.Link), text)
			}
			if i == 0 {
				fmt.Fprintf(&out, `<th scope="row"%s%s>%s</th>`, classes(i, c), value, text)
			} else {
				fmt.Fprintf(&out, "<td%s%s>%s</td>", classes(i, c), value, text)
			}
		}
		out.WriteString("</tr>")
		rows[at] = out.String()
	}
	return out.String(), rows
}
