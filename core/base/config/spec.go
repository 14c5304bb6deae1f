package config

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/model"
	"transportbench/core/fabric/suggest"
	"transportbench/core/transport"
)

// Field is one option of a run: a flag, a variable, a key of a file and an axis of a sweep, and the
// field of [Config] whose JSON name is its name with underscores.
type Field struct {
	transport.Option
	// Form is shown in help after the name.
	Form string
	// Aliases are other names. One that is the name of a field itself stands for this field only
	// with a text for which IsAlias is true.
	Aliases []string
	IsAlias func(text string) bool
	// Examples are some of its values, for completion.
	Examples []string
	// Separator stands between the values of a list. It is a comma, or a semicolon if a value has
	// commas, or empty if a value has both.
	Separator string
	// Replaces names the options that have no effect beside this one. In a lower layer they are
	// reset.
	Replaces []string
	// Sets names the options whose values follow from this one, unless the same layer or a higher
	// one sets them.
	Sets []string
	// Conflicts are other options beside which this one has no meaning.
	Conflicts []Conflict

	index  []int // of the field in Config
	isSize bool  // it determines how large a run is
}

// Conflict is another option beside which an option has no meaning.
type Conflict struct {
	// Own are the values of the option that conflict; without any, all but its default.
	Own []string
	// With is the other option, and Values its values that conflict; without any, all but its
	// default.
	With   string
	Values []string
	// Why is a clause about the other option: "which chooses the rank of each call".
	Why string
}

// Fields returns every option of a run, in the order of docs/options.md. The caller must not change
// it.
func Fields() []Field { return fields }

// Names returns the names of all fields.
func Names() []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

// FieldByName returns the field with that name, or nil.
func FieldByName(name string) *Field {
	if i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name }); i >= 0 {
		return &fields[i]
	}
	return nil
}

// IsOption reports whether name is an option of every run, and not of one transport or of the
// command.
func IsOption(name string) bool { return FieldByName(name) != nil }

// Canonical returns the name of the option that a user calls name and gives the value text: in
// lower case, with hyphens for underscores, and without aliases.
func Canonical(name, text string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	for i := range fields {
		if f := &fields[i]; slices.Contains(f.Aliases, name) &&
			(f.IsAlias == nil || f.IsAlias(text)) {
			return f.Name
		}
	}
	return name
}

// Exclusive reports whether each of two options replaces the other. Their values are alternatives.
func Exclusive(a, b string) bool {
	of, other := FieldByName(a), FieldByName(b)
	return of != nil && other != nil && slices.Contains(of.Replaces, b) &&
		slices.Contains(other.Replaces, a)
}

// Split splits a list of values. A semicolon always separates them if there is one.
func (f *Field) Split(text string) []string {
	switch {
	case f.Separator == "":
		return []string{text}
	case strings.Contains(text, ";"):
		return strings.Split(text, ";")
	}
	return strings.Split(text, f.Separator)
}

// Beside returns what the field replaces, and what it cannot stand beside, or "".
func (f *Field) Beside() string {
	var parts []string
	if over := slices.Concat(f.Replaces, f.Sets); len(over) > 0 {
		parts = append(parts, "replaces "+strings.Join(over, ", "))
	}
	for _, c := range f.Conflicts {
		part := strings.Join(append(slices.Clone(c.Own), "not with "+c.With), ": ")
		parts = append(parts, strings.TrimSpace(part+" "+strings.Join(c.Values, ", ")))
	}
	return strings.Join(parts, "; ")
}

// Overrules reports whether the field replaces or sets another option.
func (f *Field) Overrules(option string) bool {
	return slices.Contains(f.Replaces, option) || slices.Contains(f.Sets, option)
}

// checkConflicts returns an error for an option that has no meaning beside another one.
func checkConflicts(c *Config) *Error {
	for i := range fields {
		f := &fields[i]
		for _, conflict := range f.Conflicts {
			other := FieldByName(conflict.With)
			if f.among(c, conflict.Own) && other.among(c, conflict.Values) {
				return &Error{f.Name, conflict.problem(f, other, other.Show(c))}
			}
		}
	}
	return nil
}

// among reports whether the value of the field is one of values, or not its default without any.
func (f *Field) among(c *Config, values []string) bool {
	text := f.Show(c)
	return slices.Contains(values, text) || len(values) == 0 && text != f.Default
}

