// Package doc describes what people read about results: headings, lines, lists and tables with
// typed cells. A [Doc] says each thing once. [WriteText], [Markdown], [HTML], [WriteCSV] and
// [WriteJUnit] give it a form, and escaping, units, alignment and the choice of columns happen
// there alone.
package doc

import (
	"fmt"
	"slices"
	"strings"

	"transportbench/core/lab/store/result"
)

// Doc is a document: its blocks in the order in which people read them.
type Doc struct{ Blocks []Block }

// Block is a part of a document: a [Text], a [*Table] or a [*Fold].
type Block interface{ block() }

// Kind is the role of a text.
type Kind int

// The roles of texts.
const (
	// Line is a line that only a narrow terminal wraps.
	Line Kind = iota
	// Paragraph is wrapped to the length of a line of prose.
	Paragraph
	// Note is a paragraph that is an item of a list where the format has lists.
	Note
	// Remark is a line that is an item of a list where the format has lists.
	Remark
	// Item is an item of a list in every format.
	Item
	// Heading is the title of what follows.
	Heading
	// Gap separates paragraphs.
	Gap
)

// Text is a text and its role.
type Text struct {
	Kind Kind
	Text string
	// Indent indents the lines of an item.
	Indent int
	// Hang indents the lines after the first of a paragraph; 0 is 2.
	Hang int
	// Severity is that of what the text says. The text up to its first colon stands for it.
	Severity result.Severity
	// Title begins the text, emphasized where the format can, before Text.
	Title string
}

// Fold is a part that a reader unfolds where the format can. A terminal shows it on request only,
// see [Doc.Folded].
type Fold struct {
	Title string
	Doc
}

func (Text) block()   {}
func (*Table) block() {}
func (*Fold) block()  {}

func words(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

// Add appends blocks.
func (d *Doc) Add(blocks ...Block) { d.Blocks = append(d.Blocks, blocks...) }

// Append appends the blocks of other documents.
func (d *Doc) Append(others ...*Doc) {
	for _, other := range others {
		d.Blocks = append(d.Blocks, other.Blocks...)
	}
}

// Line adds a line, or several with line breaks between them. Arguments are formatted as in
// [fmt.Sprintf].
func (d *Doc) Line(format string, args ...any) { d.lines(Line, words(format, args)) }

// Remark adds a line that is an item of a list where the format has lists.
func (d *Doc) Remark(format string, args ...any) { d.lines(Remark, words(format, args)) }

// Remarks adds remarks.
func (d *Doc) Remarks(lines []string) {
	for _, line := range lines {
		d.lines(Remark, line)
	}
}

func (d *Doc) lines(kind Kind, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			d.Gap()
			continue
		}
		d.Add(Text{Kind: kind, Text: line})
	}
}

// Paragraph adds a text that is wrapped between words.
func (d *Doc) Paragraph(format string, args ...any) {
	d.Add(Text{Kind: Paragraph, Text: words(format, args)})
}

// Note adds a paragraph that is an item of a list where the format has lists.
func (d *Doc) Note(format string, args ...any) {
	d.Add(Text{Kind: Note, Text: words(format, args)})
}

// Finding adds a text of a kind that says what was found, behind the word for how bad it is.
func (d *Doc) Finding(kind Kind, severity result.Severity, text string) {
	d.Add(Text{Kind: kind, Severity: severity, Text: string(severity) + ": " + text})
}

// Item adds an item of a list below a line.
func (d *Doc) Item(format string, args ...any) {
	d.Add(Text{Kind: Item, Text: words(format, args), Indent: 2})
}

// Heading adds a title.
func (d *Doc) Heading(format string, args ...any) {
	d.Add(Text{Kind: Heading, Text: words(format, args)})
}

// Titled adds a line that begins with a title, such as that of a table, and explains it.
func (d *Doc) Titled(title, help string) { d.Add(Text{Title: title, Text: help}) }

// Fold adds a part that a reader unfolds, unless it is empty.
func (d *Doc) Fold(title string, part *Doc) {
	if !part.Empty() {
		d.Add(&Fold{Title: title, Doc: *part})
	}
}

// Folded returns the document without its folds. Unless flag is empty, a last line names them and
// flag, which shows them.
func (d *Doc) Folded(flag string) *Doc {
	short := new(Doc)
	var titles []string
	for _, b := range d.Blocks {
		if fold, is := b.(*Fold); is {
			titles = append(titles, fold.Title)
		} else {
			short.Add(b)
		}
	}
	if len(titles) > 0 && flag != "" {
		short.Paragraph("more with " + flag + ": " + strings.Join(titles, "; "))
	}
	return short
}

// WithoutWarnings returns the document without its texts of warnings.
func (d *Doc) WithoutWarnings() *Doc {
	short := new(Doc)
	for _, b := range d.Blocks {
		text, is := b.(Text)
		if !is || text.Severity != result.Warning && text.Severity != result.Info {
			short.Add(b)
		}
	}
	return short
}

// Gap separates what follows from what is before it.
func (d *Doc) Gap() { d.Add(Text{Kind: Gap}) }

// Empty reports whether the document has no blocks.
func (d *Doc) Empty() bool { return len(d.Blocks) == 0 }

// Bars draws values as a line of bars of rising height, from lowest on.
func Bars[T uint64 | float64](values []T, lowest T) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	highest := slices.Max(values)
	line := make([]rune, len(values))
	for i, v := range values {
		at := 0
		if highest > lowest {
			at = int(float64(v-lowest) * float64(len(levels)-1) / float64(highest-lowest))
		}
		line[i] = levels[at]
	}
	return string(line)
}
