package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"

	"transportbench/core/base/printable"
)

// maxDepth is how deep the objects and lists of a document may nest. A result needs less than 12.
const maxDepth = 64

// SyntaxError describes what is wrong with a JSON document, and where.
type SyntaxError struct {
	Line, Column int // from 1; the column counts bytes
	Problem      string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("line %d column %d: %s", e.Line, e.Column, e.Problem)
}

// Document is JSON text that NewDocument has checked.
type Document struct {
	// SchemaVersion and Kind are the fields of those names; they are empty if the document does not
	// have them, or has something else than text there.
	SchemaVersion, Kind string
	text                []byte
}

// NewDocument checks text. It accepts one JSON value in UTF-8 and refuses what encoding/json lets
// pass: two names of one object that are the same but for upper and lower case, which
// encoding/json takes for the same field; nesting beyond that of any result; and numbers beyond
// float64. The error is a [*SyntaxError]. The document keeps text.
func NewDocument(text []byte) (*Document, error) {
	if !utf8.Valid(text) {
		return nil, errorAt(text, 0, "the text is not UTF-8")
	}
	if document, plain := scan(text); plain {
		return document, nil
	}
	return checkTokens(text)
}

// checkTokens is NewDocument for text in UTF-8, token by token.
func checkTokens(text []byte) (*Document, error) {
	c := checker{Decoder: json.NewDecoder(bytes.NewReader(text)), document: &Document{text: text}}
	c.UseNumber()
	if err := c.value(0, ""); err != nil {
		return nil, err
	}
	if _, err := c.Token(); err != io.EOF { // text behind the value
		return nil, c.syntaxError(err)
	}
	return c.document, nil
}

// Decode unmarshals the document into v, a pointer, and makes its strings printable. Every file with
// results is read by it. Errors have a line and a column. A document that would take several times its
// size in memory is an error.
func (d *Document) Decode(v any) error {
	if err := checkWeight(d.text, reflect.TypeOf(v)); err != nil {
		return err
	}
	if err := json.Unmarshal(d.text, v); err != nil {
		return located(d.text, err)
	}
	if !printable.JSON(d.text) {
		printable.Strings(v)
	}
	return nil
}

// Decode checks text as [NewDocument] does and unmarshals it into v.
func Decode(text []byte, v any) error {
	d, err := NewDocument(text)
	if err != nil {
		return err
	}
	return d.Decode(v)
}

// located adds line and column to an error of encoding/json. It returns other errors, and nil,
// unchanged.
func located(text []byte, err error) error {
	var (
		syntax *json.SyntaxError
		typ    *json.UnmarshalTypeError
	)
	switch {
	case errors.As(err, &syntax): // the offset counts the byte that is wrong
		return errorAt(text, int(syntax.Offset)-1, err.Error())
	case errors.As(err, &typ):
		return errorAt(text, int(typ.Offset), err.Error())
	}
	return err
}

func errorAt(text []byte, offset int, problem string) *SyntaxError {
	before := text[:min(max(offset, 0), len(text))]
	return &SyntaxError{
		Line:    1 + bytes.Count(before, []byte{'\n'}),
		Column:  len(before) - bytes.LastIndexByte(before, '\n'),
		Problem: problem,
	}
}

// checker reads a document token by token.
type checker struct {
	*json.Decoder
	document *Document
}

// fail reports a problem with the token that was read last.
func (c *checker) fail(format string, args ...any) error {
	return errorAt(c.document.text, int(c.InputOffset())-1, fmt.Sprintf(format, args...))
}

// syntaxError finds the place of a syntax error, of which the tokens' errors do not have the
// offset.
func (c *checker) syntaxError(err error) error {
	var discarded json.RawMessage
	if located := (&Document{text: c.document.text}).Decode(&discarded); located != nil {
		return located
	}
	return c.fail("%v", err)
}

// value reads one value. name is that of the document's own field, else empty.
func (c *checker) value(depth int, name string) error {
	token, err := c.Token()
	if err != nil {
		return c.syntaxError(err)
	}
	switch token := token.(type) {
	case json.Delim:
		if depth == maxDepth {
			return c.fail("nested more than %d deep", maxDepth)
		}
		if token == '{' {
			return c.object(depth)
		}
		for c.More() {
			if err := c.value(depth+1, ""); err != nil {
				return err
			}
		}
		return c.end()
	case json.Number:
		if _, err := token.Float64(); err != nil {
			return c.fail("%.40s is out of range", token)
		}
	case string:
		switch name {
		case "schema_version":
			c.document.SchemaVersion = token
		case "kind":
			c.document.Kind = token
		}
	}
	return nil
}

// object reads the names and values of an object.
func (c *checker) object(depth int) error {
	seen := map[string]bool{}
	for c.More() {
		token, err := c.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return c.syntaxError(err)
		}
		field := folded(name)
		if seen[field] {
			return c.fail("the name %q occurs twice in one object", name)
		}
		seen[field] = true
		if depth > 0 {
			name = ""
		}
		if err := c.value(depth+1, name); err != nil {
			return err
		}
	}
	return c.end()
}

// end reads the bracket that closes an object or a list.
func (c *checker) end() error {
	if _, err := c.Token(); err != nil {
		return c.syntaxError(err)
	}
	return nil
}
