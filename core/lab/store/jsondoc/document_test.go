package jsondoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func check(text string) error {
	_, err := New([]byte(text))
	return err
}

func TestNewReportsThePlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "line 1 column 1: unexpected end"},
		{" ", "column 1: unexpected end"},
		{"{\n \"a\": 1,\n \"a\": 2}", `line 3 column 4: the name "a" occurs twice in one object`},
		{`{"kind": 1, "KIND": 2}`, `column 18: the name "KIND" occurs twice`},
		{`{"kind": 1, "k\u0069nd": 2}`, `the name "kind" occurs twice`},
		{`{"cells": 1, "cellſ": 2}`, `the name "cellſ" occurs twice`},
		{`{"a": {"b": 1}, "c": {"b": 1}, "b": NaN}`, "column 37: invalid character 'N'"},
		{`[1, Infinity]`, "column 5: invalid character 'I'"},
		{`[1e999]`, "column 6: 1e999 is out of range"},
		{`[-]`, "column 3: invalid character ']'"},
		{`[01]`, "column 3: invalid character '1'"},
		{`{"a": 1`, "column 7: unexpected end"},
		{`{"a`, "column 3: unexpected end"},
		{`{"a"`, "column 4: unexpected end"},
		{`{"a" 1}`, "column 6: invalid character '1' after object key"},
		{`{a: 1}`, "column 2: invalid character 'a'"},
		{`{"a": 1,}`, "column 9: invalid character '}'"},
		{`[1,]`, "column 4: invalid character ']'"},
		{`[1 2]`, "column 4: invalid character '2' after array element"},
		{`[1}`, "column 3: invalid character '}'"},
		{`{"a": [1}`, "column 9: invalid character '}'"},
		{`{} {}`, "column 4: invalid character '{' after top-level value"},
		{`{} "`, `column 4: invalid character '"' after top-level value`},
		{"[\"a\nb\"]", "column 4: invalid character"},
		{"[\"\xff\"]", "not UTF-8"},
		{`["\x"]`, "column 4: invalid character 'x' in string escape"},
		{strings.Repeat("[", 65), "column 65: nested more than 64 deep"},
		{strings.Repeat("[", 1<<20), "nested more than 64 deep"},
		{strings.Repeat(`{"a":`, 1<<20), "nested more than 64 deep"},
	} {
		err := check(c.text)
		require.ErrorContains(t, err, c.want, "%.60s", c.text)
		var place *SyntaxError
		require.ErrorAs(t, err, &place)
	}
}

func TestNewAccepts(t *testing.T) {
	for _, text := range []string{
		`{}`, ` [] `, `null`, `-1.5e-300`, `18446744073709551615`,
		`{"a": {"a": [true, false, null, "\"\\\u00e9"]}}`,
		strings.Repeat("[", 64) + strings.Repeat("]", 64),
	} {
		require.NoError(t, check(text), text)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"n%d": %d`, i, i))
	}
	require.NoError(t, check("{"+strings.Join(many, ",")+"}"))
	require.ErrorContains(t, check("{"+strings.Join(append(many, `"N7": 1`), ",")+"}"),
		`"N7" occurs twice`)
}

func TestDocumentHasVersionAndKind(t *testing.T) {
	d, err := New(
		[]byte(`{"inner": {"kind": "no"}, "kind": "run", "schema_version": "1.2.3"}`))
	require.NoError(t, err)
	require.Equal(t, "run", d.Kind)
	require.Equal(t, "1.2.3", d.SchemaVersion)
	d, err = New([]byte(`{"kind": 3, "list": ["kind"]}`))
	require.NoError(t, err)
	require.Empty(t, d.Kind)
}

func TestValueEnd(t *testing.T) {
	for _, text := range []string{`{}`, `[]`, `[1]`, "[ 1 ,\n\"a,]\\\"\" , [] ]",
		`{"a":{"b":[1,{}]},"c":null , "d" : -1.5e3}`, `{"a\"b":"}"}`} {
		require.Equal(t, len(text), valueEnd([]byte(text), 0))
		require.Equal(t, len(text), valueEnd([]byte(text+" , 1"), 0))
	}
}

// A whole document has all fields that are always written, and no null.
func TestDecodeWhole(t *testing.T) {
	type Inner struct {
		A int `json:"a"`
		B int `json:"b,omitempty"`
	}
	type whole struct {
		Inner
		List []Inner        `json:"list"`
		Any  any            `json:"any"`
		Map  map[string]int `json:"map,omitzero"`
	}
	for text, wrong := range map[string]string{
		`{"a": 1, "list": [], "any": null}`:                  "",
		`{"A": 1, "list": [{"a": 1}], "any": {"x": null}}`:   "",
		`{"a": 1, "list": [], "any": 1, "new": null}`:        "",
		`{"list": [], "any": 1}`:                             `column 1: "a" is missing from the`,
		`{"a": 1, "list": [{"a": 1}, {"b": 2}], "any": 1}`:   `column 29: "a" is missing from the`,
		`{"a": 1, "list": null, "any": 1}`:                   "column 18: null in place of a value",
		`{"a": 1, "list": [null], "any": 1}`:                 "column 19: null in place",
		`{"a": 1, "list": [], "any": 1, "map": {"x": null}}`: "column 45: null in place",
	} {
		d, err := New([]byte(text))
		require.NoError(t, err)
		err = d.DecodeWhole(new(whole))
		if wrong == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, wrong, text)
		require.NoError(t, d.Decode(new(whole)), text)
	}
}

func TestDecodeReportsThePlace(t *testing.T) {
	var v struct {
		A int `json:"a"`
	}
	require.ErrorContains(t, Decode([]byte("{\n\"a\": \"x\"}"), &v), "line 2 column 9")
	require.NoError(t, Decode([]byte(`{"a": 3}`), &v))
	require.Equal(t, 3, v.A)
	other := errors.New("other")
	require.Equal(t, other, located(nil, other))
}

// What New accepts, encoding/json can read too, or refuses with a place; what it refuses
// for its syntax, encoding/json refuses as well.
func FuzzNew(f *testing.F) {
	f.Add([]byte(`{"a": [1, 2e3, "x"], "b": null}`))
	f.Add([]byte(`{"a": 1, "A": 2}`))
	f.Add([]byte(`{"a": [}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := New(text)
		if utf8.Valid(text) {
			reference, wrong := checkTokens(text)
			require.Equal(t, wrong == nil, err == nil, "%v and %v", wrong, err)
			require.Equal(t, reference, d)
		}
		if err != nil {
			var place *SyntaxError
			require.ErrorAs(t, err, &place)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.True(t, json.Valid(text))
		var v any
		if err := d.Decode(&v); err != nil {
			var place *SyntaxError
			require.ErrorAs(t, err, &place)
		}
	})
}

// checkTokens is New for text in UTF-8, token by token.
func checkTokens(text []byte) (*Document, error) {
	c := checker{Decoder: json.NewDecoder(bytes.NewReader(text)), document: &Document{text: text}}
	c.UseNumber()
	if err := c.value(0, ""); err != nil {
		return nil, err
	}
	if _, err := c.Token(); !errors.Is(err, io.EOF) { // text behind the value
		return nil, c.syntaxError(err)
	}
	return c.document, nil
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
