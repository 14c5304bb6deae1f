package terminal

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"transportbench/core/lab/doc"
)

// Terminal shows text on a terminal: it wraps long lines between words, and colours verdicts and
// failed checks. A document of JSON passes unchanged.
type Terminal struct {
	out    io.Writer
	width  func() int
	colour bool

	mu       sync.Mutex
	line     []byte // begun
	started  bool
	verbatim bool
}

// OnTerminal returns a [Terminal] if w is a terminal, else w. NO_COLOR (no-color.org) turns colours
// off.
func OnTerminal(w io.Writer) io.Writer {
	if !isTerminal(w) {
		return w
	}
	return &Terminal{out: w, width: func() int { return terminalWidth(w.(*os.File)) },
		colour: os.Getenv("NO_COLOR") == ""}
}

// Verbatim makes what is written to w from now on pass unchanged: it is for a program.
func Verbatim(w io.Writer) {
	if t, _ := unwrapped(w); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.verbatim = true
	}
}

// Print writes a document on w, which may be a terminal.
func Print(w io.Writer, d *doc.Doc) {
	width := 0
	if s := newScreen(w); s.width != nil {
		width = s.width()
	}
	_ = doc.WriteText(w, d, width) // the command keeps the first error of its output
}

// Unwrap returns the terminal, for control sequences of the program's own.
func (t *Terminal) Unwrap() io.Writer { return t.out }

// Write implements [io.Writer]. It holds back a line until it is complete.
func (t *Terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.started && len(p) > 0 {
		t.started = true
		t.verbatim = t.verbatim || p[0] == '{' || p[0] == '['
	}
	if t.verbatim {
		return t.out.Write(p)
	}
	t.line = append(t.line, p...)
	end := bytes.LastIndexByte(t.line, '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	var shown strings.Builder
	for line := range strings.Lines(string(t.line[:end])) {
		shown.WriteString(t.show(strings.TrimSuffix(line, "\n")) + "\n")
	}
	t.line = append(t.line[:0], t.line[end:]...)
	if _, err := io.WriteString(t.out, shown.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes an incomplete line.
func (t *Terminal) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.out, t.show(string(t.line)))
	t.line = nil
	return err
}

func (t *Terminal) show(line string) string {
	if width := max(t.width()-1, doc.Narrowest); text.StringWidth(line) > width {
		line = wrapLine(line, width)
	}
	if t.colour {
		line = coloured(line)
	}
	return line
}

// entry matches the beginning of a line that has a name and then, in another column, a text.
var entry = regexp.MustCompile(`^ +\S.*?  +`)

// wrapLine breaks a line between words. Later parts are indented below the line's text.
func wrapLine(line string, width int) string {
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

// highlights are what a terminal shows in colour: the first group of each match.
var highlights = []struct {
	pattern *regexp.Regexp
	colour  text.Colors
}{
	{regexp.MustCompile(`^(error|OVERSUBSCRIBED): `), text.Colors{text.FgRed, text.Bold}},
	{regexp.MustCompile(`^(warning): `), text.Colors{text.FgYellow}},
	{regexp.MustCompile(`(?:^|\s)(WORSE|INCOMPARABLE|\d+ FAILED|failed)(?:[\s,:]|$)`),
		text.Colors{text.FgRed}},
	{regexp.MustCompile(`(?:^|\s)(BETTER)(?:[\s,]|$)`), text.Colors{text.FgGreen}},
	{regexp.MustCompile(`(?:^|\s)(AMBIGUOUS|\d+ warnings?)(?:[\s,]|$)`),
		text.Colors{text.FgYellow}},
}

func coloured(line string) string {
	for _, h := range highlights {
		if m := h.pattern.FindStringSubmatchIndex(line); m != nil {
			line = line[:m[2]] + h.colour.EscapeSeq() + line[m[2]:m[3]] + text.Reset.EscapeSeq() +
				line[m[3]:]
		}
	}
	return line
}
