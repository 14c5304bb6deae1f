package compare

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/aclements/go-moremath/stats"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// Options configure a comparison.
type Options struct {
	Alpha float64 // between 0 and 1
	Floor float64 // as a share, from 0
	// Metrics are compared if both sides have them.
	Metrics []string
	// Across lists the keys of the identity that may differ; "all" allows every one.
	Across []string
	// Ignore lists the options of the configuration that are left out when cells are matched.
	Ignore []string
	// Thresholds are limits that changes must keep.
	Thresholds []Threshold
}

// DefaultMetrics are compared unless others are asked for. Most others follow from these, and every
// additional test weakens all of them.
var DefaultMetrics = []string{result.Throughput, result.LatencyP50, result.LatencyP99, "response_p50", "response_p99"}

// AllMetrics returns the metrics that can become better or worse.
func AllMetrics() []string {
	var names []string
	for _, d := range result.Definitions {
		if d.Better != result.None {
			names = append(names, d.Name)
		}
	}
	return names
}

// Defaults returns the default options.
func Defaults() Options { return Options{Alpha: 0.05, Floor: 0.02, Metrics: DefaultMetrics} }

// Diff compares two sets. It returns an [*IdentityError] if their identities differ in a key that
// is not in o.Across, and an [*UnmatchedError] if they have no configuration in common.
func Diff(old, new *set.Set, o Options) (*Report, error) {
	m := match(old, new, o.Ignore)
	if len(m.pairs) == 0 {
		return nil, &UnmatchedError{len(old.Cells), len(new.Cells), apart(m.onlyOld, m.onlyNew)}
	}
	varying := set.Varying(old.Cells, new.Cells)
	r, err := report(old, new, m, o, func(p pair) string {
		if p.new.Status == set.Published {
			return p.old.Label(varying)
		}
		return p.new.Label(varying)
	})
	if err != nil {
		return nil, err
	}
	r.OnlyOld, r.OnlyNew = singles(m.onlyOld, varying), singles(m.onlyNew, varying)
	return r, nil
}

// Pairwise compares the cells of two sets by their index. Their configurations and providers may
// differ: that is what is compared.
func Pairwise(old, new *set.Set, o Options) (*Report, error) {
	if len(old.Cells) != len(new.Cells) || len(old.Cells) == 0 {
		return nil, &UnmatchedError{Old: len(old.Cells), New: len(new.Cells)}
	}
	var m matched
	for i := range old.Cells {
		m.pairs = append(m.pairs, pair{&old.Cells[i], &new.Cells[i]})
	}
	o.Across = append(slices.Clone(o.Across), "provider")
	varying := set.Varying(old.Cells, new.Cells)
	return report(old, new, m, o, func(p pair) string {
		a, b := p.old.Label(varying), p.new.Label(varying)
		if a == b {
			return a
		}
		return a + " -> " + b
	})
}

// report compares the pairs of m.
func report(old, new *set.Set, m matched, o Options, label func(pair) string) (*Report, error) {
	differences := identityDifferences(old, new, m.pairs)
	if err := forbidden(differences, o.Across); err != nil {
		return nil, err
	}
	r := &Report{
		Kind: "diff", Old: old.Source, New: new.Source, Alpha: o.Alpha, Floor: o.Floor,
		Across: differences, Notes: volatileNotes(old, new, m),
		Changes: comparePairs(m.pairs, o, label),
	}
	judge(r.Changes, o)
	r.Tests = tests(r.Changes)
	r.Means = means(r.Changes)
	r.Broken = breaches(r.Changes, o.Thresholds, o.Alpha)
	sortByEffect(r.Changes)
	return r, nil
}

// comparePairs returns the changes of all pairs. It uses all processors.
func comparePairs(pairs []pair, o Options, label func(pair) string) []Change {
	lists := make([][]Change, len(pairs))
	var working sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		working.Go(func() {
			for i := w; i < len(pairs); i += workers {
				lists[i] = comparePair(pairs[i], o, label(pairs[i]))
			}
		})
	}
	working.Wait()
	return slices.Concat(lists...)
}

func comparePair(p pair, o Options, label string) []Change {
	blank := Change{Cell: label, Transport: p.new.Transport(), Config: p.new.Config}
	if why, both := unusable(p); why != "" {
		if both {
			return nil
		}
		blank.Verdict, blank.Note = Incomparable, why
		blank.Metric = firstCommon(p, o.Metrics)
		return []Change{blank}
	}
	note := pairNote(p)
	var changes []Change
	for _, name := range o.Metrics {
		a, b := p.old.Samples[name], p.new.Samples[name]
		if len(a) == 0 || len(b) == 0 {
			continue
		}
		c := blank
		c.Note = note
		fill(&c, name, a, b, o.Alpha)
		if p.old.Status == set.Published || p.new.Status == set.Published {
			c.Verdict, c.P, c.Low, c.High = Incomparable, nil, nil, nil
		}
		changes = append(changes, c)
	}
	return changes
}

// unusable returns why a pair cannot be compared, or "". both reports whether neither side was
// measured.
func unusable(p pair) (why string, both bool) {
	a, b := lacking(p.old), lacking(p.new)
	switch {
	case a != "" && b != "":
		return a, p.old.Status != set.Measured && p.new.Status != set.Measured
	case a != "":
		return "old: " + a, false
	case b != "":
		return "new: " + b, false
	}
	return "", false
}

