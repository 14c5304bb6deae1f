package compare

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/aclements/go-moremath/stats"

	"transportbench/core/base/parallel"
	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Options configure a comparison.
type Options struct {
	Alpha float64 // between 0 and 1
	// Floor is the minimum effect, as a share. Every change is tested against it; with 0, any
	// significant change counts.
	Floor float64
	// MinEffect, unless it is nil, returns the minimum effect of comparisons of a cell in place of
	// Floor, which is the least, and where it is from. It is of times as many repeats as the sets
	// have.
	MinEffect func(c *set.Cell, times int) (share float64, from string)
	// Drift is the minimum effect between sets that were measured at different times without a
	// control, as a share, if that is more than Floor. DriftFrom says where it is from.
	Drift     float64
	DriftFrom string
	// Same is the margin of the verdict [Same], as a share. A Floor above it, for a machine that
	// cannot see smaller changes, does not make them the same. With 0, or if Floor is less, it is
	// Floor.
	Same float64
	// Metrics are compared if both sides have them.
	Metrics []string
	// Across lists the keys of the identity that may differ, and "rate" if the rates of matched
	// open loops may; "all" allows every one.
	Across []string
	// Strict refuses results of different versions of the runtime, unless Across allows them.
	Strict bool
	// Ignore lists the options of the configuration that are left out when cells are matched.
	Ignore []string
	// Thresholds are limits that changes must keep.
	Thresholds []Threshold

	times int // by how much more repeats [Report.MoreRepeats] are than the sets have
}

// DefaultMetrics are compared unless others are asked for. Most others follow from these, and every
// additional test weakens all of them.
var DefaultMetrics = []string{result.Throughput, result.LatencyP50, result.LatencyP99,
	"response_p50", "response_p99"}

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
func Defaults() Options {
	return Options{Alpha: 0.05, Floor: 0.02, Same: 0.02, Metrics: DefaultMetrics}
}

// same returns the margin within which a change is [Same].
func (o Options) same() float64 {
	if o.Same == 0 {
		return o.Floor
	}
	return min(o.Floor, o.Same)
}

// floorOf returns the minimum effect of a pair with times as many repeats: the larger of those of
// its cells.
func (o Options) floorOf(p pair, times int) float64 {
	if o.MinEffect == nil {
		return o.Floor
	}
	a, _ := o.MinEffect(p.old, times)
	b, _ := o.MinEffect(p.new, times)
	return max(a, b)
}

// Diff compares two sets. It returns an [*IdentityError] if their identities differ in a key that
// is not in o.Across, an [*UnmatchedError] if they have no configuration in common, and a
// [*MeaningError] if they have no metric in common or a threshold is for one that they have not.
func Diff(old, new *set.Set, o Options) (*Report, error) {
	o.Ignore = OptionNames(o.Ignore, old, new)
	m := match(old, new, o.Ignore)
	if len(m.pairs) == 0 {
		return nil, &UnmatchedError{len(old.Cells), len(new.Cells), apart(m.onlyOld, m.onlyNew)}
	}
	labels := set.LabelsOf(old.Cells, new.Cells)
	if m.lengths {
		labels = labels.Without(windowLength)
	}
	controls := func(states state.Classifier, oneMachine bool) *controls {
		none := ""
		if !oneMachine {
			none = otherMachines
		}
		return newControls(old, new, m.pairs, states, none)
	}
	r, err := report(old, new, m, o, controls, func(p pair) string {
		if p.new.Status == set.Published {
			return labels.Of(p.old.Config)
		}
		return labels.Of(p.new.Config)
	})
	if err != nil {
		return nil, err
	}
	r.OnlyOld, r.OnlyNew = singles(m.onlyOld, labels), singles(m.onlyNew, labels)
	r.Warnings = set.WarningsOfBoth(old, new)
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
		m.pairs = append(m.pairs, pair{old: &old.Cells[i], new: &new.Cells[i]})
	}
	o.Across = append(slices.Clone(o.Across), "provider", rateOption)
	labels := set.LabelsOf(old.Cells, new.Cells)
	inTurns := func(state.Classifier, bool) *controls { return nil }
	return report(old, new, m, o, inTurns, func(p pair) string {
		a, b := labels.Of(p.old.Config), labels.Of(p.new.Config)
		if a == b {
			return a
		}
		return a + " -> " + b
	})
}

