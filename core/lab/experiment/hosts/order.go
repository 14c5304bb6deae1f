package hosts

import (
	"cmp"
	"math"
	"strings"
)

// order returns the agent's place among the others: its index, and after all of these if it has
// none.
func (h *Hello) order() int {
	if h.Index < 0 {
		return math.MaxInt
	}
	return h.Index
}

// naturally compares names so that numbers in them are in order: h2 before h10.
func naturally(a, b string) int {
	for a != "" && b != "" {
		x, y := number(a), number(b)
		if x > 0 && y > 0 {
			m, n := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// number returns how many digits text begins with.
func number(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}
