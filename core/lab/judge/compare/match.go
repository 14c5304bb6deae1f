package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// pair is two cells of one configuration.
type pair struct {
	old, new *set.Cell
	// names are what notes call them; empty for old and new.
	names [2]string
}

func (p pair) oldName() string { return cmp.Or(p.names[0], "old") }
func (p pair) newName() string { return cmp.Or(p.names[1], "new") }

// matched are the cells of two sets in pairs.
type matched struct {
	pairs            []pair
	onlyOld, onlyNew []*set.Cell
	// unshared lists the options that only one side knows, of transports that both have. They are
	// left out of the match.
	unshared []string
	// lengths reports that some pairs differ in the length of their windows.
	lengths bool
}

// windowLength is the option that cells may differ in and still measure the same, only longer.
const windowLength = "duration"

// match pairs the cells of two sets by configuration. It leaves out options that only one side has,
// because the other version did not know them, unless cells differ in nothing else. An option that
// is left out where it has its default is known to both. Cells without a counterpart are then
// matched without the length of their windows.
func match(old, new *set.Set, ignore []string) matched {
	var m matched
	oldGroups, newGroups := byTransport(old), byTransport(new)
	for _, name := range slices.Sorted(maps.Keys(oldGroups)) {
		drop := slices.Clone(ignore)
		mine, theirs := namesOf(oldGroups[name]), namesOf(newGroups[name])
		for option := range mine {
			if len(newGroups[name]) > 0 && !theirs[option] && !set.Omitted(option) {
				drop = append(drop, option)
			}
		}
		for option := range theirs {
			if !mine[option] && !set.Omitted(option) {
				drop = append(drop, option)
			}
		}
		for _, option := range drop[len(ignore):] {
			if set.Concerns(option) && !slices.Contains(m.unshared, option) {
				m.unshared = append(m.unshared, option)
			}
		}
		m.matchTransport(oldGroups[name], newGroups[name], drop)
		m.matchLengths(name, drop)
		delete(newGroups, name)
	}
	for _, name := range slices.Sorted(maps.Keys(newGroups)) {
		m.onlyNew = append(m.onlyNew, newGroups[name]...)
	}
	slices.Sort(m.unshared)
	return m
}

// matchLengths matches the cells of a transport that have no counterpart without the length of
// their windows.
func (m *matched) matchLengths(transport string, drop []string) {
	var left [2][]*set.Cell
	for i, list := range []*[]*set.Cell{&m.onlyOld, &m.onlyNew} {
		*list = slices.DeleteFunc(*list, func(c *set.Cell) bool {
			if c.Transport() == transport {
				left[i] = append(left[i], c)
			}
			return c.Transport() == transport
		})
	}
	pairs := len(m.pairs)
	m.matchTransport(left[0], left[1], append(slices.Clone(drop), windowLength))
	m.lengths = m.lengths || len(m.pairs) > pairs
}

func byTransport(s *set.Set) map[string][]*set.Cell {
	groups := map[string][]*set.Cell{}
	for i := range s.Cells {
		c := &s.Cells[i]
		groups[c.Transport()] = append(groups[c.Transport()], c)
	}
	return groups
}

// namesOf returns the options that any of the cells has.
func namesOf(cells []*set.Cell) map[string]bool {
	names := map[string]bool{}
	for _, c := range cells {
		for name := range c.Config {
			names[name] = true
		}
	}
	return names
}

// matchTransport pairs the cells of one transport, without the options in drop.
func (m *matched) matchTransport(old, new []*set.Cell, drop []string) {
	type group struct{ old, new []*set.Cell }
	groups := map[string]*group{}
	var order []*group
	at := func(c *set.Cell) *group {
		key := c.Key(drop...)
		g := groups[key]
		if g == nil {
			g = &group{}
			groups[key] = g
			order = append(order, g)
		}
		return g
	}
	for _, c := range old {
		g := at(c)
		g.old = append(g.old, c)
	}
	for _, c := range new {
		g := at(c)
		g.new = append(g.new, c)
	}
	for _, g := range order {
		m.matchGroup(g.old, g.new)
	}
}

