package result

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"transportbench/core/lab/store/jsondoc"
)

// partSize is the size in bytes of the parts of a document that are validated one after the other.
// The validator needs memory for fifteen times the text that it looks at.
const partSize = 64 << 10

// validate checks text, which is valid JSON, against the schema in parts of that size.
func validate(text []byte, part int) error {
	schema, err := compiled()
	if err != nil {
		return fmt.Errorf("compiling the result schema: %w", err)
	}
	v := validation{part: part}
	v.check(schema, v.reduced(schema, bytes.TrimSpace(text), ""), "", 0)
	return v.err()
}

// validation collects what is wrong with the parts of a document.
type validation struct {
	part  int
	first []string // of the violations, on one line each
	count int
}

func (v *validation) err() error {
	if v.count == 0 {
		return nil
	}
	first := v.first
	if more := v.count - len(first); more > 0 {
		first = append(first, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("validating result: %s", strings.Join(first, "; "))
}

// reduced validates long lists and tables in parts and returns the value without them. text is
// valid JSON at a place of the document. reduced drops what the schema does not know.
func (v *validation) reduced(schema *jsonschema.Schema, text []byte, place string) any {
	shape := schema
	for shape.Ref != nil {
		shape = shape.Ref
	}
	switch {
	case len(text) <= v.part || text[0] != '{' && text[0] != '[':
		return v.decoded(text, place)
	case text[0] == '[':
		if shape.Items2020 != nil {
			v.list(schema, shape.Items2020, text, place)
		}
		return []any{}
	}
	object := map[string]any{}
	for m := range jsondoc.Members(text) {
		at := place + "/" + pointerEscapes.Replace(m.Name)
		if known := shape.Properties[m.Name]; known != nil {
			object[m.Name] = v.reduced(known, m.Value, at)
		} else if entry, table := shape.AdditionalProperties.(*jsonschema.Schema); table {
			v.check(entry, v.reduced(entry, m.Value, at), at, 0)
		}
	}
	return object
}

// list validates the items of a list in parts.
func (v *validation) list(schema, item *jsonschema.Schema, text []byte, place string) {
	var part []byte // items, as a list
	first, next := 0, 0
	flush := func() {
		if len(part) > 0 {
			list := append(part, ']')
			v.check(schema, v.decoded(list, place), place, first)
		}
		part, first = part[:0], next
	}
	for m := range jsondoc.Members(text) {
		if len(m.Value) > v.part {
			flush()
			at := fmt.Sprintf("%s/%d", place, next)
			v.check(item, v.reduced(item, m.Value, at), at, 0)
			next++
			first = next
			continue
		}
		if len(part)+len(m.Value) > v.part {
			flush()
		}
		separator := byte(',')
		if len(part) == 0 {
			separator = '['
		}
		part = append(append(part, separator), m.Value...)
		next++
	}
	flush()
}

// decoded returns the value of text, valid JSON.
func (v *validation) decoded(text []byte, place string) any {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		v.add(place, err.Error())
	}
	return value
}

// check validates a value at a place. If it is a list, its first item has the index first.
func (v *validation) check(schema *jsonschema.Schema, value any, place string, first int) {
	err := schema.Validate(value)
	if err == nil {
		return
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		v.add(place, err.Error())
		return
	}
	v.addUnit(invalid.DetailedOutput(), place, first)
}

// addUnit adds the leaves of a validation error.
func (v *validation) addUnit(unit *jsonschema.OutputUnit, place string, first int) {
	for i := range unit.Errors {
		v.addUnit(&unit.Errors[i], place, first)
	}
	if len(unit.Errors) > 0 || unit.Error == nil {
		return
	}
	within := unit.InstanceLocation
	if first > 0 {
		index, rest, _ := strings.Cut(strings.TrimPrefix(within, "/"), "/")
		if n, err := strconv.Atoi(index); err == nil {
			within = "/" + strconv.Itoa(first+n)
			if rest != "" {
				within += "/" + rest
			}
		}
	}
	v.add(place+within, unit.Error.String())
}

func (v *validation) add(place, problem string) {
	const limit = 3
	if v.count++; v.count > limit {
		return
	}
	// Quoting escapes line breaks of the file, which both parts may have.
	text := strconv.Quote(cmp.Or(place, "the document") + ": " + problem)
	v.first = append(v.first, strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`))
}

// pointerEscapes escapes names in the place of a value, a JSON pointer.
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