// lacking returns why a cell's numbers cannot be used, or "".
func lacking(c *set.Cell) string {
	switch c.Status {
	case set.Failed:
		return "failed: " + c.Reason
	case set.Unavailable:
		return "unavailable: " + c.Reason
	}
	for _, d := range c.Warnings {
		if d.Severity == result.Error {
			return fmt.Sprintf("check %s failed: %s", d.Check, d.Message)
		}
	}
	return ""
}

func firstCommon(p pair, metrics []string) string {
	for _, name := range metrics {
		if len(p.old.Samples[name])+len(p.new.Samples[name]) > 0 {
			return name
		}
	}
	return metrics[0]
}

// pairNote returns what a reader of the change should know, or "".
func pairNote(p pair) string {
	switch {
	case p.old.Status == set.Published:
		return "old is a published figure, not measured here: " + p.old.Reason
	case p.new.Status == set.Published:
		return "new is a published figure, not measured here: " + p.new.Reason
	case p.old.Incomplete || p.new.Incomplete:
		return "a run was cut short"
	}
	return floorMoved(p)
}

// floorMoved returns a note if the medium itself changed: significantly, and by more than 10%.
func floorMoved(p pair) string {
	a, b := sorted(p.old.Samples[result.Floor]), sorted(p.new.Samples[result.Floor])
	if len(a) == 0 || len(b) == 0 || !(a[0] > 0 && b[0] > 0) {
		return ""
	}
	const much = 0.1
	ratio, low, high := shift(a, b, 0.05)
	if math.Abs(ratio-1) < much || low <= 1 && high >= 1 {
		return ""
	}
	return fmt.Sprintf("the floor moved by %+.0f%%: not only the transport changed", 100*(ratio-1))
}

func sorted(values []float64) []float64 { return slices.Sorted(slices.Values(values)) }

// fill compares the samples of one metric. The verdict needs the number of all tests and comes
// later.
func fill(c *Change, metric string, a, b []float64, alpha float64) {
	d := result.Define(metric)
	c.Metric, c.Unit, c.Better = metric, d.Unit, d.Better
	before, after := result.Summarize(metric, a), result.Summarize(metric, b)
	c.Old, c.New = &before, &after
	a, b = sorted(a), sorted(b)
	if !(a[0] > 0 && b[0] > 0) {
		c.Verdict = Incomparable
		c.Note = "some values are not above 0"
		return
	}
	ratio, low, high := shift(a, b, alpha)
	c.Change = new(ratio - 1)
	if low > 0 {
		c.Low, c.High = new(low-1), new(high-1)
	}
	c.P = new(rankTest(a, b))
}

// judge sets the verdict of every change.
func judge(changes []Change, o Options) {
	var tested []*Change
	var p []float64
	for i := range changes {
		c := &changes[i]
		if c.Verdict == "" && c.Better != result.None {
			tested, p = append(tested, c), append(p, *c.P)
		}
	}
	for i, adjusted := range holm(p) {
		tested[i].PHolm = new(adjusted)
	}
	for i := range changes {
		if c := &changes[i]; c.Verdict == "" {
			c.Verdict = verdict(c, o)
			c.TooLittle = c.Verdict == Ambiguous && c.Better != result.None && tooLittle(c, o.Alpha, len(p))
		}
	}
}

func verdict(c *Change, o Options) Verdict {
	change := *c.Change
	switch {
	case c.PHolm != nil && *c.PHolm < o.Alpha && math.Abs(change) >= o.Floor:
		if (change > 0) == (c.Better == result.Higher) {
			return Better
		}
		return Worse
	case c.Low != nil && *c.Low > -o.Floor && *c.High < o.Floor:
		return Same
	}
	return Ambiguous
}

// tooLittle reports whether the number of repeats, rather than noise, kept a change from a verdict:
// no outcome could have been significant, or this one is significant alone but so few repeats
// cannot be after the adjustment for the other tests.
func tooLittle(c *Change, alpha float64, tests int) bool {
	p := least(c.Old.N, c.New.N)
	return p >= alpha || *c.P < alpha && p*float64(tests) >= alpha
}

// tests counts the tests that were made.
func tests(changes []Change) int {
	n := 0
	for i := range changes {
		if changes[i].PHolm != nil {
			n++
		}
	}
	return n
}

// Needed returns how many repeats each side needs for one of the report's tests to be significant.
func (r *Report) Needed() int { return repeatsFor(r.Alpha, r.Tests) }

// means returns the geometric mean of the changes for each transport and metric.
func means(changes []Change) []Mean {
	type group struct{ transport, metric string }
	ratios := map[group][]float64{}
	for i := range changes {
		if c := &changes[i]; c.Change != nil && c.Verdict != Incomparable {
			of := group{c.Transport, c.Metric}
			ratios[of] = append(ratios[of], 1+*c.Change)
		}
	}
	list := []Mean{}
	for of, values := range ratios {
		list = append(list, Mean{of.transport, of.metric, result.Define(of.metric).Better, len(values), stats.GeoMean(values) - 1})
	}
	slices.SortFunc(list, func(a, b Mean) int {
		return cmp.Or(cmp.Compare(a.Transport, b.Transport), cmp.Compare(a.Metric, b.Metric))
	})
	return list
}

// sortByEffect sorts changes by size, the largest first in either direction, with those that cannot
// be compared last.
func sortByEffect(changes []Change) {
	effect := func(c *Change) float64 {
		if c.Verdict == Incomparable || c.Change == nil {
			return -1
		}
		return math.Abs(math.Log1p(*c.Change))
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(effect(&b), effect(&a)) })
}

func singles(cells []*set.Cell, varying []string) []Single {
	var list []Single
	for _, c := range cells {
		list = append(list, Single{c.Label(varying), string(c.Status), c.Reason})
	}
	return list
}