// report compares the pairs of m, with the control that controls returns.
func report(old, new *set.Set, m matched, o Options,
	controls func(states state.Classifier, oneMachine bool) *controls,
	label func(pair) string) (*Report, error) {
	basis, err := newBasis(o, identityDifferences(old, new, m.pairs), m.pairs)
	if err != nil {
		return nil, err
	}
	changed := changedMetrics(m.pairs, o.Metrics)
	for _, t := range o.Thresholds {
		if slices.Contains(changed, t.Metric) {
			return nil, &MeaningError{changed, t.text}
		}
	}
	r := &Report{
		Kind: "diff", Old: old.Source, New: new.Source, OldSide: newSide(old, m.oldCells()),
		NewSide: newSide(new, m.newCells()), Basis: basis, share: 1,
	}
	r.Notes = append(r.Notes, volatileNotes(old, new, m)...)
	var states state.Classifier
	oneMachine := r.oneMachine()
	if oneMachine {
		states = state.NewClassifier(old, new)
		r.within(states)
	}
	o.times = r.timesMore()
	by := controls(states, oneMachine)
	r.Notes = appendNew(r.Notes, by.note())
	r.Changes = comparePairs(m.pairs, o, states, by,
		func(p pair) string { return pairNote(p, states) }, label)
	if len(changed) > 0 {
		if len(r.Changes) == 0 {
			return nil, &MeaningError{changed, ""}
		}
		r.Notes = append(r.Notes,
			"not compared, because their meaning changed between schema 1.x and 2.0: "+
				strings.Join(changed, ", "))
	}
	if slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Scheduled }) {
		r.Notes = append(r.Notes, scheduledNote)
	}
	if r.Transports = overLoads(r.Changes, o); len(r.Transports) > 0 {
		r.share = 0.5
	}
	judge(r.Transports, o, r.share)
	sortByEffect(r.Transports)
	judge(r.Changes, o, r.share)
	r.Tests = count(r.Changes, tested)
	r.Notes = append(r.Notes, r.controlNotes(o)...)
	r.Together = r.movedTogether(o)
	if slices.ContainsFunc(r.Changes, func(c Change) bool { return c.FairerInTurns() }) {
		r.Bridge = Bridge
	}
	r.Means = means(r.Changes)
	r.Broken, r.Thresholds, r.detectable = breaches(r.Changes, o)
	if changes := r.detectableChanges(); len(r.detectable) == 0 {
		r.detectable = changes
	}
	r.Seen = seen(r.detectable)
	sortByEffect(r.Changes)
	return r, nil
}

// comparePairs returns the changes of all pairs. by is nil if both sides were measured in turns, so
// that they need no control.
func comparePairs(pairs []pair, o Options, states state.Classifier, by *controls,
	note, label func(pair) string) []Change {
	lists := make([][]Change, len(pairs))
	_ = parallel.Each(len(pairs), func(i int) error {
		lists[i] = comparePair(pairs[i], note(pairs[i]), o, states, by, label(pairs[i]))
		return nil
	})
	changes := slices.Concat(lists...)
	test(changes, o)
	return changes
}

// test sets the spread and the p-value of every change without a verdict.
func test(changes []Change, o Options) {
	spread(changes)
	_ = parallel.Each(len(changes), func(i int) error {
		if c := &changes[i]; c.Verdict == "" {
			c.P = new(c.outside(1+*c.Change, c.minChange()))
		}
		return nil
	})
}

func comparePair(p pair, note string, o Options, states state.Classifier, by *controls,
	label string) []Change {
	blank := Change{Cell: label, Transport: p.new.Transport(), Config: p.new.Config,
		Floor: o.floorOf(p, 1), floorOfMore: o.floorOf(p, o.times)}
	if why, both := unusable(p); why != "" {
		if both {
			return nil
		}
		return p.incomparable(blank, why, o)
	}
	if p.ratesDiffer() && !o.Allows(rateOption) && !slices.Contains(o.Ignore, rateOption) {
		return p.incomparable(blank, p.ratesNote(states), o)
	}
	var changes []Change
	for _, name := range o.Metrics {
		a, b := newSample(p.old, name), newSample(p.new, name)
		if len(a.values) == 0 || len(b.values) == 0 || p.otherMeaning(name) {
			continue
		}
		c := blank
		c.Note = note
		c.AddNote(p.droppedStates(a, b, states))
		c.fill(name, a, b, states)
		switch {
		case p.old.Status == set.Published || p.new.Status == set.Published:
			c.Verdict, c.blocks = Incomparable, nil
		case c.Verdict != "":
		case p.scheduled(name):
			c.Scheduled, c.Verdict = true, Ambiguous
		default:
			c.withholdForStarts(p)
		}
		if by != nil && len(c.blocks) > 0 && !shareRounds(a, b) {
			if c.apply(by, p, a, b, states); c.Uncontrolled != "" {
				c.drift = o.Drift
			}
			c.withholdForDisturbance(p, o)
		}
		if step := max(p.old.ClockStep, p.new.ClockStep); isClocked(name) {
			c.step = step
		}
		changes = append(changes, c)
	}
	return changes
}

