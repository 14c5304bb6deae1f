package record

import (
	"fmt"
	"unicode/utf8"
)

// The lengths in characters of what [Cut] keeps of a text: its beginning, and its end, which may
// have the remedy.
const (
	keptFirst = 600
	keptLast  = 200
)

// Cut shortens a text of a plugin, a library or another host to some lines of a terminal.
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
