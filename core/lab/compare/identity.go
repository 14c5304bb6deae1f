package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"transportbench/core/lab/result/set"
)

// identityDifferences are those of any pair, each key once.
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
		note("runtime_digest", p.old.Plugin.RuntimeDigest, p.new.Plugin.RuntimeDigest)
		here := machines{p.old.Environment, p.new.Environment}
		if seen[here] {
			continue
		}
		seen[here] = true
		a, b := old.Machine(p.old).Identity, new.Machine(p.new).Identity
		for _, key := range slices.Sorted(maps.Keys(union(a, b))) {
			note(key, a[key], b[key])
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Difference) int { return cmp.Compare(a.Key, b.Key) })
}

func source(c *set.Cell) string {
	if c.Status == set.Published {
		return "published: " + c.Reason
	}
	return "measured"
}

func union(a, b map[string]string) map[string]string {
	u := maps.Clone(a)
	if u == nil {
		u = map[string]string{}
	}
	maps.Copy(u, b)
	return u
}

// volatileNotes are the differences of machine that do not forbid a comparison,
// and the options that one side does not know.
func volatileNotes(old, new *set.Set, m matched) []string {
	var notes []string
	seen := map[string]bool{}
	for _, p := range m.pairs {
		a, b := old.Machine(p.old).Volatile, new.Machine(p.new).Volatile
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(union(a, b))) {
			if text := fmt.Sprintf("%s was %s and is %s", key, shown(a[key]), shown(b[key])); a[key] != b[key] && !seen[text] {
				seen[text] = true
				notes = append(notes, text)
			}
		}
		if len(notes) > 0 {
			break // others will have the same
		}
	}
	if len(m.unshared) > 0 {
		notes = append(notes, "cells were matched without what only one side has: "+strings.Join(m.unshared, ", "))
	}
	return notes
}
