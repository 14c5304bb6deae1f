package jsondoc

import (
	"bytes"
	"encoding/json"
)

// valueEnd returns the index behind the value that begins at from.
func valueEnd(text []byte, from int) int {
	depth := 0
	for i := from; i < len(text); {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue
		default: // a number, true, false or null
			for i < len(text) && !endsWord[text[i]] {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(text)
}

var endsWord = [256]bool{',': true, '}': true, ']': true, ' ': true, '\t': true, '\n': true,
	'\r': true}

// skipSpace returns the index of the first byte at or after from that is not a space.
func skipSpace(text []byte, from int) int {
	for from < len(text) && (text[from] == ' ' || text[from] == '\t' || text[from] == '\n' ||
		text[from] == '\r') {
		from++
	}
	return from
}

// unquoted returns the name that is written as text between quotes.
func unquoted(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	var name string
	_ = json.Unmarshal(append(append([]byte{'"'}, text...), '"'), &name) // valid JSON
	return name
}
