package doc

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"transportbench/core/base/printable"
	"transportbench/core/lab/store/result"
)

const (
	prose = 98 // the length of a line of prose
	gap   = 2  // the space between two columns
	// plain is the width of tables in a stream. Names in them stay whole, for those who search.
	plain = 120
	// Narrowest is the shortest line that a text is wrapped to.
	Narrowest = 30
)

// Screen is what a text is written for. The zero value is a file, in which tables have all columns.
type Screen struct {
	Width  int  // the columns of a terminal; 0 if it is none
	Colour bool // severities are coloured
	// Stream is set for the output of a command that is no terminal.
	Stream bool
}

// WriteText writes a document as plain text. Tables have no frames, which reads well in a terminal,
// a log and a mail. A line below a table says which columns are left out for lack of room.
func WriteText(w io.Writer, d *Doc, to Screen) error {
	var out bytes.Buffer
	s := screen{&out, to.Width, to.Colour, to.Stream}
	s.blocks(d.Blocks)
	_, err := out.WriteTo(w)
	return err
}

type screen struct {
	*bytes.Buffer
	width  int // 0 if it is no terminal
	colour bool
	stream bool
}

// The colours of cells and texts by their severity.
var (
	cellColours = map[result.Severity]text.Color{
		result.Error: text.FgRed, result.Warning: text.FgYellow, Good: text.FgGreen,
	}
	textColours = map[result.Severity]text.Colors{
		result.Error: {text.FgRed, text.Bold}, result.Warning: {text.FgYellow},
		Good: {text.FgGreen},
	}
)

// coloured returns a text in the colour of its severity.
func (s screen) coloured(line string, colour interface{ EscapeSeq() string }, has bool) string {
	if !s.colour || !has || line == "" {
		return line
	}
	return colour.EscapeSeq() + line + text.Reset.EscapeSeq()
}

// prose returns the length of a line of text: less on a narrower terminal.
func (s screen) prose() int {
	if s.width > 0 {
		return max(min(prose, s.width-1), Narrowest)
	}
	return prose
}

func (s screen) blocks(list []Block) {
	for _, b := range list {
		switch b := b.(type) {
		case Text:
			s.text(b)
		case *Table:
			s.table(b)
		case *Fold:
			fmt.Fprintf(s, "\n%s:\n", printable.Text(b.Title))
			s.blocks(b.Blocks)
		}
	}
}

func (s screen) text(t Text) {
	line := printable.Text(t.Text)
	if t.Title != "" {
		line = printable.Text(t.Title)
		if t.Text != "" {
			line += ": " + printable.Text(t.Text)
		}
	}
	switch t.Kind {
	case Paragraph, Note:
		s.paragraph(0, cmp.Or(t.Hang, 2), line, t.Severity)
	case Item:
		s.paragraph(t.Indent, 2, "- "+line, "")
	default:
		if s.width > 0 {
			line = WrapLine(line, s.width-1)
		}
		fmt.Fprintln(s, s.judged(line, t.Severity))
	}
}

// judged colours a text up to its first colon.
func (s screen) judged(line string, severity result.Severity) string {
	word, rest, found := strings.Cut(line, ":")
	colours, has := textColours[severity]
	if !found || !has {
		return line
	}
	return s.coloured(word, colours, true) + ":" + rest
}

// paragraph wraps and writes a text. It indents all lines by indent, and those after the first by
// hang more.
func (s screen) paragraph(indent, hang int, message string, severity result.Severity) {
	for i, line := range strings.Split(text.WrapSoft(message, s.prose()-indent-hang), "\n") {
		switch i {
		case 0:
			line = s.judged(line, severity)
		case 1:
			indent += hang
		}
		fmt.Fprintf(s, "%s%s\n", strings.Repeat(" ", indent), strings.TrimRight(line, " "))
	}
}

// table writes a table, and which columns are left out.
func (s screen) table(t *Table) {
	g := &grid{Table: t, widths: make([]int, len(t.Columns))}
	w := pretty(t, func(row []Cell) table.Row {
		cells := make(table.Row, len(row))
		for i, c := range row {
			line := printable.Text(c.Text)
			if maxWidth := t.Columns[i].MaxWidth; maxWidth > 0 {
				line = text.WrapSoft(line, maxWidth)
			}
			colour, has := cellColours[c.Severity]
			cells[i], g.widths[i] = s.coloured(line, colour, has),
				max(g.widths[i], text.LongestLineLen(line))
		}
		return cells
	})
	style := table.StyleDefault
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Box.MiddleHorizontal = "-"
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	w.SuppressTrailingSpaces()
	g.configs = configs(t)
	switch {
	case t.Prose:
		g.limit = s.prose()
	case s.width > 0:
		g.limit = max(s.width-1, Narrowest)
	default:
		g.limit, g.whole, g.all = plain, true, !(s.stream && t.Narrow)
	}
	left := g.fit()
	w.SetColumnConfigs(g.configs)
	// The padding of the last column is cut off the line below the header.
	fmt.Fprintln(s, strings.Replace(w.Render(), "---\n", "-\n", 1))
	if len(left) > 0 {
		s.paragraph(0, 2, "left out for lack of room: "+strings.Join(left, ", "), "")
	}
}