// incomparable returns the only change of a pair that cannot be compared.
func (p pair) incomparable(c Change, why string, o Options) []Change {
	c.Verdict, c.Note, c.Metric = Incomparable, why, firstCommon(p, o.Metrics)
	return []Change{c}
}

// Allows reports whether a key of the identity, or the rate, may differ.
func (o Options) Allows(key string) bool {
	return slices.Contains(o.Across, key) || slices.Contains(o.Across, "all")
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
	return c.Broken()
}

func firstCommon(p pair, metrics []string) string {
	for _, name := range metrics {
		if len(p.old.Samples[name])+len(p.new.Samples[name]) > 0 {
			return name
		}
	}
	return metrics[0]
}

// pairNote returns what a reader of the changes of a pair should know, or "".
func pairNote(p pair, states state.Classifier) string {
	switch {
	case p.old.Status == set.Published:
		return "old is a published figure, not measured here: " + p.old.Reason
	case p.new.Status == set.Published:
		return "new is a published figure, not measured here: " + p.new.Reason
	case p.old.Incomplete || p.new.Incomplete:
		return "a run was cut short"
	}
	if note := unreadNote(p, states); note != "" {
		return note
	}
	return floorMoved(p, states)
}

// unreadNote returns a note if there are states, but only one side has readings of them.
func unreadNote(p pair, states state.Classifier) string {
	a, b := sample{windows: p.old.Windows}.read(), sample{windows: p.new.Windows}.read()
	switch {
	case states.Count() < 2 || a == b:
		return ""
	case a:
		return "not compared within states of the machine: no readings of them for " + p.newName()
	}
	return "not compared within states of the machine: no readings of them for " + p.oldName()
}

// floorMoved returns a note if the medium itself changed within the states of the machine:
// significantly, and by more than 10%.
func floorMoved(p pair, states state.Classifier) string {
	a, b := newSample(p.old, result.Floor), newSample(p.new, result.Floor)
	if !positive(a.values) || !positive(b.values) || p.otherMeaning(result.Floor) {
		return ""
	}
	c := newComparison(a, b, states)
	if len(c.blocks) == 0 {
		return ""
	}
	const much = 0.1
	ratio, low, high := ranktest.Shift(c.blocks, 0.05)
	if math.Abs(ratio-1) < much || low <= 1 && high >= 1 {
		return ""
	}
	return fmt.Sprintf("the floor moved by %+.0f%%: not only the transport changed", 100*(ratio-1))
}

func sorted(values []float64) []float64 { return slices.Sorted(slices.Values(values)) }

func positive(values []float64) bool { return len(values) > 0 && slices.Min(values) > 0 }

// fill compares the samples of one metric. The verdict and the interval need the number of all
// tests and come later, unless there can be none.
func (c *Change) fill(metric string, a, b sample, states state.Classifier) {
	d := result.Define(metric)
	c.Metric, c.Unit, c.Better = metric, d.Unit, d.Better
	before, after := result.Summarize(metric, a.values), result.Summarize(metric, b.values)
	c.Old, c.New = &before, &after
	if !positive(a.values) || !positive(b.values) {
		c.Verdict = Incomparable
		c.Note = "some values are not above 0"
		return
	}
	within := newComparison(a, b, states)
	c.States = within.changes(metric)
	c.OfMedians = ofMedians(&before, &after, c.States)
	note, prevents := within.overlap()
	c.AddNote(note)
	if prevents {
		ratio, _, _ := ranktest.Shift(ranktest.Blocks{{A: sorted(a.values), B: sorted(b.values)}},
			1)
		c.Change, c.Verdict = new(ratio-1), Ambiguous
		return
	}
	c.blocks = within.blocks
	ratio, _, _ := ranktest.Shift(c.blocks, 1)
	c.Change = new(ratio - 1)
}

