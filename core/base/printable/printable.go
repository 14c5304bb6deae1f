package printable

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s as one line. It escapes every character that is not a letter, mark, number,
// punctuation, symbol or space: C0 and C1 controls, line breaks, marks of direction, characters
// without a width, and bytes that are not UTF-8.
func Text(s string) string {
	for i := range len(s) {
		if !plain(s[i]) {
			return string(appendPrintable(make([]byte, 0, 2*len(s)), s, false))
		}
	}
	return s
}

// Joined returns the text of an error with its lines in one, or "" for nil.
func Joined(err error) string {
	if err == nil {
		return ""
	}
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

// plain reports whether b is a printable character of ASCII.
func plain(b byte) bool { return b >= ' ' && b <= '~' }

// appendPrintable appends s to out with escapes. Line feeds and tabs stay if lines is set.
func appendPrintable[T string | []byte](out []byte, s T, lines bool) []byte {
	for i := 0; i < len(s); {
		r, size := decodeRune(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, s[i])
		case unicode.IsGraphic(r) || lines && (r == '\n' || r == '\t'):
			out = append(out, s[i:i+size]...)
		default:
			out = appendEscape(out, r)
		}
		i += size
	}
	return out
}

func decodeRune[T string | []byte](s T) (rune, int) {
	return utf8.DecodeRuneInString(string(s[:min(len(s), utf8.UTFMax)]))
}

// appendEscape appends r as strconv.Quote would write it, except that what encoding/json leaves
// unescaped in a string becomes an escape of JSON: a [Writer] does not change what a JSON document
// means.
func appendEscape(out []byte, r rune) []byte {
	switch {
	case r == '\n':
		return append(out, `\n`...)
	case r == '\r':
		return append(out, `\r`...)
	case r == '\t':
		return append(out, `\t`...)
	case r < ' ':
		return fmt.Appendf(out, `\x%02x`, r)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}

// JSON reports whether text, which is valid JSON, is printable ASCII without escapes. Each string
// that it decodes to is then its own [Text].
func JSON(text []byte) bool {
	return !slices.ContainsFunc(text, func(b byte) bool {
		// space between values
		return b == '\\' || b > '~' || b < ' ' && b != '\n' && b != '\r' && b != '\t'
	})
}

// Strings replaces every string that v, a pointer, leads to by its [Text], keys of maps included.
// It reaches exported fields only, as encoding/json does.
func Strings(v any) {
	if pointer := reflect.ValueOf(v); hasStrings(pointer.Type()) {
		clean(pointer.Elem())
	}
}

func clean(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); v.CanSet() {
			if text := Text(s); text != s {
				v.SetString(text)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() && hasStrings(v.Type().Elem()) {
			clean(v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() && v.CanSet() {
			v.Set(cleaned(v.Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() || f.Anonymous && f.Type.Kind() == reflect.Struct {
				clean(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		if hasStrings(v.Type().Elem()) {
			for i := range v.Len() {
				clean(v.Index(i))
			}
		}
	case reflect.Map:
		cleanMap(v)
	}
}

func cleanMap(m reflect.Value) {
	if !hasStrings(m.Type()) {
		return
	}
	for _, key := range m.MapKeys() {
		value := cleaned(m.MapIndex(key))
		if text := cleaned(key); !text.Equal(key) {
			m.SetMapIndex(key, reflect.Value{})
			key = text
		}
		m.SetMapIndex(key, value)
	}
}

// cleaned returns a clean copy of v, which need not be settable.
func cleaned(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	clean(c)
	return c
}

// stringTypes caches hasStrings.
var stringTypes sync.Map // of reflect.Type to bool

// hasStrings reports whether a value of t may lead to a string, so that long lists of numbers are
// not visited.
func hasStrings(t reflect.Type) bool {
	known, found := stringTypes.Load(t)
	if !found {
		known = searchStrings(t, map[reflect.Type]bool{})
		stringTypes.Store(t, known)
	}
	return known.(bool)
}

func searchStrings(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.String, reflect.Interface:
		return true
	case reflect.Map:
		return searchStrings(t.Key(), seen) || searchStrings(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return searchStrings(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if searchStrings(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}
