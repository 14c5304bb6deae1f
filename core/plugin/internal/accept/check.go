package accept

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/record"
)

// Bounds that no configuration changes.
const (
	// exact is the largest counter: float64 has every integer up to it, and sums of the counters of
	// all threads do not overflow.
	exact = 1 << 53
	// longestName bounds names; longestAddress bounds the address of a worker, in bytes.
	longestName    = 256
	longestAddress = 64 << 10
	// mostEntries bounds lists and maps whose entries the plugin chooses.
	mostEntries = 1024
)

// checker collects the first impossible value.
type checker struct{ first *record.InvalidError }

// err returns the first impossible value, or nil.
func (c *checker) err() error {
	if c.first == nil {
		return nil
	}
	return c.first
}

// at returns the part of an answer with that path.
func (c *checker) at(path string) part { return part{c, path} }

// part is a part of an answer, which knows its path.
type part struct {
	*checker
	path string
}

func (p part) field(name string) part { return part{p.checker, p.path + "." + name} }
func (p part) index(name string, i int) part {
	return part{p.checker, p.path + "." + name + "[" + strconv.Itoa(i) + "]"}
}
func (p part) key(name, key string) part {
	return part{p.checker, p.path + "." + name + "[" + quoted(key) + "]"}
}

// wrong notes an impossible value.
func (p part) wrong(name, value, bound string) {
	if p.first == nil {
		p.first = &record.InvalidError{Field: p.path + "." + name, Value: value, Bound: bound}
	}
}

// quoted quotes a text of the plugin, in ASCII, and cuts it.
func quoted(text string) string {
	const longest = 60
	if len(text) > longest {
		return strconv.QuoteToASCII(text[:longest]) + "..."
	}
	return strconv.QuoteToASCII(text)
}

// within requires a number from low to high. NaN is not within any bounds.
func within[Number cmp.Ordered](p part, name string, value, low, high Number) {
	if !(value >= low && value <= high) {
		p.wrong(name, fmt.Sprint(value), fmt.Sprintf("%v to %v", low, high))
	}
}

// atMost requires a count of at most most.
func (p part) atMost(name string, value, most uint64) { within(p, name, value, 0, most) }

// length requires a list of n entries.
func (p part) length(name string, got, n int) {
	if got != n {
		p.wrong(name, entries(got), entries(n))
	}
}

// atMostLong requires a list of at most n entries.
func (p part) atMostLong(name string, got, n int) {
	if got > n {
		p.wrong(name, entries(got), "at most "+entries(n))
	}
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return strconv.Itoa(n) + " entries"
}

// text requires a text that is neither empty nor long.
func (p part) text(name, value string) {
	if value == "" || len(value) > longestName {
		p.wrong(name, quoted(value), fmt.Sprintf("1 to %d bytes", longestName))
	}
}

// oneOf requires one of known.
func (p part) oneOf(name, value string, known []string) {
	if !slices.Contains(known, value) {
		p.wrong(name, quoted(value), "one of "+strings.Join(known, ", "))
	}
}

// present requires that a part is there if it has to be, and only then.
func (p part) present(name string, is, has bool) {
	switch {
	case is && !has:
		p.wrong(name, "a value", "none with this configuration")
	case has && !is:
		p.wrong(name, "no value", "one with this configuration")
	}
}
