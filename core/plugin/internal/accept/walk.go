package accept

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/record"
)

// host is what the host knows: the names in bounds that begin with $.
type host struct {
	numbers map[string]uint64
	texts   map[string][]string
	// entries has what it knows of single entries of lists, such as "clients[3]", where that
	// differs.
	entries map[string]*host
}

// check returns an error for a value in an answer, a pointer to a struct, that is out of bounds.
func (h *host) check(name string, answer any) error {
	v := reflect.ValueOf(answer).Elem()
	if invalid := h.walk(shapeOf(v.Type()), v); invalid != nil {
		invalid.Field = name + invalid.Field
		return invalid
	}
	return nil
}

// walk is a struct whose fields are checked.
type walk struct {
	value  reflect.Value
	host   *host
	counts map[*field]uint64 // of the records of the histograms that have been checked
}

// walk checks the fields of a struct. The Field of an error is relative to the struct.
func (h *host) walk(s shape, v reflect.Value) *record.InvalidError {
	w := &walk{value: v, host: h, counts: map[*field]uint64{}}
	for i := range s {
		if invalid := w.field(&s[i]); invalid != nil {
			if s[i].name != "" {
				invalid.Field = "." + s[i].name + invalid.Field
			}
			return invalid
		}
	}
	return nil
}

func (w *walk) field(f *field) *record.InvalidError {
	v := w.value.Field(f.index)
	for i := range f.rules {
		if invalid := w.rule(f, &f.rules[i], v); invalid != nil {
			return invalid
		}
	}
	switch {
	case f.nested == nil || v.Kind() == reflect.Pointer && v.IsNil():
		return nil
	case v.Kind() == reflect.Struct || v.Kind() == reflect.Pointer:
		return w.host.walk(f.nested, reflect.Indirect(v))
	}
	for key, entry := range v.Seq2() {
		at := place(key)
		h := cmp.Or(w.host.entries[f.name+at], w.host)
		if invalid := h.walk(f.nested, entry); invalid != nil {
			invalid.Field = at + invalid.Field
			return invalid
		}
	}
	return nil
}

// place returns where the entry with a key or an index is: `["reads"]` or `[3]`.
func place(key reflect.Value) string {
	if key.Kind() == reflect.String {
		return "[" + quoted(key.String()) + "]"
	}
	return "[" + strconv.FormatInt(key.Int(), 10) + "]"
}

// rule checks a field with the value v by one of its rules.
func (w *walk) rule(f *field, r *rule, v reflect.Value) *record.InvalidError {
	switch r.of {
	case "":
		return w.compare(r, "", v)
	case "set":
		values := map[bool]string{false: "no value", true: "a value"}
		if is, must := !v.IsNil(), r.limits[0](w) != 0; is != must {
			return wrong("", values[is], values[must]+" with this configuration")
		}
	case "records":
		n, invalid := w.records(v.String())
		if invalid != nil {
			return invalid
		}
		w.counts[f] = n
		return w.compare(r, "'s records", reflect.ValueOf(n))
	case "key":
		for key := range v.Seq() {
			if invalid := w.compare(r, "", key); invalid != nil {
				return invalid
			}
		}
	case "each", "sum", "once":
		return w.list(r, v)
	default:
		return w.compare(r, "."+r.of, v.Field(r.child.index))
	}
	return nil
}

// list checks the entries of a list or map, or one field of each.
func (w *walk) list(r *rule, v reflect.Value) *record.InvalidError {
	sum, seen := uint64(0), map[string]bool{}
	for key, entry := range v.Seq2() {
		at := place(key)
		if r.child != nil {
			at, entry = at+"."+r.child.name, entry.Field(r.child.index)
		}
		switch r.of {
		case "each":
			if invalid := w.compare(r, at, entry); invalid != nil {
				return invalid
			}
		case "sum":
			n, _ := size(entry)
			sum = add(sum, n)
		case "once":
			text := entry.String()
			if seen[text] {
				return wrong(at, quoted(text), "each once")
			}
			seen[text] = true
		}
	}
	if r.of == "sum" && v.Len() > 0 {
		return w.compare(r, " in sum", reflect.ValueOf(sum))
	}
	return nil
}

// records returns the number of records of a histogram, of which none is longer than $took.
func (w *walk) records(text string) (uint64, *record.InvalidError) {
	h, err := record.DecodeHistogram(text)
	if err != nil {
		return 0, wrong("", quoted(text), "a histogram: "+err.Error())
	}
	// A bucket is 0.1% wide, and so is the error of its upper end.
	took := w.host.numbers["took"]
	if longest := add(took, took/500+1); h.Max() > longest {
		return 0, wrong("'s longest", fmt.Sprint(h.Max()), fmt.Sprint("at most ", longest))
	}
	return h.Count(), nil
}

// compare compares the size of a value, at a place in its field, with the limits of a rule.
func (w *walk) compare(r *rule, at string, v reflect.Value) *record.InvalidError {
	if r.texts != nil {
		known := r.texts
		if name, ok := strings.CutPrefix(known[0], "$"); ok {
			known = w.host.texts[name]
		}
		if !slices.Contains(known, v.String()) {
			return wrong(at, quoted(v.String()), "one of "+strings.Join(known, ", "))
		}
		return nil
	}
	n, ok := size(v)
	if !ok {
		return wrong(at, fmt.Sprint(v), "0 to 2^64")
	}
	var bounds []string
	for _, limit := range r.limits {
		bound := limit(w)
		if r.op == "<=" && n <= bound || r.op == ">=" && n >= bound || r.op == "=" && n == bound {
			return nil
		}
		bounds = append(bounds, strconv.FormatUint(bound, 10))
	}
	bound := map[string]string{"<=": "at most ", ">=": "at least "}[r.op] +
		strings.Join(bounds, " or ")
	switch v.Kind() {
	case reflect.String:
		return wrong(at, quoted(v.String()), bound+" bytes")
	case reflect.Slice, reflect.Map:
		return wrong(at, fmt.Sprint(n, " entries"), bound)
	}
	return wrong(at, fmt.Sprint(v), bound)
}

// size returns what a rule compares: the value of a number, or the length of anything else. It is
// not ok for a number that is out of all bounds.
func size(v reflect.Value) (n uint64, ok bool) {
	switch {
	case v.CanUint():
		return v.Uint(), true
	case v.CanInt():
		return uint64(max(v.Int(), 0)), v.Int() >= 0
	case v.CanFloat():
		if f := v.Float(); f >= 0 && f < 1<<64 {
			return uint64(math.Ceil(f)), true
		}
		return 0, false
	}
	return uint64(v.Len()), true
}

// size returns the size of a field: of a histogram, the number of its records.
func (w *walk) size(f *field) uint64 {
	if n, ok := w.counts[f]; ok {
		return n
	}
	n, _ := size(w.value.Field(f.index))
	return n
}

// wrong returns an error for a value at a place.
func wrong(at, value, bound string) *record.InvalidError {
	return &record.InvalidError{Field: at, Value: value, Bound: bound}
}

// quoted quotes a text of the plugin, in ASCII, and cuts it.
func quoted(text string) string {
	const longest = 60
	if len(text) > longest {
		return strconv.QuoteToASCII(text[:longest]) + "..."
	}
	return strconv.QuoteToASCII(text)
}
