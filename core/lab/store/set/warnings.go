package set

import (
	"cmp"
	"fmt"
	"math"
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
	g.addSet("", s, LabelsOf(s.Cells))
	return g.List()
}

// WarningsOfBoth returns the errors and warnings of the cells of two sets that are compared.
func WarningsOfBoth(old, new *Set) []GroupedWarning {
	var g WarningGroups
	labels := LabelsOf(old.Cells, new.Cells)
	g.addSet("old", old, labels)
	g.addSet("new", new, labels)
	return g.List()
}

// WarningGroups collects failed checks. Those of the same check whose messages differ only in
// numbers become one, and unless Info is set so do all of a disturbed machine.
type WarningGroups struct {
	// Info keeps checks that only inform, and each of a disturbed machine.
	Info bool

	list      []*warningGroup
	disturbed disturbance
}

// Disturbed is the name of the group of all warnings of a disturbed machine.
const Disturbed = "disturbed"

// disturbances are the checks of a disturbed machine, whose values are shares, and what they are
// called.
var disturbances = []struct{ check, name string }{
	{"steal", "steal"}, {"preempted", "preemption"}, {"drift", "drift"}, {"mixed", "mixed windows"},
	{"disturbed_windows", "windows left out"},
}

// OfDisturbance reports whether a failed check is one of a disturbed machine.
func OfDisturbance(w result.Finding) bool {
	return w.Severity == result.Warning && slices.ContainsFunc(disturbances,
		func(d struct{ check, name string }) bool { return d.check == w.Name })
}

// maxLost is the share of the time that threads may lose to others until the median call waited for
// a processor.
const maxLost = 0.5

// lost returns the share of the time that others took, if a failed check is about that.
func lost(w result.Finding) float64 {
	if w.Severity == result.Warning && (w.Name == "steal" || w.Name == "preempted") {
		return w.Value
	}
	return 0
}

// Unsafe reports whether the threads of a cell ran for less than half of the time: not even
// its median is safe then.
func (c *Cell) Unsafe() bool {
	sum := 0.0
	for _, w := range c.Warnings {
		sum += lost(w)
	}
	return sum > maxLost
}

// FloorBeaten is the check that voids the ratios to a floor.
const FloorBeaten = "floor_beaten"

// Void reports whether a metric of the cell means nothing: it is a ratio to a floor that the cell
// beat.
func (c *Cell) Void(metric string) bool {
	return slices.Contains(result.RatiosToFloor, metric) && slices.ContainsFunc(c.Warnings,
		func(w result.Finding) bool { return w.Name == FloorBeaten })
}

// disturbance has the warnings of a disturbed machine.
type disturbance struct {
	GroupedWarning
	low, high map[string]float64 // by check
	lost      map[string]float64 // by side and cell: the share of the time that others took
}

func (d *disturbance) add(side, cell string, w result.Finding) {
	if d.high == nil {
		d.low, d.high, d.lost = map[string]float64{}, map[string]float64{}, map[string]float64{}
	}
	d.lost[side+" "+cell] += lost(w)
	d.concern(side, cell)
	by := math.Abs(w.Value)
	if known, has := d.low[w.Name]; !has || by < known {
		d.low[w.Name] = by
	}
	d.high[w.Name] = max(d.high[w.Name], by)
}

// text says what disturbed the machine, and which figures are safe.
func (d *disturbance) text() string {
	percent := func(share float64) string { return fmt.Sprintf("%.2g%%", 100*share) }
	var parts []string
	for _, of := range disturbances {
		low, has := d.low[of.check]
		high := d.high[of.check]
		switch {
		case !has:
		case high == 0: // sets of 0.8.0 and before have no values
			parts = append(parts, of.name)
		case percent(low) != percent(high):
			parts = append(parts, of.name+" "+percent(low)+" to "+percent(high))
		default:
			parts = append(parts, of.name+" "+percent(high))
		}
	}
	largest := 0.0
	for _, share := range d.lost {
		largest = max(largest, share)
	}
	var effects []string
	switch {
	case largest > maxLost:
		effects = append(effects, "where threads ran for less than half of the time, neither p50 "+
			"nor throughput is safe: measure on a quiet machine")
	case largest > 0:
		effects = append(effects, fmt.Sprintf(
			"p50 is safe, throughput may be %s off, and tails include it", percent(largest)))
	}
	if _, drifts := d.high["drift"]; drifts {
		effects = append(effects, "where the rate drifts, measure again")
	}
	if _, mixed := d.high["mixed"]; mixed {
		effects = append(effects, "of mixed windows, use the rows of one state")
	}
	return strings.Join(parts, ", ") + ": " + strings.Join(effects, "; ")
}

type warningGroup struct {
	GroupedWarning
	words   []string // of the messages, between their numbers
	numbers []span
}

// span has the lowest and the highest number at one place of the messages, as written.
type span struct{ low, high string }

// addSet adds the failed checks of a set's cells.
func (g *WarningGroups) addSet(side string, s *Set, labels Labels) {
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
	if OfDisturbance(w) && !g.Info {
		g.disturbed.add(side, cell, w)
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
	d.concern(side, cell)
}

// concern adds a cell to those that fail the check.
func (d *GroupedWarning) concern(side, cell string) {
	if side != "" && !slices.Contains(d.Sides, side) {
		d.Sides = append(d.Sides, side)
	}
	if !slices.Contains(d.Cells, cell) {
		d.Cells = append(d.Cells, cell)
	}
}

// List returns the warnings, errors first. Of the others, those that change what a reader takes
// from a table come first: too many threads, a disturbed machine, void ratios.
func (g *WarningGroups) List() []GroupedWarning {
	var list []GroupedWarning
	if d := &g.disturbed; len(d.Cells) > 0 {
		d.Check, d.Severity, d.Message = Disturbed, result.Warning, d.text()
		list = append(list, d.GroupedWarning)
	}
	for _, d := range g.list {
		d.Message = d.text()
		list = append(list, d.GroupedWarning)
	}
	slices.SortStableFunc(list, func(a, b GroupedWarning) int { // "error" is before "warning"
		return cmp.Or(cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(importance(a), importance(b)))
	})
	return list
}

// importance orders warnings by what a reader does about them.
func importance(w GroupedWarning) int {
	first := []string{"oversubscribed", Disturbed, FloorBeaten}
	if at := slices.Index(first, w.Check); at >= 0 {
		return at
	}
	return len(first)
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
