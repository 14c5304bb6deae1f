package experiment

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cast"

	"transportbench/core/base/config"
	"transportbench/core/fabric/suggest"
)

// MaxCells is the largest number of cells of a sweep.
const MaxCells = 10_000

// MaxSpec is the size in bytes of the largest file that describes a sweep. Its parser needs memory
// for a hundred times as much.
const MaxSpec = 1 << 20

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
	Base    map[string]string
	Axes    []Axis
	Exclude []map[string]string
	// Include adds cells to those of the axes, by what differs from the base.
	Include []map[string]string
	// Profiles finds the profiles that options name. The zero value knows the built-in ones.
	Profiles config.Layer
	// Flags win over Base and Axes.
	Flags   map[string]string
	Repeats int
	Order   string
	// Seed shuffles the cells within a round.
	Seed uint64
	// Limit bounds the time of the sweep, and CellLimit that of one repeat of one cell with its
	// setup; 0 is no limit.
	Limit     time.Duration
	CellLimit time.Duration
}

// Axis is one dimension of the matrix. A value may set several options.
type Axis struct {
	Name   string
	Values []map[string]string
	// Flag means that the axis is from flags, which win over other axes.
	Flag bool
}

// NewSpec returns a sweep without axes, with the default repeats and order.
func NewSpec() *Spec {
	return &Spec{Base: map[string]string{}, Flags: map[string]string{}, Repeats: 10,
		Order: Interleaved, Seed: 1}
}

// ParseSpec reads a sweep file. The extension of name chooses YAML, TOML or JSON.
func ParseSpec(name string, data []byte) (*Spec, error) {
	format := strings.TrimPrefix(filepath.Ext(name), ".")
	if !slices.Contains([]string{"yaml", "yml", "toml", "json"}, format) {
		return nil, errors.New("the name must end in .yaml, .toml or .json")
	}
	all, err := ReadSettings(format, data)
	if err != nil {
		return nil, err
	}
	s := NewSpec()
	var known []string
	type field struct {
		key  string
		read func(any) error
	}
	fields := []field{
		{"base", func(v any) (err error) { s.Base, err = settings(v); return err }},
		{"axes", s.readAxes},
		{"exclude", func(v any) (err error) { s.Exclude, err = listOfSettings(v); return err }},
		{"include", func(v any) (err error) { s.Include, err = listOfSettings(v); return err }},
	}
	for _, name := range []string{"repeats", "order", "order-seed", "limit", "cell-limit"} {
		fields = append(fields, field{name, s.reader(name)})
	}
	for _, field := range fields {
		known = append(known, field.key)
		if value, has := all[field.key]; has {
			if err := field.read(value); err != nil {
				return nil, fmt.Errorf("%s: %w", field.key, err)
			}
			delete(all, field.key)
		}
	}
	for key := range all {
		return nil, fmt.Errorf("unknown key %q%s", key, suggest.For(key, known))
	}
	return s, s.Check()
}

// reader returns what reads a setting of a sweep that is not an option of its cells, or nil.
func (s *Spec) reader(name string) func(value any) error {
	return map[string]func(any) error{
		"repeats":    func(v any) (err error) { s.Repeats, err = cast.ToIntE(v); return err },
		"order":      func(v any) (err error) { s.Order, err = cast.ToStringE(v); return err },
		"order-seed": func(v any) (err error) { s.Seed, err = cast.ToUint64E(v); return err },
		"limit":      func(v any) (err error) { s.Limit, err = duration(v); return err },
		"cell-limit": func(v any) (err error) { s.CellLimit, err = duration(v); return err },
	}[name]
}

// Set sets a setting of a sweep that is not an option of its cells, such as order. known is false
// if there is no such setting.
func (s *Spec) Set(name, text string) (known bool, err error) {
	read := s.reader(name)
	if read == nil {
		return false, nil
	}
	return true, read(text)
}

// Check returns an error if the sweep is invalid whatever its options mean.
func (s *Spec) Check() error {
	switch {
	case s.Repeats < 1 || s.Repeats > 10_000:
		return fmt.Errorf("repeats: %d is out of range (1 to 10000)", s.Repeats)
	case s.Order != Interleaved && s.Order != Sequential:
		return fmt.Errorf("order: %q is not %s or %s%s", s.Order, Interleaved, Sequential,
			suggest.For(s.Order, []string{Interleaved, Sequential}))
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
			flat[config.Canonical(name, text)] = text
		}
	}
	return flat, nil
}

// OwnPrefix begins the name of an option of the transport's own that has the name of a general one.
const OwnPrefix = "set."

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
		axis := Axis{Name: config.Canonical(name, "")}
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
				point[config.Canonical(name, text)] = text
			}
			axis.Values = append(axis.Values, point)
		}
		if len(axis.Values) == 0 {
			return fmt.Errorf("%s: the axis has no values", name)
		}
		s.Axes = append(s.Axes, axis)
	}
	s.joinAlternatives()
	return nil
}

// option returns the only option that an axis sets, or an empty string.
func (a *Axis) option() (name string) {
	for _, value := range a.Values {
		for option := range value {
			if name != "" && name != option {
				return ""
			}
			name = option
		}
	}
	return name
}

// joinAlternatives makes one axis of axes whose options replace each other, and sorts the axes.
func (s *Spec) joinAlternatives() {
	s.sortAxes()
	var joined []Axis
	for _, axis := range s.Axes {
		at := slices.IndexFunc(joined, func(a Axis) bool {
			return a.Flag == axis.Flag &&
				slices.ContainsFunc(a.Values, func(value map[string]string) bool {
					return len(value) == 1 && config.Exclusive(slices.Collect(maps.Keys(value))[0],
						axis.option())
				})
		})
		if at < 0 {
			joined = append(joined, axis)
			continue
		}
		joined[at].Name += " or " + axis.Name
		joined[at].Values = slices.Concat(joined[at].Values, axis.Values)
	}
	s.Axes = joined
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

// Override sets options as flags do: a single value goes above the base and the axes, several
// values are an axis. Values of options that replace each other are alternatives. An axis of an
// option that the flags set or replace goes.
func (s *Spec) Override(flags map[string][]string) {
	set := func(name string) bool {
		for flag := range flags {
			if name != "" && (flag == name || config.Exclusive(flag, name)) {
				return true
			}
		}
		return false
	}
	s.Axes = slices.DeleteFunc(s.Axes, func(a Axis) bool { return set(a.option()) })
	for name, values := range flags {
		delete(s.Base, name)
		for _, axis := range s.Axes {
			for _, value := range axis.Values {
				if !axis.Flag {
					delete(value, name)
				}
			}
		}
		several := false
		for other, list := range flags {
			several = several || len(list) > 1 && (other == name || config.Exclusive(other, name))
		}
		if !several {
			s.Flags[name] = values[0]
			continue
		}
		axis := Axis{Name: name, Flag: true}
		for _, value := range values {
			axis.Values = append(axis.Values, map[string]string{name: value})
		}
		s.Axes = append(s.Axes, axis)
	}
	s.joinAlternatives()
}