// apply takes the movement of the machine from the change, or says why that is not known.
func (c *Change) apply(by *controls, p pair, a, b sample, states state.Classifier) {
	own, why := by.of(p, c.Metric, a, b)
	var within comparison
	if why == "" {
		within = newComparison(own.a, own.b, states)
		if _, prevents := within.overlap(); prevents {
			why = unseenMovement
		}
	}
	if why != "" {
		if c.Uncontrolled = why; why == unseenMovement {
			c.withhold(why)
		}
		return
	}
	raw := *c.Change
	c.blocks = within.blocks
	ratio, _, _ := ranktest.Shift(c.blocks, 1)
	c.Change = new(ratio - 1)
	c.Control = &Control{Raw: raw, Machine: (1+raw)/ratio - 1, Others: own.others,
		Reference: own.reference, peer: own.peer}
}

// AddNote adds to what a reader of the change should know; note may be empty.
func (c *Change) AddNote(note string) {
	switch {
	case note == "":
	case c.Note == "":
		c.Note = note
	default:
		c.Note += "; " + note
	}
}

// withholdForStarts makes a change ambiguous if a side has several repeats of one process start.
// They are not independent, because they share the conditions of that start.
func (c *Change) withholdForStarts(p pair) {
	var sides []string
	for _, side := range []struct {
		name string
		cell *set.Cell
	}{{p.oldName(), p.old}, {p.newName(), p.new}} {
		switch launches, windows := side.cell.Launches(), len(side.cell.Windows); {
		case launches == windows:
		case launches == 1:
			sides = append(sides, side.name+" measured within one process start")
		default:
			sides = append(sides, fmt.Sprintf("%s measured %d repeats in %d process starts",
				side.name, windows, launches))
		}
	}
	if len(sides) == 0 {
		return
	}
	c.OneStart, c.Verdict = true, Ambiguous
	c.AddNote(strings.Join(sides, " and ") +
		": the interval lacks the spread between starts, so there is no verdict")
}

// droppedStates returns a note if a side's windows have readings of the machine's states, but some
// of them lack the metric, so that values and windows cannot be joined.
func (p pair) droppedStates(a, b sample, states state.Classifier) string {
	if states.Count() < 2 {
		return ""
	}
	for i, c := range []*set.Cell{p.old, p.new} {
		if s := []sample{a, b}[i]; s.windows == nil && (sample{windows: c.Windows}).read() {
			return fmt.Sprintf(
				"not compared within states of the machine: some windows of %s lack the metric",
				[]string{p.oldName(), p.newName()}[i])
		}
	}
	return ""
}

// judge sets the verdict and the interval of every change. Their tests together have that share of
// alpha.
func judge(changes []Change, o Options, share float64) {
	var tested []int
	var p []float64
	for i := range changes {
		if c := &changes[i]; c.Verdict == "" && c.Better != result.None {
			tested, p = append(tested, i), append(p, *c.P)
		}
	}
	adjusted, levels := ranktest.Holm(p, share*o.Alpha)
	last := share * o.Alpha
	if len(levels) > 0 {
		last = slices.Max(levels)
	}
	level := slices.Repeat([]float64{last}, len(changes)) // of changes without a test, too
	for at, i := range tested {
		changes[i].PHolm, level[i] = new(min(1, adjusted[at]/share)), levels[at]
	}
	_ = parallel.Each(len(changes), func(i int) error {
		c := &changes[i]
		c.interval(level[i])
		if c.Verdict == "" {
			c.Verdict = verdict(c, o)
			c.explain(level[i])
			c.withholdForClock(o)
		} else if c.Verdict == Ambiguous && len(c.blocks) == 0 { // no state in common
			c.explain(level[i])
		}
		return nil
	})
}

// interval sets the interval at 1-level.
func (c *Change) interval(level float64) {
	if len(c.blocks) == 0 {
		return
	}
	if _, low, high := c.observations.interval(level); low > 0 {
		c.Low, c.High = new(low-1), new(high-1)
	}
}

