package terminal

import (
	"bytes"
	"cmp"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/text"

	"transportbench/core/lab/doc"
)

// Terminal shows text on a terminal: it wraps long lines between words. A document of JSON passes
// unchanged.
type Terminal struct {
	out    io.Writer
	width  func() int
	colour bool

	mu       sync.Mutex
	line     []byte // begun
	started  bool
	verbatim bool
	err      error // of a document that was lost
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
func Print(w io.Writer, d *doc.Doc) { printOn(w, d, doc.Screen{Stream: true}) }

// PrintWhole is Print, but if w is no terminal, tables have all columns.
func PrintWhole(w io.Writer, d *doc.Doc) { printOn(w, d, doc.Screen{}) }

func printOn(w io.Writer, d *doc.Doc, other doc.Screen) {
	t := terminalOf(w)
	if t == nil {
		_ = doc.WriteText(w, d, other) // the command keeps the first error of its output
		return
	}
	// Colours are sequences that the writers around t would escape. The document's texts are
	// escaped.
	flush(w)
	if err := doc.WriteText(t, d, doc.Screen{Width: t.width(), Colour: t.colour}); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.err = cmp.Or(t.err, err)
	}
}

// flush writes what the writers around a terminal hold back.
func flush(w io.Writer) {
	for {
		if _, is := w.(*Terminal); is {
			return
		}
		if f, is := w.(interface{ Flush() error }); is {
			_ = f.Flush()
		}
		outer, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return
		}
		w = outer.Unwrap()
	}
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

// Flush writes an incomplete line. Its error is the first one since the terminal was opened.
func (t *Terminal) Flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := io.WriteString(t.out, t.show(string(t.line)))
	t.line = nil
	return cmp.Or(t.err, err)
}

func (t *Terminal) show(line string) string {
	width := max(t.width()-1, doc.Narrowest)
	if text.StringWidthWithoutEscSequences(line) > width {
		return doc.WrapLine(line, width)
	}
	return line
}
