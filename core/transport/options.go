package transport

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// OptionType is the type of an option.
type OptionType string

// The types of options, with examples of their values.
const (
	TypeBool     OptionType = "bool"     // true, false
	TypeInt      OptionType = "int"      // 42
	TypeSize     OptionType = "size"     // bytes: 4096, 4KiB, 1MiB, 2GiB
	TypeDuration OptionType = "duration" // 5ms, 1.5s
	TypeString   OptionType = "string"
	TypeFloat    OptionType = "float" // 0.5; of options of a run
)

// Auto is the value by which options leave a choice to the transport. Properties.Chosen has what it
// took.
const Auto = "auto"

// Option is one entry of a transport's schema, from which flags, help and documentation are made.
type Option struct {
	Name    string     `json:"name" bound:">=1,<=256"` // lower case, words joined by hyphens
	Type    OptionType `json:"type" bound:"=bool|int|size|duration|string"`
	Default string     `json:"default" bound:"any"`
	Help    string     `json:"help" bound:"any"`
	// Allowed lists the only values of a string option; empty allows all.
	Allowed []string `json:"allowed,omitempty" bound:"any"`
	// Min and Max bound an option of type int, size (in bytes) or duration (in nanoseconds),
	// unless both are 0.
	Min int64 `json:"min,omitempty" bound:"any"`
	Max int64 `json:"max,omitempty" bound:"any"`
}

// OptionError names an option with a wrong name or value, and the problem.
type OptionError struct {
	Option  string
	Problem string
}

func (e *OptionError) Error() string { return fmt.Sprintf("option %q: %s", e.Option, e.Problem) }

// Values are the options of a transport, checked and complete: every option of the schema has a
// value. The getters panic on a name or type that is not in the schema, because that is a bug in
// the transport.
type Values struct {
	values map[string]value
}

type value struct {
	option Option
	text   string
	number int64 // int, size, duration; 0 or 1 for bool
}

// ParseOptions checks raw against schema and adds the defaults. It returns an [*OptionError] for
// an unknown name, a value of the wrong type, and a value out of bounds.
func ParseOptions(schema []Option, raw map[string]string) (Values, error) {
	v := Values{values: make(map[string]value, len(schema))}
	for _, o := range schema {
		text, given := raw[o.Name]
		if !given {
			text = o.Default
		}
		parsed, err := parseValue(o, text)
		if err != nil {
			return Values{}, err
		}
		v.values[o.Name] = parsed
	}
	for name := range raw {
		if _, known := v.values[name]; !known {
			return Values{}, &OptionError{Option: name, Problem: "unknown"}
		}
	}
	return v, nil
}

func parseValue(o Option, text string) (value, error) {
	v := value{option: o, text: text}
	var err error
	switch o.Type {
	case TypeBool:
		var b bool
		b, err = strconv.ParseBool(text)
		if b {
			v.number = 1
		}
	case TypeInt:
		v.number, err = strconv.ParseInt(text, 10, 64)
	case TypeSize:
		v.number, err = ParseSize(text)
	case TypeDuration:
		var d time.Duration
		d, err = time.ParseDuration(text)
		v.number = int64(d)
	case TypeString:
	default:
		panic(fmt.Sprintf("option %q has unknown type %q", o.Name, o.Type))
	}
	if err != nil {
		return v, &OptionError{o.Name, fmt.Sprintf("%q is not %s", text, o.Type.Kind())}
	}
	if problem := o.Check(text, float64(v.number)); problem != "" {
		return v, &OptionError{o.Name, problem}
	}
	return v, nil
}

// Kind says what a value of the type is, as in "a whole number".
func (t OptionType) Kind() string {
	return map[OptionType]string{
		TypeBool: "true or false", TypeInt: "a whole number", TypeFloat: "a number",
		TypeSize: "a size such as 4KiB", TypeDuration: "a duration such as 500ms or 1.5s",
		TypeString: "a text",
	}[t]
}

// Check returns what is wrong with a value of the option, or an empty string. number is that of an
// option with bounds.
func (o *Option) Check(text string, number float64) (problem string) {
	switch {
	case len(o.Allowed) > 0 && !slices.Contains(o.Allowed, text):
		return fmt.Sprintf("%q is not one of %s", text, o.Range())
	case (o.Min != 0 || o.Max != 0) && !(number >= float64(o.Min) && number <= float64(o.Max)):
		// also NaN
		return fmt.Sprintf("%s is out of range (%s)", text, o.Range())
	}
	return ""
}

// Range returns the values that the option allows, in words.
func (o *Option) Range() string {
	switch {
	case len(o.Allowed) > 0:
		return strings.Join(o.Allowed, ", ")
	case o.Min == 0 && o.Max == 0:
		return "any"
	default:
		return formatNumber(o.Type, o.Min) + " to " + formatNumber(o.Type, o.Max)
	}
}

func formatNumber(t OptionType, n int64) string {
	switch t {
	case TypeSize:
		return FormatSize(n)
	case TypeDuration:
		return time.Duration(n).String()
	default:
		return strconv.FormatInt(n, 10)
	}
}

func (v Values) get(name string, t OptionType) value {
	got, ok := v.values[name]
	if !ok || got.option.Type != t {
		panic(fmt.Sprintf("no option %q of type %s in the schema", name, t))
	}
	return got
}

// Bool returns the value of a bool option.
func (v Values) Bool(name string) bool { return v.get(name, TypeBool).number != 0 }

// Int returns the value of an int option.
func (v Values) Int(name string) int { return int(v.get(name, TypeInt).number) }

// Size returns the value of a size option in bytes.
func (v Values) Size(name string) int { return int(v.get(name, TypeSize).number) }

// Duration returns the value of a duration option.
func (v Values) Duration(name string) time.Duration {
	return time.Duration(v.get(name, TypeDuration).number)
}

// String returns the value of a string option.
func (v Values) String(name string) string { return v.get(name, TypeString).text }

// Map returns all values as text, by name.
func (v Values) Map() map[string]string {
	m := make(map[string]string, len(v.values))
	for name, got := range v.values {
		m[name] = got.text
	}
	return m
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseSize parses a number of bytes: digits, optionally followed by B, KiB, MiB or GiB.
func ParseSize(text string) (int64, error) {
	digits, unit := text, int64(1)
	for _, u := range sizeUnits {
		if d, found := strings.CutSuffix(text, u.suffix); found {
			digits, unit = strings.TrimSpace(d), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size: write bytes, or a number with KiB, MiB or GiB",
			text)
	}
	return n * unit, nil
}

// FormatSize formats a number of bytes with the largest unit that divides it.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if n != 0 && n%u.bytes == 0 && u.bytes > 1 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.suffix)
		}
	}
	return strconv.FormatInt(n, 10)
}
