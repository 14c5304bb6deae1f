package letters

import (
	"iter"
	"slices"
	"strings"
)

// Of returns the compact letter display of values in the order of their ranks: two values have
// a letter in common unless they are told apart. It inserts each pair that is told apart into the
// groups and absorbs groups within another (Piepho, An algorithm for a letter-based representation
// of all-pairwise comparisons, 2004). Then it leaves out groups that tell nothing more than the
// others.
func Of(apart [][]bool) []string {
	all := make([]bool, len(apart))
	for i := range all {
		all[i] = true
	}
	groups := [][]bool{all}
	for i := range apart {
		for j := range i {
			if apart[i][j] {
				groups = split(groups, i, j)
			}
		}
	}
	// The letters ascend with the ranks: of two groups, the one with the better value is first.
	slices.SortFunc(groups, func(a, b []bool) int {
		for i := range a {
			if a[i] != b[i] {
				if a[i] {
					return -1
				}
				return 1
			}
		}
		return 0
	})
	for at := len(groups) - 1; at >= 0; at-- {
		if others := slices.Delete(slices.Clone(groups), at, at+1); covered(groups[at], others) {
			groups = others
		}
	}
	texts := make([]string, len(apart))
	for g, group := range groups {
		for i, member := range group {
			if member {
				texts[i] += letter(g)
			}
		}
	}
	return texts
}

// split replaces the groups that have both i and j by one without each, unless another group has
// all of its values.
func split(groups [][]bool, i, j int) [][]bool {
	var kept, new [][]bool
	for _, group := range groups {
		if !group[i] || !group[j] {
			kept = append(kept, group)
			continue
		}
		for _, out := range []int{i, j} {
			smaller := slices.Clone(group)
			smaller[out] = false
			new = append(new, smaller)
		}
	}
	for _, group := range new {
		if !slices.ContainsFunc(kept, func(other []bool) bool { return within(group, other) }) {
			kept = append(slices.DeleteFunc(kept,
				func(other []bool) bool { return within(other, group) }), group)
		}
	}
	return kept
}

// within reports whether a group has no value that another lacks.
func within(group, other []bool) bool {
	for i, member := range group {
		if member && !other[i] {
			return false
		}
	}
	return true
}

// covered reports whether any two values of a group, and each alone, are in one of the others.
func covered(group []bool, others [][]bool) bool {
	for i := range group {
		for j := range i + 1 {
			if group[i] && group[j] && !slices.ContainsFunc(others,
				func(other []bool) bool { return other[i] && other[j] }) {
				return false
			}
		}
	}
	return true
}

// letter returns the letter of a group: a to z, then a' to z', and so on.
func letter(group int) string {
	const alphabet = 26
	return string(rune('a'+group%alphabet)) + strings.Repeat("'", group/alphabet)
}

// Pairs returns the pairs of n values in the order of their ranks, those with the best first.
func Pairs(n int) iter.Seq2[int, int] {
	return func(yield func(better, worse int) bool) {
		for better := range n {
			for worse := better + 1; worse < n; worse++ {
				if !yield(better, worse) {
					return
				}
			}
		}
	}
}
