package jsondoc

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// The bounds of what a document may take in memory. A list item of two bytes, {}, becomes a struct
// of hundreds; the documents of this project take less than their text.
const (
	freeWeight  = 64 << 20
	weightTimes = 2 // the size of the text
	// lightText is the size in bytes of a text that is not weighed: it cannot become much.
	lightText = 256 << 10
)

// checkValue returns an error if text, which is valid JSON, would take too much memory as a value
// of type t, or, if it is to be whole, has null or lacks a field.
func checkValue(text []byte, t reflect.Type, whole bool) error {
	if len(text) <= lightText && !whole {
		return nil
	}
	s := scale{text: text, limit: freeWeight + weightTimes*int64(len(text)), whole: whole}
	if s.value(skipSpace(text, 0), t); s.wrong != nil {
		return s.wrong
	}
	return nil
}

// scale weighs values: their size in memory once they are decoded.
type scale struct {
	text          []byte
	weight, limit int64
	whole         bool // nothing may be missing
	wrong         *SyntaxError
}

// fail notes that something is wrong at i.
func (s *scale) fail(i int, format string, args ...any) {
	if s.wrong == nil {
		s.wrong = errorAt(s.text, i, fmt.Sprintf(format, args...))
	}
}

// value adds the weight of what the value at i of type t refers to, and returns the index behind
// it. t is nil for a value that is not decoded. Once something is wrong, what it returns means
// nothing.
func (s *scale) value(i int, t reflect.Type) int {
	for t != nil && t.Kind() == reflect.Pointer && !decodesItself(t) {
		t = t.Elem()
		s.weight += int64(t.Size())
	}
	if s.whole && t != nil && t.Kind() != reflect.Interface && s.text[i] == 'n' {
		s.fail(i, "null in place of a value")
	}
	if t == nil || decodesItself(t) {
		return valueEnd(s.text, i)
	}
	if t.Kind() == reflect.Interface {
		s.weight += int64(t.Size())
	}
	switch s.text[i] {
	case '"':
		end := stringEnd(s.text, i)
		s.weight += int64(end - i)
		return end
	case '{', '[':
		return s.container(i, t)
	}
	return valueEnd(s.text, i)
}

// container is value for an object or a list.
func (s *scale) container(i int, t reflect.Type) int {
	// A map takes 48 bytes and has 8 slots from the first entry on, twice as many once 7/8 are
	// full.
	const empty, group = 48, 8
	object := s.text[i] == '{'
	if t.Kind() == reflect.Interface {
		if t = reflect.TypeFor[[]any](); object {
			t = reflect.TypeFor[map[string]any]()
		}
	}
	var fields *structFields
	var found []bool // of the fields that must not be missing
	item, each := reflect.Type(nil), int64(0)
	switch kind := t.Kind(); {
	case object && kind == reflect.Struct:
		fields = fieldsOf(t)
		found = make([]bool, len(fields.always))
	case object && kind == reflect.Map:
		item, each = t.Elem(), int64(t.Key().Size()+t.Elem().Size())
		s.weight += empty
	case !object && kind == reflect.Slice:
		item, each = t.Elem(), int64(t.Elem().Size())
	}
	start := i
	i = skipSpace(s.text, i+1)
	for n, slots := 0, 0; s.text[i] != '}' && s.text[i] != ']'; n++ {
		of := item
		if object {
			end := stringEnd(s.text, i)
			if fields != nil {
				name := s.text[i+1 : end-1]
				f, known := fields.named[string(name)]
				if !known {
					f, known = fields.named[folded(unquoted(name))]
				}
				if of = f.typ; known && f.always >= 0 {
					found[f.always] = true
				}
			} else if item != nil {
				s.weight += int64(end - i)
			}
			i = skipSpace(s.text, skipSpace(s.text, end)+1) // after the colon
		}
		if !object {
			s.weight += each
		} else if n == slots-slots/8 {
			grown := max(group, 2*slots)
			s.weight += each * int64(grown-slots)
			slots = grown
		}
		if i = s.value(i, of); s.weight > s.limit {
			s.fail(i, "too many items: a file of %d MiB may take %d MiB of memory, and the part "+
				"before this one takes more", len(s.text)>>20, s.limit>>20)
		}
		if s.wrong != nil {
			return i
		}
		if i = skipSpace(s.text, i); s.text[i] == ',' {
			i = skipSpace(s.text, i+1)
		}
	}
	if missing := slices.Index(found, false); s.whole && missing >= 0 {
		s.fail(start, "%q is missing from the object that begins here", fields.always[missing])
	}
	return i + 1
}

// decodesItself reports whether values of type t read their own text.
func decodesItself(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// structFields are the fields of a struct by their names in JSON, and by those folded. always has
// the names of those that are always written.
type structFields struct {
	named  map[string]structField
	always []string
}

type structField struct {
	typ    reflect.Type
	always int // its index, or -1
}

// structs has the result of fieldsOf by type.
var structs sync.Map

func fieldsOf(t reflect.Type) *structFields {
	if known, found := structs.Load(t); found {
		return known.(*structFields)
	}
	fields := &structFields{named: map[string]structField{}}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue
		}
		name = cmp.Or(name, f.Name)
		field := structField{typ: f.Type, always: -1}
		if !strings.Contains(options, "omit") {
			field.always = len(fields.always)
			fields.always = append(fields.always, name)
		}
		fields.named[name], fields.named[folded(name)] = field, field
	}
	structs.Store(t, fields)
	return fields
}

// folded returns the same text for all names that encoding/json takes for one field. Case does not
// count, and neither does the difference between s and ſ, or k and the sign for kelvin.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}
