package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// Document is JSON text that New has checked.
type Document struct {
	// SchemaVersion and Kind are the fields of those names; they are empty if the document does not
	// have them, or has something else than text there.
	SchemaVersion, Kind string
	text                []byte
}

// New checks text. It accepts one JSON value in UTF-8 and refuses what encoding/json lets
// pass: two names of one object that are the same but for upper and lower case, which
// encoding/json takes for the same field; nesting beyond that of any result; and numbers beyond
// float64. The error is a [*SyntaxError]. The document keeps text.
func New(text []byte) (*Document, error) {
	if !utf8.Valid(text) {
		return nil, errorAt(text, 0, "the text is not UTF-8")
	}
	var syntax *json.SyntaxError
	s := scanner{text: text, document: &Document{text: text}}
	if !json.Valid(text) {
		var discarded json.RawMessage
		if errors.As(json.Unmarshal(text, &discarded), &syntax) {
			s.text = text[:syntax.Offset]
		}
	}
	if wrong := s.scan(); wrong != nil {
		return nil, wrong
	}
	if syntax != nil {
		return nil, located(text, syntax)
	}
	return s.document, nil
}

// Text returns the document as New got it. The caller must not change it.
func (d *Document) Text() []byte { return d.text }

// Fields decodes the document, an object, with numbers of type [json.Number], which keep 64-bit
// integers exact. Its errors are those of Decode.
func (d *Document) Fields() (fields map[string]any, err error) {
	if err := checkValue(d.text, reflect.TypeOf(fields), false); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(d.text))
	decoder.UseNumber()
	err = decoder.Decode(&fields)
	return fields, err
}

// Decode unmarshals the document into v, a pointer, and makes its strings printable. Every file
// with results is read by it. Errors have a line and a column. A document that would take several
// times its size in memory is an error.
func (d *Document) Decode(v any) error { return d.decode(v, false) }

// DecodeWhole is Decode of a document without null that has all fields of the structs in v, but for
// those with omitempty or omitzero.
func (d *Document) DecodeWhole(v any) error { return d.decode(v, true) }

func (d *Document) decode(v any, whole bool) error {
	if err := checkValue(d.text, reflect.TypeOf(v), whole); err != nil {
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

// Decode checks text as [New] does and unmarshals it into v.
func Decode(text []byte, v any) error {
	d, err := New(text)
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