// pretty returns the table with its rows as a form has them. cells returns a row of the form.
func pretty(t *Table, cells func([]Cell) table.Row) table.Writer {
	w := table.NewWriter()
	header := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		header[i].Text = c.Name
	}
	w.AppendHeader(cells(header))
	for _, row := range t.Rows {
		w.AppendRow(cells(row))
	}
	return w
}

func configs(t *Table) []table.ColumnConfig {
	list := make([]table.ColumnConfig, len(t.Columns))
	for i, c := range t.Columns {
		list[i].Number = i + 1
		if c.Right {
			list[i].Align, list[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	return list
}

// grid is a table of which a narrow terminal leaves columns out.
type grid struct {
	*Table
	configs []table.ColumnConfig
	widths  []int // of the columns
	limit   int   // the longest line
	whole   bool  // names stay whole, even if a line gets longer
	all     bool  // no column is left out
}

// order returns the columns in the order in which they are left out. The last resort is from the
// right. The first column always stays.
func (g *grid) order() (list []int) {
	for i := len(g.Columns) - 1; i > 0; i-- {
		list = append(list, i)
	}
	turn := func(i int) int { return cmp.Or(g.Columns[i].Drop, len(g.Columns)+1000) }
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(turn(a), turn(b)) })
	return list
}

// fit leaves columns out, and wraps the texts, until a line is not longer than the limit. It
// returns the names of the columns that are left out.
func (g *grid) fit() (left []string) {
	for _, next := range append(g.order(), 0) {
		room := g.limit + gap
		var texts []int
		for i, c := range g.Columns {
			switch {
			case g.configs[i].Hidden:
			case c.MinWidth > 0 && (!g.whole || c.Name == ""):
				texts = append(texts, i)
				room -= gap + min(c.MinWidth, g.widths[i])
			default:
				room -= g.widths[i] + gap
			}
		}
		if room >= 0 || g.all || g.whole && (next == 0 || g.Columns[next].Drop == 0) {
			g.share(texts, max(room, 0))
			break
		}
		if next > 0 {
			g.configs[next].Hidden = true
			left = append(left, cmp.Or(g.Columns[next].Name, "the explanation"))
		}
	}
	return left
}

// share divides the room beyond the least among columns of texts, and wraps them.
func (g *grid) share(texts []int, room int) {
	slices.SortStableFunc(texts, func(a, b int) int {
		return cmp.Compare(g.widths[a], g.widths[b])
	})
	for n, i := range texts {
		minWidth := min(g.Columns[i].MinWidth, g.widths[i])
		more := min(room/(len(texts)-n), g.widths[i]-minWidth)
		room -= more
		if minWidth+more < g.widths[i] {
			g.configs[i].WidthMax, g.configs[i].WidthMaxEnforcer = minWidth+more, text.WrapSoft
		}
	}
}

// entry matches the beginning of a line that has a name and then, in another column, a text.
var entry = regexp.MustCompile(`^ +\S.*?  +`)

// WrapLine breaks a line between words so that it fits so many columns. Later parts are indented
// below the line's text.
func WrapLine(line string, width int) string {
	indent := len(line) - len(strings.TrimLeft(line, " "))
	hang := indent + 2
	if name := utf8.RuneCountInString(entry.FindString(line)); name > 0 && name <= width*2/3 {
		hang = name
	}
	if width-hang < 10 { // nothing is gained
		return line
	}
	var parts []string
	rest := []rune(line)
	for room, at := width, indent+1; len(rest) > room; room, at = width-hang, 1 {
		end := room
		for end > at && rest[end] != ' ' {
			end--
		}
		if end <= at { // a word that is longer than the line stays whole
			for end = room; end < len(rest) && rest[end] != ' '; end++ {
			}
		}
		parts = append(parts, strings.TrimRight(string(rest[:end]), " "))
		rest = []rune(strings.TrimLeft(string(rest[end:]), " "))
	}
	if len(rest) > 0 {
		parts = append(parts, string(rest))
	}
	return strings.Join(parts, "\n"+strings.Repeat(" ", hang))
}