// matchGroup pairs cells that the common options do not tell apart.
func (m *matched) matchGroup(old, new []*set.Cell) {
	switch {
	case len(old) == 1 && len(new) == 1:
		m.pairs = append(m.pairs, pair{old: old[0], new: new[0]})
	case len(old) == 1 && old[0].Status == set.Published:
		for _, c := range new {
			m.pairs = append(m.pairs, pair{old: old[0], new: c})
		}
	case len(new) == 1 && new[0].Status == set.Published:
		for _, c := range old {
			m.pairs = append(m.pairs, pair{old: c, new: new[0]})
		}
	default:
		m.matchExactly(old, new)
	}
}

// matchExactly pairs cells of the same whole configuration, provider and runtime.
func (m *matched) matchExactly(old, new []*set.Cell) {
	type identity struct{ key, provider, digest string }
	of := func(c *set.Cell) identity {
		return identity{c.Key(), c.Plugin.Provider,
			c.Plugin.RuntimeDigest}
	}
	waiting := map[identity][]*set.Cell{}
	for _, c := range new {
		waiting[of(c)] = append(waiting[of(c)], c)
	}
	used := map[*set.Cell]bool{}
	for _, c := range old {
		candidates := waiting[of(c)]
		if len(candidates) == 0 {
			m.onlyOld = append(m.onlyOld, c)
			continue
		}
		m.pairs = append(m.pairs, pair{old: c, new: candidates[0]})
		used[candidates[0]] = true
		waiting[of(c)] = candidates[1:]
	}
	for _, c := range new {
		if !used[c] {
			m.onlyNew = append(m.onlyNew, c)
		}
	}
}

// apart returns the options in which the two most similar cells without counterparts differ, as an
// explanation.
func apart(old, new []*set.Cell) []string {
	const tries = 200 // of each side
	var closest []string
	for _, a := range old[:min(len(old), tries)] {
		for _, b := range new[:min(len(new), tries)] {
			if a.Transport() != b.Transport() {
				continue
			}
			names := slices.DeleteFunc(set.Differing(a.Config, b.Config),
				func(name string) bool { return !set.Concerns(name) })
			if closest == nil || len(names) < len(closest) {
				closest = names
			}
		}
	}
	return closest
}

// The keys of the identity for the version of the runtime, and for the kernel.
const (
	runtimeKey = "runtime_digest"
	kernelKey  = "kernel"
)

// forbidden returns an [*IdentityError] for the differences that o does not allow. Another kernel
// is what a comparison may be about: it is allowed, and named among the differences.
func forbidden(differences []Difference, o Options) error {
	list := slices.DeleteFunc(slices.Clone(differences), func(d Difference) bool {
		return d.Key == runtimeKey && !o.Strict || d.Key == kernelKey || o.Allows(d.Key)
	})
	if len(list) == 0 {
		return nil
	}
	return &IdentityError{list}
}

// runtimeDifference returns how the runtimes of the first pair that has different ones differ, or
// nil.
func runtimeDifference(pairs []pair) *RuntimeDifference {
	var d *RuntimeDifference
	var old, new []float64
	for _, p := range pairs {
		a, b := p.old.Plugin.RuntimeDigest, p.new.Plugin.RuntimeDigest
		if p.old.Status != set.Measured || p.new.Status != set.Measured || a == b {
			continue
		}
		if d == nil {
			d = &RuntimeDifference{Old: a, New: b,
				OldClientOnly: p.otherMeaning(result.HarnessOverhead)}
		}
		old, new = append(old, harnessOf(p.old)...), append(new, harnessOf(p.new)...)
	}
	if d != nil {
		d.OldHarness, d.NewHarness = medianOf(old), medianOf(new)
	}
	return d
}

// harnessOf returns what the harness cost in a cell, in ns per operation, or nothing.
func harnessOf(c *set.Cell) []float64 {
	if values := c.Samples[result.HarnessOverhead]; len(values) > 0 {
		return []float64{record.Median(values)}
	}
	return nil
}

func medianOf(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	return new(record.Median(values))
}

// otherMeaning reports whether the sides of a pair mean different things by a metric, because they
// have different major versions of the schema.
func (p pair) otherMeaning(metric string) bool {
	if !slices.Contains([]string{result.Floor, result.FloorRatio, result.OpTimeRatio,
		result.HarnessOverhead, result.VerifyCost}, metric) {
		return false
	}
	a, b := result.Major(p.old.Schema), result.Major(p.new.Schema)
	return a != b && a != "" && b != ""
}