// Precision returns half the width of a change's interval at alpha over the number of all tests.
// Holm tests no change at a lower level, so the interval of the report is at most as wide; unlike
// that, this one does not depend on the outcome of the tests. It is infinite if there are too few
// repeats.
func (r *Report) Precision(c *Change) float64 {
	if len(c.blocks) == 0 {
		return math.Inf(1)
	}
	_, low, high := c.observations.interval(r.level(r.Changes))
	return (high - low) / 2
}

func verdict(c *Change, o Options) Verdict {
	switch {
	case c.PHolm != nil && *c.PHolm < o.Alpha:
		if (*c.Change > 0) == (c.Better == result.Higher) {
			return Better
		}
		return Worse
	case c.Low != nil && *c.Low > -o.same() && *c.High < o.same():
		return Same
	}
	return Ambiguous
}

// isClocked reports whether values of a metric are times that one reading of the clock took at each
// end: percentiles of latencies. Their means, and times per operation, are finer than a clock step.
func isClocked(metric string) bool {
	d := result.Define(metric)
	return d.Unit == "ns" && clocked.MatchString(metric)
}

var clocked = regexp.MustCompile(`_(p[0-9]+|max)$`)

// withholdForClock makes a change ambiguous if it is beyond the minimum effect by less than a step
// of the clock, which may be all of that. A step finer than the minimum effect, or than the margin
// of SAME, hides none that counts.
func (c *Change) withholdForClock(o Options) {
	if c.step == 0 {
		return
	}
	median, floor := c.Old.Median, c.minChange()
	if c.Verdict == Same {
		floor = o.same()
	}
	change := math.Abs(*c.Change) * median
	counts := c.Verdict == Better || c.Verdict == Worse
	if !counts && c.step <= floor*median || change >= floor*median+c.step {
		return
	}
	c.Verdict, c.TooLittle, c.StatesApart, c.BelowClock = Ambiguous, false, false, true
	beyond := ""
	if change >= c.step {
		beyond = format.Share(floor) + " and "
	}
	c.AddNote(
		fmt.Sprintf("the change of %s is smaller than %sa step of the clock (%.0f ns), so there "+
			"is no verdict", c.Metric, beyond, c.step))
}

// What a change has too few of if no outcome could have been significant.
const (
	FewRepeats = "too few repeats"
	FewWindows = "too few windows in the same states of the machine"
)

// explain sets TooLittle or StatesApart if too few windows rather than noise kept a change from a
// verdict.
func (c *Change) explain(level float64) {
	if c.Verdict != Ambiguous || c.Better == result.None {
		return
	}
	few := c.few(level)
	c.TooLittle, c.StatesApart = few == FewRepeats, few == FewWindows
	if c.StatesApart && len(c.blocks) > 0 {
		c.AddNote(FewWindows + " for a verdict")
	}
}

// few returns what there are too few of for any outcome to be significant at a level, or "".
func (c *Change) few(level float64) string {
	switch {
	case c.blocks.SmallestP() < level:
		return ""
	case len(c.States) == 0 || ranktest.SmallestP(c.Old.N, c.New.N) >= level:
		return FewRepeats
	}
	return FewWindows
}

// Needed returns how many repeats each side needs for one of the report's tests to be significant.
func (r *Report) Needed() int { return ranktest.RepeatsFor(r.share*r.Alpha, r.Tests) }

// level returns the least level that Holm tests one of the changes at.
func (r *Report) level(changes []Change) float64 {
	return r.share * r.Alpha / float64(max(1, count(changes, tested)))
}

// means returns the geometric mean of the changes for each transport and metric.
func means(changes []Change) []Mean {
	type group struct{ transport, metric string }
	ratios := map[group][]float64{}
	for i := range changes {
		if c := &changes[i]; c.Change != nil && c.Verdict != Incomparable && !c.Scheduled {
			of := group{c.Transport, c.Metric}
			ratios[of] = append(ratios[of], 1+*c.Change)
		}
	}
	list := []Mean{}
	for of, values := range ratios {
		list = append(list, Mean{of.transport, of.metric, result.Define(of.metric).Better,
			len(values), stats.GeoMean(values) - 1})
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
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Compare(effect(&b), effect(&a))
	})
}

func singles(cells []*set.Cell, labels set.Labels) []Single {
	var list []Single
	for _, c := range cells {
		list = append(list, Single{labels.Of(c.Config), string(c.Status), c.Reason})
	}
	return list
}
