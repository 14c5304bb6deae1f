package jsondoc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// scanner walks over JSON, valid up to the last byte. It does not read tokens, which would take
// several times as long: that counts where a command reads a thousand sets.
type scanner struct {
	text     []byte
	document *Document
	open     []container
	names    [][]byte // of the objects that are open
	name     []byte   // of the value that follows, at the top level
}

// container is an object or a list.
type container struct {
	object bool
	first  int             // of its names
	seen   map[string]bool // its names, folded, once they are many
}

// scan returns what [New] refuses.
func (s *scanner) scan() error {
	for i := 0; i < len(s.text); {
		switch c := s.text[i]; {
		case c == '{' || c == '[':
			if len(s.open) == maxDepth {
				return errorAt(s.text, i, fmt.Sprintf("nested more than %d deep", maxDepth))
			}
			s.open = append(s.open, container{object: c == '{', first: len(s.names)})
			i++
		case c == '}' || c == ']':
			last := len(s.open) - 1
			if last < 0 {
				return nil
			}
			s.names, s.open = s.names[:s.open[last].first], s.open[:last]
			i++
		case c == '"':
			end := stringEnd(s.text, i)
			if end > len(s.text) {
				return nil
			}
			if !s.quoted(i, end) {
				return errorAt(s.text, end-1, fmt.Sprintf("the name %q occurs twice in one object",
					unquoted(s.text[i+1:end-1])))
			}
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end := numberEnd(s.text, i)
			number := s.text[i:end]
			const safe = 300 // digits of a number below the largest float64
			if len(number) > safe || bytes.ContainsAny(number, "eE") {
				if _, err := strconv.ParseFloat(string(number), 64); errors.Is(err,
					strconv.ErrRange) {
					return errorAt(s.text, end-1, fmt.Sprintf("%.40s is out of range", number))
				}
			}
			i = end
		default:
			i++
		}
	}
	return nil
}

// quoted handles the string from the quote at from up to end. It returns false for a name that the
// object has already.
func (s *scanner) quoted(from, end int) bool {
	content, depth := s.text[from+1:end-1], len(s.open)
	isName := depth > 0 && s.open[depth-1].object && follows(s.text, end) == ':'
	if !isName {
		if depth == 1 {
			switch string(s.name) {
			case "schema_version":
				s.document.SchemaVersion = unquoted(content)
			case "kind":
				s.document.Kind = unquoted(content)
			}
		}
		return true
	}
	if bytes.IndexByte(content, '\\') >= 0 {
		content = []byte(unquoted(content))
	}
	if depth == 1 {
		s.name = content
	}
	return s.add(&s.open[depth-1], content)
}

// add adds a name to an object and reports whether it is new there.
func (s *scanner) add(c *container, name []byte) bool {
	own := s.names[c.first:]
	const many = 256 // for which a map is faster
	if len(own) < many {
		s.names = append(s.names, name)
		return !slices.ContainsFunc(own,
			func(other []byte) bool { return bytes.EqualFold(other, name) })
	}
	if c.seen == nil {
		c.seen = map[string]bool{}
		for _, n := range own {
			c.seen[folded(string(n))] = true
		}
	}
	field := folded(string(name))
	known := c.seen[field]
	c.seen[field] = true
	return !known
}

// stringEnd returns the index behind the string that begins at from; it is beyond text if the
// string is cut.
func stringEnd(text []byte, from int) int {
	for i := from + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text) + 1
}

func numberEnd(text []byte, from int) int {
	i := from
	for i < len(text) && (text[i] >= '0' && text[i] <= '9' ||
		bytes.IndexByte([]byte("+-.eE"), text[i]) >= 0) {
		i++
	}
	return i
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
