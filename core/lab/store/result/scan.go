package result

import (
	"bytes"
	"encoding/json"
	"slices"
)

// scan checks text as checker does, without reading its tokens: several times as fast, which counts
// where a command reads a thousand sets. plain is false if text needs the checker, because it is
// wrong or has what scan does not look into: escapes and letters beyond ASCII in names, and numbers
// that may be out of range.
func scan(text []byte) (document *Document, plain bool) {
	if !json.Valid(text) {
		return nil, false
	}
	s := scanner{text: text, document: &Document{text: text}}
	return s.document, s.scan()
}

// scanner walks over text that is valid JSON.
type scanner struct {
	text     []byte
	document *Document
	// open has a list of names for each object that is open, in names, and -1 for each list.
	open  []int
	names [][]byte
	name  []byte // of the value that follows, at the top level
}

func (s *scanner) scan() bool {
	for i := 0; i < len(s.text); {
		switch c := s.text[i]; {
		case c == '{' || c == '[':
			if len(s.open) == maxDepth {
				return false
			}
			from := -1
			if c == '{' {
				from = len(s.names)
			}
			s.open = append(s.open, from)
			i++
		case c == '}' || c == ']':
			last := len(s.open) - 1
			if from := s.open[last]; from >= 0 {
				s.names = s.names[:from]
			}
			s.open = s.open[:last]
			i++
		case c == '"':
			end := stringEnd(s.text, i)
			if !s.quoted(i, end) {
				return false
			}
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := numberEnd(s.text, i)
			const safe = 300 // digits of a number below the largest float64
			if end-i > safe || bytes.ContainsAny(s.text[i:end], "eE") && !smallExponent(s.text[i:end]) {
				return false
			}
			i = end
		default:
			i++
		}
	}
	return true
}

// quoted handles the string from the quote at from up to end.
func (s *scanner) quoted(from, end int) bool {
	content := s.text[from+1 : end-1]
	depth := len(s.open)
	isName := depth > 0 && s.open[depth-1] >= 0 && follows(s.text, end) == ':'
	if !isName {
		if depth == 1 && s.name != nil {
			if bytes.IndexByte(content, '\\') >= 0 {
				return !bytes.Equal(s.name, []byte("schema_version")) && !bytes.Equal(s.name, []byte("kind"))
			}
			switch string(s.name) {
			case "schema_version":
				s.document.SchemaVersion = string(content)
			case "kind":
				s.document.Kind = string(content)
			}
		}
		return true
	}
	for _, c := range content {
		if c == '\\' || c >= 0x80 {
			return false
		}
	}
	own := s.names[s.open[depth-1]:]
	const many = 256 // for which the checker's map is faster
	if len(own) > many {
		return false
	}
	if slices.ContainsFunc(own, func(other []byte) bool { return len(other) == len(content) && bytes.EqualFold(other, content) }) {
		return false
	}
	s.names = append(s.names, content)
	if depth == 1 {
		s.name = content
	}
	return true
}

// stringEnd returns the index behind the string that begins at from.
func stringEnd(text []byte, from int) int {
	for i := from + 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func numberEnd(text []byte, from int) int {
	i := from
	for i < len(text) && (text[i] >= '0' && text[i] <= '9' || bytes.IndexByte([]byte("+-.eE"), text[i]) >= 0) {
		i++
	}
	return i
}

// smallExponent reports whether the exponent of a number has two digits at most.
func smallExponent(number []byte) bool {
	exponent := bytes.TrimLeft(number[bytes.IndexAny(number, "eE")+1:], "+-0")
	return len(exponent) <= 2 && len(number) < 100
}

// follows returns the first byte at or behind from that is no space; 0 if there is none.
func follows(text []byte, from int) byte {
	for _, c := range text[from:] {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}
