package printable

import (
	"io"
	"slices"
	"sync"
	"unicode/utf8"
)

// Writer writes text with the escapes of [Text], except that line feeds and tabs stay. JSON keeps
// its meaning: what is escaped in a document can only be in a string. A character may be split
// between two writes. A Writer is safe for concurrent use.
type Writer struct {
	out io.Writer

	mu      sync.Mutex
	pending []byte // the beginning of a character
	text    []byte // reused
}

// NewWriter returns a Writer that writes to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Unwrap returns what w writes to, for control sequences of the program's own.
func (w *Writer) Unwrap() io.Writer { return w.out }

// Write implements [io.Writer]. It holds back an incomplete character at the end.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) == 0 && !slices.ContainsFunc(p,
		func(b byte) bool { return !plain(b) && b != '\n' && b != '\t' }) {
		return w.out.Write(p)
	}
	text := append(w.pending, p...)
	whole := len(text) - partial(text)
	w.text = appendPrintable(w.text[:0], text[:whole], true)
	w.pending = append([]byte(nil), text[whole:]...)
	if _, err := w.out.Write(w.text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes an incomplete character, which is then an error of the text.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := appendPrintable(nil, w.pending, true)
	w.pending = nil
	if len(text) == 0 {
		return nil
	}
	_, err := w.out.Write(text)
	return err
}

// partial returns the length of the incomplete character at the end of text.
func partial(text []byte) int {
	for n := 1; n < min(utf8.UTFMax, len(text)+1); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
