package accept

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// shape has the bounds of the fields of a struct.
type shape []field

type field struct {
	index  int
	name   string // in JSON; "" for an embedded struct
	nested shape  // of the struct in the field: itself, behind a pointer, or the entries
	rules  []rule
}

// rule is one rule of a tag.
type rule struct {
	of     string // the word before the operator
	op     string
	limits []limit  // only "=" has several
	texts  []string // of "=" for texts; "$name" stands for those that the host knows
	child  *field   // of the nested struct, if the rule is about that field
}

// limit returns a number for the struct that is checked.
type limit func(*walk) uint64

// constants are the limits with names.
var constants = map[string]uint64{
	// float64 has every integer up to exact, and sums of the counters of all threads do not
	// overflow.
	"exact": 1 << 53,
	"int64": math.MaxInt64,
}

var shapes sync.Map // by reflect.Type

// shapeOf returns the shape of a struct. It panics if a tag is wrong, or if a number, text, list or
// map has none.
func shapeOf(t reflect.Type) shape {
	if known, ok := shapes.Load(t); ok {
		return known.(shape)
	}
	var s shape
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			s = append(s, field{index: i, name: name, nested: nestedIn(t.Field(i).Type)})
		}
	}
	for i := range s {
		f := t.Field(s[i].index)
		switch tag := f.Tag.Get("bound"); {
		case tag == "any":
		case tag != "":
			for text := range strings.SplitSeq(tag, ",") {
				s[i].rules = append(s[i].rules, s.rule(&s[i], f.Type, text))
			}
		case !slices.Contains([]reflect.Kind{reflect.Bool, reflect.Struct, reflect.Pointer},
			f.Type.Kind()):
			panic(fmt.Sprintf(`%s.%s has no bound: write "any" if there is none`, t.Name(), f.Name))
		}
	}
	shapes.Store(t, s)
	return s
}

// nestedIn returns the shape of the struct in a type, or nil.
func nestedIn(t reflect.Type) shape {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return shapeOf(t)
}

// named returns the field with that name in JSON, or nil.
func (s shape) named(name string) *field {
	if i := slices.IndexFunc(s, func(f field) bool { return f.name == name }); i >= 0 {
		return &s[i]
	}
	return nil
}

var ruleSyntax = regexp.MustCompile(`^([a-z0-9_]*)(<=|>=|=)(.+)$`)

// rule parses a rule of a field of type t.
func (s shape) rule(f *field, t reflect.Type, text string) rule {
	if text == "once" {
		return rule{of: text, child: f.nested.named("name")}
	}
	parts := ruleSyntax.FindStringSubmatch(text)
	if parts == nil {
		panic("no rule: " + text)
	}
	r := rule{of: parts[1], op: parts[2]}
	switch r.of {
	case "", "records", "set":
	case "each", "sum":
		t, r.child = t.Elem(), f.nested.named("count")
	case "key":
		t = t.Key()
	default:
		if r.child = f.nested.named(r.of); r.child == nil || t.Kind() != reflect.Struct {
			panic("no field of that name: " + text)
		}
	}
	alternatives := strings.Split(parts[3], "|")
	if r.op == "=" && r.of != "records" && t.Kind() == reflect.String {
		r.texts = alternatives
		return r
	}
	for _, text := range alternatives {
		r.limits = append(r.limits, s.limit(text))
	}
	return r
}

// limit parses a limit. A number that does not fit becomes the largest one, and one below 0 becomes
// 0.
func (s shape) limit(text string) limit {
	if i := strings.LastIndexAny(text, "+-"); i > 0 {
		left, right := s.limit(text[:i]), s.limit(text[i+1:])
		if text[i] == '+' {
			return func(w *walk) uint64 { return add(left(w), right(w)) }
		}
		return func(w *walk) uint64 { n := left(w); return n - min(right(w), n) }
	}
	if left, right, ok := strings.Cut(text, "*"); ok {
		l, r := s.limit(left), s.limit(right)
		return func(w *walk) uint64 { return multiply(l(w), r(w)) }
	}
	if f := s.named(text); f != nil {
		return func(w *walk) uint64 { return w.size(f) }
	}
	if name, ok := strings.CutPrefix(text, "$"); ok {
		return func(w *walk) uint64 { return w.host.numbers[name] }
	}
	n, ok := constants[text]
	if !ok {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			panic("no field and no number: " + text)
		}
	}
	return func(*walk) uint64 { return n }
}

func add(a, b uint64) uint64 {
	if sum, carry := bits.Add64(a, b, 0); carry == 0 {
		return sum
	}
	return math.MaxUint64
}

func multiply(a, b uint64) uint64 {
	if high, low := bits.Mul64(a, b); high == 0 {
		return low
	}
	return math.MaxUint64
}
