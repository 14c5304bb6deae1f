package set

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"transportbench/core/lab/store/result"
)

// GroupedWarning is a failed check and all the cells that fail it, for people.
type GroupedWarning struct {
	Check    string          `json:"check"`
	Severity result.Severity `json:"severity"`
	// Message is a complete sentence. Of cells whose messages differ only in numbers, it has the
	// range of each number.
	Message string `json:"message"`
	// Sides are "old" and "new" if two sets are compared: those with such a cell.
	Sides []string `json:"sides,omitempty"`
	Cells []string `json:"cells"` // as labels name them
}

// Warnings returns the errors and warnings of the cells of a set.
func Warnings(s *Set) []GroupedWarning {
	var g WarningGroups
	g.AddSet("", s, LabelsOf(s.Cells))
	return g.List()
}

// WarningsOfBoth returns the errors and warnings of the cells of two sets that are compared.
func WarningsOfBoth(old, new *Set) []GroupedWarning {
	var g WarningGroups
	labels := LabelsOf(old.Cells, new.Cells)
	g.AddSet("old", old, labels)
	g.AddSet("new", new, labels)
	return g.List()
}

// WarningGroups collects failed checks. Those of the same check whose messages differ only in
// numbers become one.
type WarningGroups struct {
	// Info keeps checks that only inform.
	Info bool

	list []*warningGroup
}

type warningGroup struct {
	GroupedWarning
	words   []string // of the messages, between their numbers
	numbers []span
}

// span has the lowest and the highest number at one place of the messages, as written.
type span struct{ low, high string }

// AddSet adds the failed checks of a set's cells.
func (g *WarningGroups) AddSet(side string, s *Set, labels Labels) {
	for i := range s.Cells {
		c := &s.Cells[i]
		for _, w := range c.Warnings {
			g.Add(side, labels.Of(c.Config), w)
		}
	}
}

// Add adds one failed check of a cell.
func (g *WarningGroups) Add(side, cell string, w result.Finding) {
	if w.Severity == result.Info && !g.Info {
		return
	}
	words, numbers := splitNumbers(w.Message)
	i := slices.IndexFunc(g.list, func(d *warningGroup) bool {
		return d.Check == w.Name && d.Severity == w.Severity && slices.Equal(d.words, words)
	})
	if i < 0 {
		i = len(g.list)
		group := &warningGroup{GroupedWarning: GroupedWarning{Check: w.Name, Severity: w.Severity},
			words: words}
		for _, n := range numbers {
			group.numbers = append(group.numbers, span{n, n})
		}
		g.list = append(g.list, group)
	}
	d := g.list[i]
	for j, n := range numbers {
		d.numbers[j].add(n)
	}
	if side != "" && !slices.Contains(d.Sides, side) {
		d.Sides = append(d.Sides, side)
	}
	if !slices.Contains(d.Cells, cell) {
		d.Cells = append(d.Cells, cell)
	}
}

// List returns the warnings, errors first.
func (g *WarningGroups) List() []GroupedWarning {
	var list []GroupedWarning
	for _, d := range g.list {
		d.Message = d.text()
		list = append(list, d.GroupedWarning)
	}
	slices.SortStableFunc(list, func(a, b GroupedWarning) int { // "error" is before "warning"
		return cmp.Compare(a.Severity, b.Severity)
	})
	return list
}

func (d *warningGroup) text() string {
	var b strings.Builder
	for i, word := range d.words {
		b.WriteString(word)
		if i < len(d.numbers) {
			n := d.numbers[i]
			b.WriteString(n.low)
			if n.high != n.low {
				b.WriteString(" to " + n.high)
			}
		}
	}
	return b.String()
}

func (s *span) add(n string) {
	value := func(text string) float64 {
		v, _ := strconv.ParseFloat(text, 64) // of a match of number
		return v
	}
	switch v := value(n); {
	case v < value(s.low):
		s.low = n
	case v > value(s.high):
		s.high = n
	}
}

// number matches a number that stands alone or before a unit. That of a name, such as p99, is part
// of a word.
var number = regexp.MustCompile(`\b\d+(\.\d+)?(e[+-]\d+)?`)

// splitNumbers returns the words around the numbers of a text: one more than there are numbers.
func splitNumbers(text string) (words, numbers []string) {
	from := 0
	for _, at := range number.FindAllStringIndex(text, -1) {
		words = append(words, text[from:at[0]])
		numbers = append(numbers, text[at[0]:at[1]])
		from = at[1]
	}
	return append(words, text[from:]), numbers
}