// changedMetrics returns those of the metrics that a pair has and does not mean the same by.
func changedMetrics(pairs []pair, metrics []string) []string {
	var list []string
	for _, name := range metrics {
		if slices.ContainsFunc(pairs, func(p pair) bool {
			return p.otherMeaning(name) && len(p.old.Samples[name])+len(p.new.Samples[name]) > 0
		}) {
			list = append(list, name)
		}
	}
	return list
}

// identityDifferences returns how the identities of any pair differ, each key once.
func identityDifferences(old, new *set.Set, pairs []pair) []Difference {
	found := map[string]Difference{}
	note := func(key, a, b string) {
		if _, known := found[key]; a != b && !known {
			found[key] = Difference{key, a, b}
		}
	}
	type machines struct{ old, new int }
	seen := map[machines]bool{}
	for _, p := range pairs {
		if a, b := p.old.Status == set.Published, p.new.Status == set.Published; a || b {
			note("source", source(p.old), source(p.new))
			continue
		}
		if p.old.Status != set.Measured || p.new.Status != set.Measured {
			continue
		}
		note("provider", p.old.Plugin.Provider, p.new.Plugin.Provider)
		note(runtimeKey, p.old.Plugin.RuntimeDigest, p.new.Plugin.RuntimeDigest)
		here := machines{p.old.Environment, p.new.Environment}
		if seen[here] {
			continue
		}
		seen[here] = true
		a, b := old.Machine(p.old).Identity, new.Machine(p.new).Identity
		for _, key := range set.Differing(a, b) {
			note(key, a[key], b[key])
		}
	}
	return slices.SortedFunc(maps.Values(found),
		func(a, b Difference) int { return cmp.Compare(a.Key, b.Key) })
}

func source(c *set.Cell) string {
	if c.Status == set.Published {
		return "published: " + c.Reason
	}
	return "measured"
}

// chosenNotes lists the options for which the transports took something else on each side, each
// once.
func chosenNotes(pairs []pair) (notes []string) {
	for _, p := range pairs {
		a, b := p.old.Plugin.Chosen, p.new.Plugin.Chosen
		for _, option := range set.Differing(a, b) {
			if a[option] == "" || b[option] == "" {
				continue
			}
			notes = appendNew(notes, fmt.Sprintf("%s took %s for %s and now takes %s",
				p.new.Transport(), a[option], option, b[option]))
		}
	}
	return notes
}

// pathNotes lists the paths that are not the same on each side, each difference once.
func pathNotes(pairs []pair) (notes []string) {
	for _, p := range pairs {
		a, b := p.old.Plugin.Path, p.new.Plugin.Path
		if p.old.Plugin.Name != p.new.Plugin.Name || len(a) == 0 || len(b) == 0 ||
			slices.Equal(a, b) {
			continue
		}
		notes = appendNew(notes, fmt.Sprintf("the bytes of %s took another path: %s, and now %s",
			p.new.Transport(), strings.Join(a, "; "), strings.Join(b, "; ")))
	}
	return notes
}

// volatileNotes lists the differences of the machines that do not forbid a comparison, and the
// options that only one side knows.
func volatileNotes(old, new *set.Set, m matched) []string {
	var notes []string
	for _, p := range m.pairs {
		a, b := old.Machine(p.old).Volatile, new.Machine(p.new).Volatile
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		for _, key := range set.Differing(a, b) {
			notes = appendNew(notes,
				fmt.Sprintf("%s was %s and is %s", key, shown(a[key]), shown(b[key])))
		}
		if len(notes) > 0 {
			break // other pairs have the same
		}
	}
	notes = append(notes, chosenNotes(m.pairs)...)
	notes = append(notes, pathNotes(m.pairs)...)
	if m.lengths {
		notes = append(notes, "cells with windows of different lengths were matched")
	}
	if len(m.unshared) > 0 {
		notes = append(notes, "cells were matched without the options that only one side has: "+
			strings.Join(m.unshared, ", "))
	}
	return notes
}
