package sweep

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cast"

	"transportbench/core/transport"
)

// MaxCells is the largest number of cells of a sweep.
const MaxCells = 10_000

// MaxFile is the size in bytes of the largest file that describes a sweep. Its parser needs memory for a
// hundred times as much.
const MaxFile = 1 << 20

// The orders of a sweep.
const (
	// Interleaved measures one repeat of every cell, then the next repeat.
	Interleaved = "interleaved"
	// Sequential measures all repeats of a cell, then the next cell.
	Sequential = "sequential"
)

// Spec describes a sweep. Options have the names and values of flags. An option of a transport
// has its own name, or "TRANSPORT.NAME" to set it for one transport only.
type Spec struct {
	Base    map[string]string   `json:"base"`
	Axes    []Axis              `json:"axes"`
	Exclude []map[string]string `json:"exclude,omitempty"`
	// Include adds cells to those of the axes, by what differs from the base.
	Include []map[string]string `json:"include,omitempty"`
	Repeats int                 `json:"repeats"`
	Order   string              `json:"order"`
	// Seed shuffles the cells within a round.
	Seed uint64 `json:"order_seed"`
	// Limit bounds the time of the sweep, and CellLimit that of one repeat of one cell with its
	// setup; 0 is no limit.
	Limit     time.Duration `json:"limit,omitempty"`
	CellLimit time.Duration `json:"cell_limit,omitempty"`
}

// Axis is one dimension of the matrix. A value may set several options.
type Axis struct {
	Name   string              `json:"name"`
	Values []map[string]string `json:"values"`
}

// NewSpec returns a sweep without axes, with the default repeats and order.
func NewSpec() *Spec {
	return &Spec{Base: map[string]string{}, Repeats: 10, Order: Interleaved, Seed: 1}
}

// Parse reads a sweep file. The extension of name chooses YAML, TOML or JSON.
func Parse(name string, data []byte) (*Spec, error) {
	format := strings.TrimPrefix(filepath.Ext(name), ".")
	if !slices.Contains([]string{"yaml", "yml", "toml", "json"}, format) {
		return nil, errors.New("the name must end in .yaml, .toml or .json")
	}
	all, err := ReadSettings(format, data)
	if err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	s := NewSpec()
	var known []string
	for _, field := range []struct {
		key  string
		read func(any) error
	}{
		{"base", func(v any) (err error) { s.Base, err = settings(v); return err }},
		{"axes", s.readAxes},
		{"exclude", func(v any) (err error) { s.Exclude, err = listOfSettings(v); return err }},
		{"include", func(v any) (err error) { s.Include, err = listOfSettings(v); return err }},
		{"repeats", func(v any) (err error) { s.Repeats, err = cast.ToIntE(v); return err }},
		{"order", func(v any) (err error) { s.Order, err = cast.ToStringE(v); return err }},
		{"order-seed", func(v any) (err error) { s.Seed, err = cast.ToUint64E(v); return err }},
		{"limit", func(v any) (err error) { s.Limit, err = duration(v); return err }},
		{"cell-limit", func(v any) (err error) { s.CellLimit, err = duration(v); return err }},
	} {
		known = append(known, field.key)
		if value, has := all[field.key]; has {
			if err := field.read(value); err != nil {
				return nil, fmt.Errorf("%s: %w", field.key, err)
			}
			delete(all, field.key)
		}
	}
	for key := range all {
		return nil, fmt.Errorf("unknown key %q%s", key, transport.SuggestionFor(key, known))
	}
	return s, s.Check()
}

// oneLine joins the lines of an error.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

// Check returns an error if the sweep is invalid whatever its options mean.
func (s *Spec) Check() error {
	switch {
	case s.Repeats < 1 || s.Repeats > 10_000:
		return fmt.Errorf("repeats: %d is out of range (1 to 10000)", s.Repeats)
	case s.Order != Interleaved && s.Order != Sequential:
		return fmt.Errorf("order: %q is not %s or %s%s", s.Order, Interleaved, Sequential,
			transport.SuggestionFor(s.Order, []string{Interleaved, Sequential}))
	case s.Limit < 0 || s.CellLimit < 0:
		return errors.New("limit: a time limit is negative")
	}
	return nil
}

func duration(v any) (time.Duration, error) {
	text, err := cast.ToStringE(v)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

// settings reads a table of options. The options of a transport may be in a table "set", as in a
// configuration file.
func settings(v any) (map[string]string, error) {
	table, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("want a table of options and values")
	}
	flat := map[string]string{}
	for name, value := range table {
		inner := map[string]any{name: value}
		if below, ok := value.(map[string]any); ok && name == "set" {
			inner = below
		}
		for name, value := range inner {
			text, err := cast.ToStringE(value)
			if err != nil {
				return nil, fmt.Errorf("%s: want a single value", name)
			}
			flat[Option(name)] = text
		}
	}
	return flat, nil
}

// OwnPrefix begins the name of an option of the transport's own that has the name of a general one.
const OwnPrefix = "set."

// Option returns the option that a sweep file calls name: "payload" is value-size, and underscores
// are hyphens.
func Option(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-")
	if name == "payload" {
		return "value-size"
	}
	return name
}

func listOfSettings(v any) ([]map[string]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("want a list")
	}
	var all []map[string]string
	for i, item := range list {
		one, err := settings(item)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// readAxes reads a table of names and values. Tables have no order, so the axes are sorted.
func (s *Spec) readAxes(v any) error {
	table, ok := v.(map[string]any)
	if !ok {
		return errors.New("want a table of options and lists of values")
	}
	for name, values := range table {
		list, ok := values.([]any)
		if !ok {
			list = []any{values}
		}
		axis := Axis{Name: Option(name)}
		for _, value := range list {
			point := map[string]string{}
			if _, several := value.(map[string]any); several {
				var err error
				if point, err = settings(value); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			} else {
				text, err := cast.ToStringE(value)
				if err != nil {
					return fmt.Errorf("%s: want single values or tables", name)
				}
				point[axis.Name] = text
			}
			axis.Values = append(axis.Values, point)
		}
		if len(axis.Values) == 0 {
			return fmt.Errorf("%s: the axis has no values", name)
		}
		s.Axes = append(s.Axes, axis)
	}
	s.sortAxes()
	return nil
}

// sortAxes sorts the axes by name, with the transport first.
func (s *Spec) sortAxes() {
	key := func(a Axis) string {
		if a.Name == "transport" {
			return ""
		}
		return a.Name
	}
	slices.SortStableFunc(s.Axes, func(a, b Axis) int { return strings.Compare(key(a), key(b)) })
}

// Set replaces an option wherever the sweep sets it, except in Exclude and Include: one value goes
// into the base, several become an axis.
func (s *Spec) Set(name string, values []string) {
	name = Option(name)
	s.Axes = slices.DeleteFunc(s.Axes, func(a Axis) bool { return a.Name == name })
	for _, axis := range s.Axes {
		for _, value := range axis.Values {
			delete(value, name)
		}
	}
	delete(s.Base, name)
	if len(values) == 1 {
		s.Base[name] = values[0]
		return
	}
	axis := Axis{Name: name}
	for _, value := range values {
		axis.Values = append(axis.Values, map[string]string{name: value})
	}
	s.Axes = append(s.Axes, axis)
	s.sortAxes()
}
