package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cast"
	"github.com/spf13/viper"

	"transportbench/core/transport"
)

// MaxCells bounds a sweep.
const MaxCells = 10_000

// The orders of a sweep.
const (
	// Interleaved measures one repeat of every cell, then the next.
	Interleaved = "interleaved"
	// Sequential measures all repeats of a cell, then the next cell.
	Sequential = "sequential"
)

// Spec is what to sweep over. Names of options are those of flags; a
// transport's own are called by their names, or "TRANSPORT.NAME" where those of
// one transport are meant. Values are as flags have them.
type Spec struct {
	Base    map[string]string   `json:"base"`
	Axes    []Axis              `json:"axes"`
	Exclude []map[string]string `json:"exclude,omitempty"`
	// Include are cells beside those of the axes, by what differs from the base.
	Include []map[string]string `json:"include,omitempty"`
	Repeats int                 `json:"repeats"`
	Order   string              `json:"order"`
	// Seed shuffles the order within a round.
	Seed uint64 `json:"order_seed"`
	// Limit bounds the sweep, and CellLimit one repeat of one cell with its
	// set-up; 0 is none.
	Limit     time.Duration `json:"limit,omitempty"`
	CellLimit time.Duration `json:"cell_limit,omitempty"`
}

// Axis is one dimension of the matrix. A value may set several options, as a
// load does.
type Axis struct {
	Name   string              `json:"name"`
	Values []map[string]string `json:"values"`
}

// NewSpec returns a sweep without axes.
func NewSpec() *Spec {
	return &Spec{Base: map[string]string{}, Repeats: 10, Order: Interleaved, Seed: 1}
}

// Parse reads a sweep file; its name tells YAML, TOML or JSON.
func Parse(name string, data []byte) (*Spec, error) {
	format := strings.TrimPrefix(filepath.Ext(name), ".")
	if !slices.Contains([]string{"yaml", "yml", "toml", "json"}, format) {
		return nil, errors.New("the name must end in .yaml, .toml or .json")
	}
	v := viper.NewWithOptions(viper.KeyDelimiter("\x00"))
	v.SetConfigType(format)
	if err := v.ReadConfig(bytes.NewReader(data)); err != nil {
		return nil, errors.New(oneLine(err.Error()))
	}
	s := NewSpec()
	readers := map[string]func(any) error{
		"base":       func(v any) (err error) { s.Base, err = settings(v); return err },
		"axes":       s.readAxes,
		"exclude":    func(v any) (err error) { s.Exclude, err = listOfSettings(v); return err },
		"include":    func(v any) (err error) { s.Include, err = listOfSettings(v); return err },
		"repeats":    func(v any) (err error) { s.Repeats, err = cast.ToIntE(v); return err },
		"order":      func(v any) (err error) { s.Order, err = cast.ToStringE(v); return err },
		"order-seed": func(v any) (err error) { s.Seed, err = cast.ToUint64E(v); return err },
		"limit":      func(v any) (err error) { s.Limit, err = limit(v); return err },
		"cell-limit": func(v any) (err error) { s.CellLimit, err = limit(v); return err },
	}
	known := []string{"base", "axes", "exclude", "include", "repeats", "order", "order-seed", "limit", "cell-limit"}
	all := v.AllSettings()
	for key := range all {
		if readers[key] == nil {
			return nil, fmt.Errorf("unknown key %q%s", key, transport.SuggestionFor(key, known))
		}
	}
	for _, key := range known {
		value, has := all[key]
		if !has {
			continue
		}
		if err := readers[key](value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return s, s.Check()
}

// oneLine puts an error that a parser wrote in several lines on one.
func oneLine(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

// Check reports what is wrong with a sweep whatever its options mean.
func (s *Spec) Check() error {
	switch {
	case s.Repeats < 1 || s.Repeats > 10_000:
		return fmt.Errorf("repeats: %d is outside 1 to 10000", s.Repeats)
	case s.Order != Interleaved && s.Order != Sequential:
		return fmt.Errorf("order: %q is not %s or %s%s", s.Order, Interleaved, Sequential,
			transport.SuggestionFor(s.Order, []string{Interleaved, Sequential}))
	case s.Limit < 0 || s.CellLimit < 0:
		return errors.New("limit: a time limit is negative")
	}
	return nil
}

func limit(v any) (time.Duration, error) {
	text, err := cast.ToStringE(v)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

// settings reads a table of options. That of the transports' own may stand
// below "set", as in a configuration file.
func settings(v any) (map[string]string, error) {
	table, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("is not a table of options and values")
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
				return nil, fmt.Errorf("%s is not a plain value", name)
			}
			flat[Option(name)] = text
		}
	}
	return flat, nil
}

// Option is the name of the option that a sweep file calls name: payload is value-size,
// and underscores do as well as hyphens.
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
		return nil, errors.New("is not a list")
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

// readAxes reads a table of names and values. Tables have no order, so that the
// axes get that of the alphabet, the transport first.
func (s *Spec) readAxes(v any) error {
	table, ok := v.(map[string]any)
	if !ok {
		return errors.New("is not a table of options and lists of values")
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
					return fmt.Errorf("%s: a value is neither plain nor a table", name)
				}
				point[axis.Name] = text
			}
			axis.Values = append(axis.Values, point)
		}
		if len(axis.Values) == 0 {
			return fmt.Errorf("%s: has no values", name)
		}
		s.Axes = append(s.Axes, axis)
	}
	s.SortAxes()
	return nil
}

// SortAxes puts the axes into the order in which cells are listed.
func (s *Spec) SortAxes() {
	slices.SortStableFunc(s.Axes, func(a, b Axis) int {
		if first := "transport"; a.Name != b.Name && (a.Name == first || b.Name == first) {
			if a.Name == first {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// Set makes an option of the base, or an axis where there are several values;
// an axis of the name that was there before goes.
func (s *Spec) Set(name string, values []string) {
	name = Option(name)
	s.Axes = slices.DeleteFunc(s.Axes, func(a Axis) bool { return a.Name == name })
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
	s.SortAxes()
}

// Digest identifies what a sweep measures: two of the same digest have the same
// cells, whatever their files look like.
func (p *Plan) Digest() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and numbers
	}
	return digest(text)
}
