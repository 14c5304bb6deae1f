package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a document. A result needs less than 12.
const maxDepth = 64

// SyntaxError is what is wrong with a JSON document, and where.
type SyntaxError struct {
	Line, Column int // from 1; the column counts bytes
	Problem      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d column %d: %s", e.Line, e.Column, e.Problem)
}

// CheckJSON refuses what encoding/json lets pass or tells without a place:
// a name that stands twice in one object (upper and lower case counting as the
// same, as they do for encoding/json), nesting beyond any result's, numbers
// beyond float64, text behind the document, and a document that breaks off.
// The error is a [*SyntaxError]. It allocates for objects of many names alone.
func CheckJSON(data []byte) error {
	_, err := Identify(data)
	return err
}

// Head is what the documents of this project say of themselves. What is
// missing, or no string, is empty.
type Head struct{ SchemaVersion, Kind string }

// Identify is [CheckJSON], and returns the document's head from the same pass.
func Identify(data []byte) (Head, error) {
	s := scanner{data: data}
	if err := s.document(); err != nil {
		return Head{}, err
	}
	return s.head, nil
}

// Decode is [CheckJSON] and then json.Unmarshal into v, whose errors get a
// line and a column.
func Decode(data []byte, v any) error {
	if err := CheckJSON(data); err != nil {
		return err
	}
	return Located(data, json.Unmarshal(data, v))
}

// Located gives an error of encoding/json its line and column in data. Other
// errors, and nil, it returns as they are.
func Located(data []byte, err error) error {
	var (
		syntax *json.SyntaxError
		typ    *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &syntax):
		return at(data, int(syntax.Offset), err.Error())
	case errors.As(err, &typ):
		return at(data, int(typ.Offset), err.Error())
	}
	return err
}

func at(data []byte, offset int, problem string) *SyntaxError {
	before := data[:min(max(offset, 0), len(data))]
	return &SyntaxError{
		Line:    1 + bytes.Count(before, []byte{'\n'}),
		Column:  len(before) - bytes.LastIndexByte(before, '\n'),
		Problem: problem,
	}
}

// scanner goes once over a document. names has those of all open objects, one
// object's behind the other's.
type scanner struct {
	data  []byte
	pos   int
	depth int
	names [][]byte
	head  Head
}

func (s *scanner) fail(format string, args ...any) error {
	return at(s.data, s.pos, fmt.Sprintf(format, args...))
}

func (s *scanner) document() error {
	if !utf8.Valid(s.data) {
		return s.fail("it is not UTF-8 text")
	}
	s.space()
	if s.pos == len(s.data) {
		return s.fail("it is empty")
	}
	if err := s.value(); err != nil {
		return err
	}
	s.space()
	if s.pos < len(s.data) {
		return s.fail("there is more behind the end of the document")
	}
	return nil
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) value() error {
	s.space()
	if s.pos == len(s.data) {
		return s.fail("it breaks off")
	}
	switch c := s.data[s.pos]; {
	case c == '{':
		return s.nested(s.object)
	case c == '[':
		return s.nested(s.array)
	case c == '"':
		_, err := s.text()
		return err
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
			s.pos += len(word)
			return nil
		}
	}
	rest := s.data[s.pos:]
	return s.fail("%q is no JSON value", rest[:min(len(rest), 8)])
}

func (s *scanner) nested(read func() error) error {
	if s.depth++; s.depth > maxDepth {
		return s.fail("nested more than %d deep", maxDepth)
	}
	s.pos++
	err := read()
	s.depth--
	return err
}

func (s *scanner) object() error {
	first := len(s.names)
	defer func() { s.names = s.names[:first] }()
	var many map[string]bool // once a list is too slow
	return s.list('}', func() error {
		start := s.pos
		name, err := s.text()
		if err != nil {
			return err
		}
		if s.seen(name, s.names[first:], &many) {
			s.pos = start
			return s.fail("%q stands twice in one object", name)
		}
		s.names = append(s.names, name)
		s.space()
		switch {
		case s.pos == len(s.data):
			return s.fail("it breaks off")
		case s.data[s.pos] != ':':
			return s.fail("a colon is missing")
		}
		s.pos++
		if s.depth == 1 {
			return s.field(string(name))
		}
		return s.value()
	})
}

// field reads a value of the document itself, and keeps those of the head.
func (s *scanner) field(name string) error {
	s.space()
	if s.pos == len(s.data) || s.data[s.pos] != '"' || name != "kind" && name != "schema_version" {
		return s.value()
	}
	text, err := s.text()
	if name == "kind" {
		s.head.Kind = string(text)
	} else {
		s.head.SchemaVersion = string(text)
	}
	return err
}

func (s *scanner) seen(name []byte, others [][]byte, many *map[string]bool) bool {
	const few = 40
	if len(others) < few {
		for _, other := range others {
			if len(other) == len(name) && bytes.EqualFold(other, name) {
				return true
			}
		}
		return false
	}
	if *many == nil {
		*many = map[string]bool{}
		for _, other := range others {
			(*many)[string(bytes.ToLower(other))] = true
		}
	}
	lower := string(bytes.ToLower(name))
	found := (*many)[lower]
	(*many)[lower] = true
	return found
}

func (s *scanner) array() error { return s.list(']', s.value) }

// list reads what is between two brackets, behind the opening one.
func (s *scanner) list(end byte, item func() error) error {
	s.space()
	if s.pos < len(s.data) && s.data[s.pos] == end {
		s.pos++
		return nil
	}
	for {
		s.space()
		if err := item(); err != nil {
			return err
		}
		s.space()
		if s.pos == len(s.data) {
			return s.fail("it breaks off")
		}
		switch s.data[s.pos] {
		case ',':
			s.pos++
		case end:
			s.pos++
			return nil
		default:
			return s.fail("a comma or %q is missing", end)
		}
	}
}

// text returns a string without its quotes, escapes resolved.
func (s *scanner) text() ([]byte, error) {
	if s.pos == len(s.data) {
		return nil, s.fail("it breaks off")
	}
	if s.data[s.pos] != '"' {
		return nil, s.fail("a name in quotes is missing")
	}
	start, escaped := s.pos, false
	for i := s.pos + 1; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '\\':
			escaped = true
			i++
		case c == '"':
			s.pos = i + 1
			quoted := s.data[start:s.pos]
			if !escaped {
				return quoted[1 : len(quoted)-1], nil
			}
			var text string
			if err := json.Unmarshal(quoted, &text); err != nil {
				s.pos = start
				return nil, s.fail("a string has a bad escape")
			}
			return []byte(text), nil
		case c < ' ':
			s.pos = i
			return nil, s.fail("a control character stands in a string")
		}
	}
	s.pos = len(s.data)
	return nil, s.fail("it breaks off in a string")
}

// number takes what looks like one; json.Unmarshal knows the exact grammar.
func (s *scanner) number() error {
	start := s.pos
	for s.pos < len(s.data) && bytes.IndexByte([]byte("+-.0123456789eE"), s.data[s.pos]) >= 0 {
		s.pos++
	}
	text := s.data[start:s.pos]
	const safe = 15 // no number so short leaves the range without an exponent
	if len(text) <= safe && !bytes.ContainsAny(text, "eE.+") && (text[0] != '-' || len(text) > 1) {
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(f, 0) {
		s.pos = start
		return s.fail("%.40q is no number that can be read", text)
	}
	return nil
}
