package experiment

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// Cell is one configuration of a sweep.
type Cell struct {
	ID     string        `json:"id"` // made from the configuration
	Config config.Config `json:"config"`
	// Unavailable is the reason why this machine cannot measure the cell.
	Unavailable string `json:"unavailable,omitempty"`
	// Share is the share of the capacity at which the cell runs as an open loop. It is 0 if
	// Config has the load. Reference is then the index of the cell that measures the capacity.
	Share     float64 `json:"share,omitempty"`
	Reference int     `json:"reference,omitempty"`

	isReference bool
	shared      string          // the option that is the share
	declared    *transport.Info // of the plugin
	flat        map[string]string
	given       map[string]string // the options that the sweep sets and the transport has
}

// Flat returns the configuration as text, by option. A load that is a share of the capacity is
// given as the share.
func (c *Cell) Flat() map[string]string {
	if c.flat == nil {
		c.flat, _ = set.Flatten(c.Config)
		if c.Share > 0 {
			set.SetShare(c.flat, c.Share)
		}
	}
	return c.flat
}

// Plan is the cells of a sweep and the order in which to measure them.
type Plan struct {
	Cells   []Cell `json:"cells"`
	Repeats int    `json:"repeats"`
	Order   string `json:"order"`
	Seed    uint64 `json:"order_seed"`
	// Notes say which points of the axes are one cell.
	Notes []string `json:"-"`
}

// Digest identifies the plan: two sweeps with the same digest measure the same cells in the same
// order. What the machine could not measure when the sweep began it may be able to when it is
// resumed.
func (p *Plan) Digest() string {
	wanted := *p
	wanted.Cells = slices.Clone(p.Cells)
	for i := range wanted.Cells {
		wanted.Cells[i].Unavailable = ""
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		panic(err) // a plan holds only strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Expand returns the cells of s: every point of the axes that no exclusion matches, and the
// inclusions. It drops options that a cell's transport does not have, and keeps one of several
// cells with the same configuration. Its error is a [*SpecError].
func Expand(s *Spec, all Plugins) (*Plan, error) {
	p, err := expand(s, all)
	if err != nil {
		return nil, &SpecError{err}
	}
	return p, nil
}

// SpecError is a mistake in a [Spec].
type SpecError struct{ Err error }

func (e *SpecError) Error() string { return e.Err.Error() }
func (e *SpecError) Unwrap() error { return e.Err }

func expand(s *Spec, all Plugins) (*Plan, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	s = s.withAll(all.transports())
	if err := s.checkNames(all); err != nil {
		return nil, err
	}
	total := 1
	for _, axis := range s.Axes {
		if total *= len(axis.Values); total > MaxCells*10 {
			return nil,
				fmt.Errorf("the axes have more than %d points; a sweep has at most %d cells",
					MaxCells*10, MaxCells)
		}
	}
	p := &Plan{Repeats: s.Repeats, Order: s.Order, Seed: s.Seed}
	used := make([]bool, len(s.Exclude))
	at := map[string]int{} // by ID
	add := func(layers []map[string]string, included bool) error {
		cell, excluded, err := s.cell(layers, all, used)
		if err != nil || excluded && !included {
			return err
		}
		if i, known := at[cell.ID]; known {
			p.noteSame(&p.Cells[i], &cell)
			return nil
		}
		if err := p.addReference(&cell, at, func() (Cell, error) {
			atMax := append(slices.Clip(layers),
				map[string]string{cell.shared: config.RateMax.String()})
			reference, _, err := s.cell(atMax, all, make([]bool, len(s.Exclude)))
			return reference, err
		}); err != nil {
			return err
		}
		p.noteReplaced(s.Base, &cell)
		at[cell.ID] = len(p.Cells)
		if p.Cells = append(p.Cells, cell); len(p.Cells) > MaxCells {
			return fmt.Errorf("there are more than %d cells", MaxCells)
		}
		return nil
	}
	s.noteTwice(p)
	for i := range total {
		if err := add(s.point(i), false); err != nil {
			return nil, err
		}
	}
	for _, more := range s.Include {
		if err := add([]map[string]string{s.Base, s.Flags, more}, true); err != nil {
			return nil, err
		}
	}
	if len(p.Cells) == 0 {
		return nil, errors.New("no cell is left")
	}
	if i := slices.Index(used, false); i >= 0 {
		return nil, fmt.Errorf("exclude: item %d matches no cell", i+1)
	}
	return p, nil
}

// noteTwice notes the values that an axis has twice, and leaves one of them.
func (s *Spec) noteTwice(p *Plan) {
	for i := range s.Axes {
		axis := &s.Axes[i]
		var values []map[string]string
		for _, value := range axis.Values {
			if !slices.ContainsFunc(values,
				func(other map[string]string) bool { return maps.Equal(value, other) }) {
				values = append(values, value)
				continue
			}
			p.note("axis %s has %s twice; it is measured once", axis.Name, settingsText(value))
		}
		axis.Values = values
	}
}

// noteSame notes a point of the axes that is the cell of another one. Options that the transport
// does not have make no such point, nor does the track: the tables of the results say which
// transports have only one.
func (p *Plan) noteSame(first, again *Cell) {
	differs := map[string]string{}
	for option, value := range again.given {
		if before, has := first.given[option]; option != "track" && (!has || before != value) {
			differs[option] = value
		}
	}
	if len(differs) > 0 {
		p.note("%s with %s is the load of another cell; it is measured once",
			again.Config.Transport, settingsText(differs))
	}
}

// noteReplaced notes the options of the base that an option of an axis or a flag replaces in a
// cell.
func (p *Plan) noteReplaced(base map[string]string, c *Cell) {
	for _, option := range slices.Sorted(maps.Keys(base)) {
		f := config.FieldByName(option)
		if f == nil || c.given[option] != base[option] ||
			f.Same(base[option], f.Show(&c.Config)) {
			continue
		}
		for _, other := range slices.Sorted(maps.Keys(c.given)) {
			of := config.FieldByName(other)
			if of != nil && c.given[other] != base[other] && of.Overrules(option) {
				p.note("base: %s=%s has no effect with %s=%s", option, base[option], other,
					c.given[other])
			}
		}
	}
}

func (p *Plan) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(p.Notes, text) {
		p.Notes = append(p.Notes, text)
	}
}

// settingsText returns options as "name=value name=value".
func settingsText(values map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+"="+values[name])
	}
	return strings.Join(parts, " ")
}