// problem returns what is wrong with a field beside the value of another one, and the remedy.
func (x *Conflict) problem(f, other *Field, value string) string {
	remedy := "leave one of them out"
	instead := func(f *Field, values []string) {
		rest := slices.DeleteFunc(slices.Clone(f.Allowed),
			func(v string) bool { return slices.Contains(values, v) })
		if len(values) > 0 && len(rest) == 1 {
			remedy = fmt.Sprintf("use --%s %s, or leave it out", f.Name, rest[0])
		} else if len(values) > 0 && len(rest) > 1 {
			remedy = fmt.Sprintf("use --%s %s, or leave it out", f.Name, orList(rest))
		}
	}
	instead(other, x.Values)
	instead(f, x.Own)
	return strings.TrimSpace(fmt.Sprintf("%s cannot be combined with --%s=%s, %s; %s",
		strings.Join(x.Own, ""), other.Name, value, x.Why, remedy))
}

// setter is a value that parses itself.
type setter interface{ Set(text string) error }

func (f *Field) value(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(f.index)
}

// Same reports whether two texts are one value of the field, such as "10us" and "10\u00b5s". An
// empty text is zero.
func (f *Field) Same(a, b string) bool {
	var values [2]any
	for i, text := range []string{a, b} {
		var c Config
		if text != "" && f.parse(&c, text, nil) != nil {
			return false
		}
		values[i] = f.value(&c).Interface()
	}
	return reflect.DeepEqual(values[0], values[1])
}

// Show returns the value of the field in c.
func (f *Field) Show(c *Config) string { return fmt.Sprint(f.value(c).Interface()) }

// parse sets the field of c to the value of a text. It does not read files if readFile is nil.
func (f *Field) parse(c *Config, text string, readFile ReadFile) (err error) {
	v := f.value(c)
	if v.Kind() == reflect.String && (text == "" ||
		text == fmt.Sprint(reflect.Zero(v.Type()).Interface())) {
		v.SetZero()
		return nil
	}
	switch p := v.Addr().Interface().(type) {
	case *Sizes:
		return readSizes(p, text, readFile)
	case *Traffic:
		return readTraffic(p, text, readFile)
	case *model.Name:
		if readFile == nil {
			return p.Set(text)
		}
		return p.Read(text, readFile)
	case setter:
		return p.Set(text)
	case *bool:
		*p, err = strconv.ParseBool(text)
	case *int:
		*p, err = strconv.Atoi(text)
	case *uint64:
		if *p, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fmt.Errorf("%q is not a whole number from 0", text)
		}
	case *float64:
		*p, err = strconv.ParseFloat(text, 64)
	case *Duration:
		err = p.UnmarshalText([]byte(text))
	default:
		v.SetString(text)
	}
	if err != nil {
		return fmt.Errorf("%q is not %s", text, f.Type.Kind())
	}
	return nil
}

// check returns what is wrong with the value of the field in c, or an empty string.
func (f *Field) check(c *Config) (problem string) {
	v, text := f.value(c), f.Show(c)
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return f.Check(text, float64(v.Int()))
	case reflect.Float64:
		if f.Min != f.Max {
			return f.Check(text, v.Float())
		}
	case reflect.Struct: // sizes
		if problem = f.Check(Size(c.ValueSize.Min()).String(),
			float64(c.ValueSize.Min())); problem == "" {
			problem = f.Check(Size(c.ValueSize.Max()).String(), float64(c.ValueSize.Max()))
		}
		return problem
	case reflect.String:
	default:
		return ""
	}
	if s, ok := reflect.New(v.Type()).Interface().(setter); ok && !v.IsZero() {
		if err := s.Set(text); err != nil {
			return err.Error()
		}
	}
	if problem = f.Check(text, 0); problem != "" {
		problem += suggest.For(text, f.Allowed)
	}
	return problem
}

// prefixFile marks a value-size that names the file of a histogram.
const prefixFile = "file:"

// readSizes reads sizes. It reads a histogram's file at once, so that results have its content.
func readSizes(s *Sizes, text string, readFile ReadFile) error {
	path, found := strings.CutPrefix(text, prefixFile)
	if !found || readFile == nil {
		return s.Set(text)
	}
	content, err := readFile(path, MaxHistogramFile)
	if err == nil {
		*s, err = ReadHistogram(bytes.NewReader(content))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// orList joins names as in "a, b or c".
func orList(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
