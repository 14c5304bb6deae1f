package compare

import (
	"cmp"
	"maps"
	"slices"

	"transportbench/core/lab/result/set"
)

// pair is two cells of one configuration.
type pair struct{ old, new *set.Cell }

// matched is the outcome of matching two sets.
type matched struct {
	pairs            []pair
	onlyOld, onlyNew []*set.Cell
	// unshared are options that only one side knows, of transports that both
	// have. They were left out of the match.
	unshared []string
}

// match pairs the cells of two sets by configuration. An option that only one
// side has, because that version did not know it yet or no longer does, is
// left out where the cells are still told apart without it.
func match(old, new *set.Set, ignore []string) matched {
	var m matched
	oldGroups, newGroups := byTransport(old), byTransport(new)
	for _, name := range slices.Sorted(maps.Keys(oldGroups)) {
		drop := slices.Clone(ignore)
		mine, theirs := namesOf(oldGroups[name]), namesOf(newGroups[name])
		for option := range mine {
			if len(newGroups[name]) > 0 && !theirs[option] {
				drop = append(drop, option)
			}
		}
		for option := range theirs {
			if !mine[option] {
				drop = append(drop, option)
			}
		}
		for _, option := range drop[len(ignore):] {
			if set.Concerns(option) && !slices.Contains(m.unshared, option) {
				m.unshared = append(m.unshared, option)
			}
		}
		m.matchTransport(oldGroups[name], newGroups[name], drop)
		delete(newGroups, name)
	}
	for _, name := range slices.Sorted(maps.Keys(newGroups)) {
		m.onlyNew = append(m.onlyNew, newGroups[name]...)
	}
	slices.Sort(m.unshared)
	return m
}

func byTransport(s *set.Set) map[string][]*set.Cell {
	groups := map[string][]*set.Cell{}
	for i := range s.Cells {
		c := &s.Cells[i]
		groups[c.Transport()] = append(groups[c.Transport()], c)
	}
	return groups
}

// namesOf are the options that any of the cells has.
func namesOf(cells []*set.Cell) map[string]bool {
	names := map[string]bool{}
	for _, c := range cells {
		for name := range c.Config {
			names[name] = true
		}
	}
	return names
}

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

// matchGroup pairs cells that the options in common do not tell apart.
func (m *matched) matchGroup(old, new []*set.Cell) {
	switch {
	case len(old) == 1 && len(new) == 1:
		m.pairs = append(m.pairs, pair{old[0], new[0]})
		return
	case len(old) == 1 && old[0].Status == set.Published:
		for _, c := range new { // each stands beside the figure
			m.pairs = append(m.pairs, pair{old[0], c})
		}
	case len(new) == 1 && new[0].Status == set.Published:
		for _, c := range old {
			m.pairs = append(m.pairs, pair{c, new[0]})
		}
	default:
		m.matchExactly(old, new)
	}
}

// matchExactly goes by the whole configuration and what carried the bytes.
func (m *matched) matchExactly(old, new []*set.Cell) {
	type place struct{ key, provider, digest string }
	at := func(c *set.Cell) place { return place{c.Key(), c.Plugin.Provider, c.Plugin.RuntimeDigest} }
	waiting := map[place][]*set.Cell{}
	for _, c := range new {
		waiting[at(c)] = append(waiting[at(c)], c)
	}
	used := map[*set.Cell]bool{}
	for _, c := range old {
		candidates := waiting[at(c)]
		if len(candidates) == 0 {
			m.onlyOld = append(m.onlyOld, c)
			continue
		}
		m.pairs = append(m.pairs, pair{c, candidates[0]})
		used[candidates[0]] = true
		waiting[at(c)] = candidates[1:]
	}
	for _, c := range new {
		if !used[c] {
			m.onlyNew = append(m.onlyNew, c)
		}
	}
}

// apart returns the options in which cells without counterparts differ, as an
// explanation: those of the closest two.
func apart(old, new []*set.Cell) []string {
	const tries = 200 // of each side
	var closest []string
	for _, a := range old[:min(len(old), tries)] {
		for _, b := range new[:min(len(new), tries)] {
			if a.Transport() != b.Transport() {
				continue
			}
			var names []string
			for _, name := range slices.SortedFunc(maps.Keys(a.Config), cmp.Compare) {
				if set.Concerns(name) && a.Config[name] != b.Config[name] {
					names = append(names, name)
				}
			}
			if closest == nil || len(names) < len(closest) {
				closest = names
			}
		}
	}
	return closest
}