// withAll returns s with the transport "all" replaced by transports.
func (s *Spec) withAll(transports []string) *Spec {
	c := *s
	c.Axes = slices.Clone(c.Axes)
	for _, values := range []*map[string]string{&c.Base, &c.Flags} {
		if (*values)["transport"] == allTransports {
			*values = maps.Clone(*values)
			delete(*values, "transport")
			c.Axes = append(c.Axes, Axis{Name: "transport",
				Values: []map[string]string{{"transport": allTransports}},
				Flag:   values == &c.Flags})
			c.sortAxes()
		}
	}
	for i, axis := range c.Axes {
		if axis.Name != "transport" || len(axis.Values) != 1 ||
			axis.Values[0]["transport"] != allTransports {
			continue
		}
		c.Axes[i].Values = nil
		for _, name := range transports {
			c.Axes[i].Values = append(c.Axes[i].Values, map[string]string{"transport": name})
		}
	}
	return &c
}

// point returns the layers of options of point i of the axes; the last axis varies fastest.
func (s *Spec) point(i int) []map[string]string {
	axes, flags := map[string]string{}, maps.Clone(s.Flags)
	for _, axis := range slices.Backward(s.Axes) {
		values := axis.Values[i%len(axis.Values)]
		if i /= len(axis.Values); axis.Flag {
			maps.Copy(flags, values)
		} else {
			maps.Copy(axes, values)
		}
	}
	return []map[string]string{s.Base, axes, flags}
}

// tables returns all that s sets.
func (s *Spec) tables() []map[string]string {
	tables := []map[string]string{s.Base, s.Flags}
	for _, axis := range s.Axes {
		tables = append(tables, axis.Values...)
	}
	return append(tables, s.Include...)
}

// Transports returns the transports that s names, or the default one.
func (s *Spec) Transports() (names []string) {
	for _, values := range s.tables() {
		if name, has := values["transport"]; has && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		names = []string{config.Default().Transport}
	}
	return names
}

// checkNames returns an error if the sweep has an unknown transport or an option that none of its
// transports has.
func (s *Spec) checkNames(all Plugins) error {
	tables := append(s.tables(), s.Exclude...)
	own := map[string]bool{}
	for _, values := range tables {
		if name, has := values["transport"]; has {
			names, ok := all.own(name)
			if !ok && !strings.ContainsAny(name, "*?[") {
				return fmt.Errorf("transport: there is no plugin for %q; see plugins list", name)
			}
			for _, option := range names {
				own[option] = true
				own[name+"."+option] = true
				own[OwnPrefix+option] = true
			}
		}
	}
	if s.Base["transport"] == "" && s.Flags["transport"] == "" &&
		!slices.ContainsFunc(s.Axes, func(a Axis) bool { return a.Name == "transport" }) {
		for _, name := range all.transports() {
			names, _ := all.own(name)
			for _, option := range names {
				own[option] = true
			}
		}
	}
	for _, values := range tables {
		for name := range values {
			switch {
			case name == "repeats":
				return errors.New(
					"repeats: all cells have the same number; set it beside base and axes")
			case name == "launches":
				return errors.New(
					"launches: a sweep starts the ranks for each repeat; leave it out")
			case name != "transport" && !config.IsOption(name) && !own[name]:
				return &UnknownOptionError{name, slices.Sorted(maps.Keys(own))}
			}
		}
	}
	return nil
}

