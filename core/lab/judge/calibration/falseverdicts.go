package calibration

import (
	"maps"
	"strings"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

const (
	// selfRepeats are the rounds of a block, which is a comparison of a configuration with itself.
	selfRepeats = 10
	// fewestComparisons is the number of comparisons below which no rate of false verdicts is
	// bounded.
	fewestComparisons = 100
)

// FewestABRepeats are the fewest repeats of a comparison of ab.
const FewestABRepeats = 6

// abRule is the rule by which comparisons of ab end, but for the most repeats: a block has few.
var abRule = compare.StopRule{Within: 0.01, MinRepeats: FewestABRepeats, MaxRepeats: selfRepeats}

type outcome struct {
	tests int
	any   bool // a test was significant, or a change beyond the least one that counts
}

// method compares equal cells of a block of e in one way; ok is false if it cannot.
type method struct {
	name    string
	compare func(e *Experiment, block int, o compare.Options) (result outcome, ok bool, err error)
}

// methods are the ways to compare.
var methods = []method{{"diff", (*Experiment).selfDiff}, {"along", (*Experiment).selfAlong},
	{"ab", (*Experiment).selfAB}}

// falseVerdicts compares equal cells in each way, with the minimum effect 0 and with the default.
func (d *Document) falseVerdicts() ([]FalseVerdicts, error) {
	rows := []FalseVerdicts{}
	e := d.experiment(ExperimentSelf)
	if e == nil || len(e.Set.Cells) < 2 || len(e.Set.Cells[0].Samples[result.Throughput]) == 0 {
		return rows, nil
	}
	for _, m := range methods {
		row := FalseVerdicts{Method: m.name, Repeats: selfRepeats}
		for block := range e.rounds() / selfRepeats {
			beyond := compare.Defaults()
			beyond.Alpha = d.Alpha
			anyChange := beyond
			anyChange.Floor = 0
			found, ok, err := m.compare(e, block, anyChange)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			row.Comparisons++
			row.Tests = max(row.Tests, found.tests)
			if found.any {
				row.False++
			}
			if found, _, err = m.compare(e, block, beyond); err != nil {
				return nil, err
			}
			if found.any {
				row.Beyond++
			}
		}
		if row.Comparisons == 0 {
			continue
		}
		row.Share = binomial(row.False, row.Comparisons)
		row.Within = row.Comparisons >= fewestComparisons && *row.Share.Low <= d.Alpha
		rows = append(rows, row)
	}
	return rows, nil
}

type part struct{ cell, block int }

// diffPair returns what the n-th comparison of diff compares: a part of the first half of the
// experiment with one of the second. No two comparisons share a part, and none are of the same two
// blocks.
func diffPair(n, blocks, cells int) (a, b part, ok bool) {
	half := blocks / 2
	switch {
	case n < half:
		return part{0, n}, part{1, n + half}, true
	case n < 2*half && cells > 2:
		n -= half
		return part{2, n}, part{0, half + (n+max(half/3, 1))%half}, true
	}
	return part{}, part{}, false
}

// selfDiff compares two parts as sets that were measured at different times. Each sample is used
// once, but comparisons share the drift of the machine, so the exact interval of their share is as
// if they were independent.
func (e *Experiment) selfDiff(block int, o compare.Options) (outcome, bool, error) {
	a, b, ok := diffPair(block, e.rounds()/selfRepeats, len(e.Set.Cells))
	if !ok {
		return outcome{}, false, nil
	}
	report, err := compare.Diff(
		e.setOf(cut(&e.Set.Cells[a.cell], a.block*selfRepeats, selfRepeats)),
		e.setOf(cut(&e.Set.Cells[b.cell], b.block*selfRepeats, selfRepeats)), o)
	if err != nil {
		return outcome{}, false, err
	}
	return ofReport(report), true, nil
}

func ofReport(r *compare.Report) outcome {
	return outcome{r.Tests, r.Count(compare.Better)+r.Count(compare.Worse) > 0}
}

// selfAlong ranks all cells in a block.
func (e *Experiment) selfAlong(block int, o compare.Options) (outcome, bool, error) {
	const axis = "cell" // no option has this name
	var cells []set.Cell
	for i := range e.Set.Cells {
		c := cut(&e.Set.Cells[i], block*selfRepeats, selfRepeats)
		c.Config = maps.Clone(c.Config)
		c.Config[axis] = string(rune('a' + i))
		cells = append(cells, c)
	}
	ranking, err := compare.Along(e.setOf(cells...), axis, o)
	if err != nil {
		return outcome{}, false, err
	}
	found := outcome{tests: ranking.Tests}
	for _, group := range ranking.Groups {
		for i, one := range group.List {
			for _, other := range group.List[:i] {
				// they are told apart
				found.any = found.any || !strings.ContainsAny(one.Group, other.Group)
			}
		}
	}
	return found, true, nil
}

// selfAB compares the first two cells in a block as ab does, which looks after each round.
func (e *Experiment) selfAB(block int, o compare.Options) (outcome, bool, error) {
	return e.ab(abRule, block*selfRepeats, o)
}

// ab compares the first two cells from a round on until the rule ends it.
func (e *Experiment) ab(rule compare.StopRule, from int, o compare.Options) (outcome, bool, error) {
	for n := 1; ; n++ {
		report, err := compare.Pairwise(e.setOf(cut(&e.Set.Cells[0], from, n)),
			e.setOf(cut(&e.Set.Cells[1], from, n)), o)
		if err != nil {
			return outcome{}, false, err
		}
		if ended, _ := rule.Ended(report, o.Metrics, n); ended {
			return ofReport(report), true, nil
		}
	}
}
