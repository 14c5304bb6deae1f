package record

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// The lengths in characters of what [Cut] keeps of a text, about two lines of a terminal: its
// beginning, and its end, which may have the remedy.
const (
	keptFirst = 220
	keptLast  = 80
)

// Cut shortens a text of a plugin, a library or another host to about two lines. `-v` shows the
// rest: see [LongError].
func Cut(text string) string {
	const saved = 40 // less would not be worth the note
	length := utf8.RuneCountInString(text)
	if length <= keptFirst+keptLast+saved {
		return text
	}
	runes := []rune(text)
	return fmt.Sprintf("%s ... (%d characters left out) ... %s",
		string(runes[:keptFirst]), length-keptFirst-keptLast, string(runes[length-keptLast:]))
}

// LongError is an error whose text is cut.
type LongError struct {
	Whole  string
	Causes []error
}

// Foreign returns an error with the text of a plugin, a library or another host, cut if it is long.
func Foreign(text string) error {
	if Cut(text) == text {
		return errors.New(text)
	}
	return &LongError{Whole: text}
}

func (e *LongError) Error() string { return Cut(e.Whole) }

// Unwrap returns the causes.
func (e *LongError) Unwrap() []error { return e.Causes }