// UnknownOptionError reports an option that no transport of the sweep has.
type UnknownOptionError struct {
	Name string
	Own  []string // the transports' own options
}

func (e *UnknownOptionError) Error() string { return fmt.Sprintf("unknown option %q", e.Name) }

// cell resolves one point from its layers, and marks in used the exclusions that match it.
func (s *Spec) cell(tables []map[string]string, all Plugins, used []bool) (c Cell, excluded bool,
	err error) {
	values := map[string]string{}
	layers := make([]config.Layer, len(tables))
	for i, table := range tables {
		maps.Copy(values, table)
		layers[i].Values = map[string]string{}
		for option, value := range table {
			if config.IsOption(option) {
				layers[i].Values[option] = value
			}
		}
	}
	name := cmp.Or(values["transport"], config.Default().Transport)
	p := all[name]
	if p == nil {
		return c, false, fmt.Errorf("transport: there is no plugin for %q; see plugins list", name)
	}
	names, _ := all.own(name)
	own := map[string]string{}
	for option, value := range values {
		switch owner, below, dotted := strings.Cut(option, "."); {
		case option == "transport":
		case dotted && owner == name:
			own[below] = value
		case dotted && owner+"." == OwnPrefix && slices.Contains(names, below):
			if _, set := values[name+"."+below]; !set {
				own[below] = value
			}
		case dotted, config.IsOption(option):
		case slices.Contains(names, option):
			if _, set := values[name+"."+option]; !set {
				own[option] = value
			}
		}
	}
	c.declared, c.given = &p.Info, maps.Clone(own)
	for _, l := range layers {
		maps.Copy(c.given, l.Values)
	}
	if c.shared, c.Share, err = takeShare(values, layers); err != nil {
		return c, false, err
	}
	c.Config, c.Unavailable, err = p.Resolve(append([]config.Layer{s.Profiles}, layers...), own)
	if err != nil {
		return c, false, err
	}
	c.Config.Repeats = s.Repeats
	c.ID = set.ID(set.Key(c.Flat()))
	for i, pattern := range s.Exclude {
		if matches(pattern, c.Flat()) {
			used[i], excluded = true, true
		}
	}
	return c, excluded, nil
}

// matches reports whether a cell has all values of an exclusion.
func matches(pattern, flat map[string]string) bool {
	for option, value := range pattern {
		if _, own, dotted := strings.Cut(option, "."); dotted {
			option = own
		}
		if !set.Match(option+"="+value, flat) {
			return false
		}
	}
	return true
}

// run is one repeat of one cell.
type run struct{ cell, repeat int }

// runs returns all runs in order, those that measure capacities first. A round is the same repeat
// of all cells, each round in another order.
func (p *Plan) runs() []run {
	list := make([]run, 0, len(p.Cells)*p.Repeats)
	if p.Order == Sequential {
		for c := range p.Cells {
			for r := range p.Repeats {
				list = append(list, run{c, r})
			}
		}
	} else {
		for r := range p.Repeats {
			for _, c := range rand.New(rand.NewPCG(p.Seed, uint64(r))).Perm(len(p.Cells)) {
				list = append(list, run{c, r})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b run) int {
		return cmp.Compare(p.turn(a.cell), p.turn(b.cell))
	})
	return list
}

// turn orders the cells that others need before those.
func (p *Plan) turn(cell int) int {
	if p.Cells[cell].isReference {
		return 0
	}
	return 1
}

// Expected returns about how long one repeat of the cell takes.
func (c *Cell) Expected(b runner.Beside) time.Duration {
	if c.Unavailable != "" {
		return 0
	}
	one := c.Config
	one.Repeats = 1
	if c.Share > 0 && one.Replays() { // the length follows from the capacity
		one.Duration = config.Default().Duration
	}
	return runner.Expected(one, c.declared, b)
}

// Expected returns about how long the sweep takes.
func (p *Plan) Expected(b runner.Beside) time.Duration {
	total := time.Duration(0)
	for i := range p.Cells {
		total += p.Cells[i].Expected(b)
	}
	return total * time.Duration(p.Repeats)
}
