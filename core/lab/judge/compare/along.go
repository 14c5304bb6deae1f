package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"transportbench/core/base/grouped"
	"transportbench/core/lab/judge/compare/letters"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Ranking compares the values of one option within one set.
type Ranking struct {
	Kind   string `json:"kind"` // "ranking"
	Source string `json:"source"`
	Axis   string `json:"axis"`
	Basis
	// Groups has the cells that differ in the axis alone, once for each metric.
	Groups []Candidates `json:"races"`
	// Leaders counts for each metric and value the groups that it leads.
	Leaders []Leader `json:"wins"`
	// LeftOut has the cells that were compared with no other, with the reason.
	LeftOut []Single `json:"left_out,omitempty"`
	// Warnings are the failed checks of all cells of the set, compared or not.
	Warnings []set.GroupedWarning `json:"warnings,omitempty"`
}

// Candidates are cells that differ in the axis alone, compared in one metric.
type Candidates struct {
	Cell   string        `json:"cell"` // what they have in common, for people
	Metric string        `json:"metric"`
	Unit   string        `json:"unit"`
	Better result.Better `json:"better"`
	// List has the values of the axis, the best first. The order takes account of the states of the
	// machine that each value was measured in, so it need not be that of the medians.
	List []Candidate `json:"runners"`
	// Leader is the first value if it is significantly better than each other one, by more than the
	// floor, else empty. It is then alone in group a.
	Leader string `json:"winner"`
	// TooLittle is set if there are too few repeats for any value to lead, and StatesApart if there
	// are too few windows in the same states of the machine.
	TooLittle   bool `json:"too_little,omitempty"`
	StatesApart bool `json:"states_apart,omitempty"`
	// Pairs has the test of each pair of values, those with the first value first.
	Pairs []Pair `json:"pairs"`
	// changes are those from each value to each better one, in the order of [letters.Pairs].
	changes []Change
	cells   []*set.Cell // of List
}

// Cells returns the cells of List, in its order. A cell that counts on both tracks may be a copy.
func (g *Candidates) Cells() []*set.Cell { return g.cells }

// Pair compares two values of the axis.
type Pair struct {
	// Old and New are the values; New is before Old in the order of the group.
	Old string `json:"old"`
	New string `json:"new"`
	// Change is that from Old to New. Low, High and PHolm are as in [Candidate].
	Change *float64 `json:"change,omitempty"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	PHolm  *float64 `json:"p_holm,omitempty"`
	// Verdict compares New with Old.
	Verdict Verdict `json:"verdict"`
	Note    string  `json:"note,omitempty"`
}

// Candidate is one value of the axis.
type Candidate struct {
	Value string `json:"value"`
	// Metric is of the windows in State, in which all values of the group have most windows, as in
	// [Shown]. State is empty if it is of all windows.
	Metric result.Metric `json:"metric"`
	State  string        `json:"state,omitempty"`
	// Group has a letter for each group of values that it belongs to. The values of a group cannot
	// be told apart; values without a letter in common can, by more than the floor. Group is empty
	// if there are too few repeats, or windows in the same states of the machine, to compare the
	// value with the best, which is no tie.
	Group string `json:"group"`
	// Lead is the best over this value minus 1, absent for the best itself: the ratio of the
	// medians, with several states of the machine that of the levels which the order is by. No
	// value is closer to the best than one before it in the list.
	Lead *float64 `json:"lead,omitempty"`
	// Floor is the minimum effect of the comparison with the best, 0 for the best itself.
	Floor float64 `json:"floor,omitempty"`
	// Behind is the change from this value to the best, absent for the best itself. Low and High
	// are its interval, at the level that Holm's adjustment over all pairs of all groups tested it
	// at. PHolm is against the floor.
	Behind *float64 `json:"behind,omitempty"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	PHolm  *float64 `json:"p_holm,omitempty"`
	// States has the medians by state, of this value as old and of the best as new.
	States []StateChange `json:"states,omitempty"`
	// Verdict compares the best with this one: BETTER, SAME or AMBIGUOUS.
	Verdict Verdict `json:"verdict,omitempty"`
	Note    string  `json:"note,omitempty"`
}

// Leader counts the groups in which a value leads.
type Leader struct {
	Metric string `json:"metric"`
	Value  string `json:"value"`
	Wins   int    `json:"wins"`
	Groups int    `json:"races"` // in which it took part
}

const trackOption = "track"

// Along compares the values of an option in cells that are otherwise the same. axis is "transport",
// whose own options are then ignored, or any option of the configuration, named as in the result or
// as the flag. Providers and, unless o.Strict is set, runtimes may differ. Machines may only if
// o.Across has the key that differs; else the error is an [*IdentityError].
func Along(s *set.Set, axis string, o Options) (*Ranking, error) {
	axis, err := axisName(s, axis)
	if err != nil {
		return nil, err
	}
	var cells []*set.Cell
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Status == set.Measured && lacking(c) == "" {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return nil, &UnmatchedError{Old: len(s.Cells), New: len(s.Cells)}
	}
	compared := map[string]bool{} // by key; a cell of both tracks is compared as either
	r := &Ranking{Kind: "ranking", Source: s.Source, Axis: axis, Groups: []Candidates{},
		Leaders: []Leader{}}
	var pairs []pair
	for _, c := range cells[1:] {
		pairs = append(pairs, pair{old: cells[0], new: c})
	}
	differences := slices.DeleteFunc(identityDifferences(s, s, pairs),
		func(d Difference) bool { return d.Key == "provider" })
	if r.Basis, err = newBasis(o, differences, pairs); err != nil {
		return nil, err
	}
	var shown state.Shown
	if r.oneMachine() {
		shown = state.ShownOf(s)
		r.within(shown.Classifier)
	}
	drop := dropped(s, axis)
	if axis == "transport" {
		cells = set.OnBothTracks(cells, drop)
	}
	labels := set.LabelsOf(s.Cells).Without(drop...)
	scheduled, shares := false, false
	for _, ofLoad := range grouped.By(cells, func(c *set.Cell) string { return c.Key(drop...) }) {
		for _, metric := range o.Metrics {
			if len(ofLoad) > 1 && slices.Contains(bySchedule, metric) &&
				!slices.ContainsFunc(ofLoad, func(c *set.Cell) bool { return !keptLoad(c) }) {
				scheduled = true
				for _, c := range ofLoad { // the note says why
					compared[c.Key(trackOption)] = true
				}
				continue
			}
			if group, ok := newCandidates(ofLoad, axis, metric, labels, shown, o); ok {
				r.Groups = append(r.Groups, group)
				for _, c := range group.cells {
					compared[c.Key(trackOption)] = true
				}
				shares = shares || axis != rateOption &&
					slices.ContainsFunc(ofLoad, func(c *set.Cell) bool {
						return pair{old: ofLoad[0], new: c}.ratesDiffer()
					})
			}
		}
	}
	if scheduled {
		r.Notes = append(r.Notes, scheduledNote)
	}
	if shares {
		r.Notes = append(r.Notes, sharesNote)
	}
	switch {
	case len(r.Groups) == 0 && scheduled:
		return nil, errors.New(scheduledNote + "; use --metric to compare others")
	case len(r.Groups) == 0:
		return nil, &UnmatchedError{Old: len(s.Cells), New: len(s.Cells)}
	}
	r.LeftOut, r.Warnings = leftOut(s, axis, compared), set.Warnings(s)
	r.judge(o)
	return r, nil
}

// leftOut lists the cells that were not compared.
func leftOut(s *set.Set, axis string, compared map[string]bool) (list []Single) {
	labels := set.LabelsOf(s.Cells)
	for i := range s.Cells {
		c := &s.Cells[i]
		if compared[c.Key(trackOption)] {
			continue
		}
		reason := "no other cell with the metrics differs only in " + axis
		if why := lacking(c); why != "" {
			reason = why
		} else if c.Status == set.Published {
			reason = "a published figure: " + c.Reason
		}
		list = append(list, Single{labels.Of(c.Config), string(c.Status), reason})
	}
	return list
}

// axisName returns the name that cells have for an option.
func axisName(s *set.Set, axis string) (string, error) {
	names := set.Names(s.Cells)
	if name := optionName(names, axis); slices.Contains(names, name) {
		return name, nil
	}
	return "", fmt.Errorf("no cell has the option %q; they have %s", axis,
		strings.Join(names, ", "))
}

// OptionNames returns the names that cells have for options which are named as flags: a transport's
// own option needs no prefix.
func OptionNames(options []string, sets ...*set.Set) []string {
	var names, list []string
	for _, s := range sets {
		names = append(names, set.Names(s.Cells)...)
	}
	for _, option := range options {
		list = append(list, optionName(names, strings.TrimSpace(option)))
	}
	return list
}

// optionName returns the one of names that an option has, or the option itself with underscores.
func optionName(names []string, option string) string {
	general := strings.ReplaceAll(option, "-", "_")
	for _, candidate := range []string{option, general, "options." + option} {
		if slices.Contains(names, candidate) {
			return candidate
		}
	}
	return general
}

// dropped returns the options that do not tell groups apart: the axis, if that is the transport the
// transports' own options, and if it is the track the options that it sets.
func dropped(s *set.Set, axis string) []string {
	drop := []string{axis}
	if axis == "transport" {
		drop = s.TransportOptions()
	}
	if axis == trackOption {
		drop = append(drop, s.SetByTrack()...)
	}
	return drop
}

// newCandidates compares cells in one metric; ok is false if fewer than two have it.
func newCandidates(cells []*set.Cell, axis, metric string, labels set.Labels, shown state.Shown,
	o Options) (Candidates, bool) {
	states := shown.Classifier
	cells = slices.DeleteFunc(slices.Clone(cells),
		func(c *set.Cell) bool { return !positive(newSample(c, metric).values) })
	d := result.Define(metric)
	if len(cells) < 2 || d.Better == result.None {
		return Candidates{}, false
	}
	group := Candidates{Cell: commonLabel(cells[0], axis, labels), Metric: metric, Unit: d.Unit,
		Better: d.Better}
	BestFirst(cells, metric, states)
	group.cells = cells
	names := candidateNames(cells, axis)
	samples := make([]sample, len(cells))
	for i, c := range cells {
		samples[i] = newSample(c, metric)
	}
	level := levels(samples, states)
	common := states.Common(cells) // along other axes than the transport, cells have several loads
	for i, c := range cells {
		state := common
		if axis == "transport" {
			state = shown.State(c)
		}
		candidate := Candidate{Value: names[i]}
		candidate.Metric, _ = c.Metric(metric)
		if in := states.Within(c, state); in != c && len(in.Samples[metric]) > 0 {
			candidate.Metric, _ = in.Metric(metric)
			candidate.State = state
		}
		if i > 0 {
			lead := math.Expm1(level[0] - level[i])
			candidate.Lead = &lead
		}
		group.List = append(group.List, candidate)
	}
	pairs := make([]pair, 0, len(cells)*(len(cells)-1)/2)
	for better, worse := range letters.Pairs(len(cells)) {
		pairs = append(pairs, pair{cells[worse], cells[better],
			[2]string{names[worse], names[better]}})
	}
	if slices.ContainsFunc(pairs, func(p pair) bool { return p.otherMeaning(metric) }) {
		return Candidates{}, false
	}
	group.changes = comparePairs(pairs, Options{Metrics: []string{metric}, Floor: o.Floor,
		MinEffect: o.MinEffect, Across: []string{rateOption}}, states, nil,
		func(p pair) string { return unreadNote(p, states) }, func(pair) string { return "" })
	return group, true
}

// BestFirst sorts cells by a metric, in an order that does not depend on the states of the machine
// that each cell happened to draw. Cells without the metric come last.
func BestFirst(cells []*set.Cell, metric string, states state.Classifier) {
	var known []*set.Cell
	var samples []sample
	level := map[*set.Cell]float64{}
	for _, c := range cells {
		if level[c] = math.Inf(1); positive(c.Samples[metric]) {
			known, samples = append(known, c), append(samples, newSample(c, metric))
		}
	}
	for i, l := range levels(samples, states) {
		if level[known[i]] = l; result.Define(metric).Better == result.Higher {
			level[known[i]] = -l
		}
	}
	slices.SortStableFunc(cells, func(a, b *set.Cell) int {
		return cmp.Compare(level[a], level[b])
	})
}

// commonLabel names what the cells of a group have in common.
func commonLabel(c *set.Cell, axis string, labels set.Labels) string {
	label := labels.Of(c.Config)
	if axis == "transport" {
		label = labels.Load(c.Config)
	}
	return cmp.Or(label, "all")
}

// candidateNames names cells by their value of the axis. Cells of one value are told apart by what
// else varies among them.
func candidateNames(cells []*set.Cell, axis string) []string {
	names := make([]string, len(cells))
	count := map[string]int{}
	for i, c := range cells {
		names[i], _ = c.Shown(axis)
		count[names[i]]++
	}
	for i, c := range cells {
		if count[names[i]] < 2 {
			continue
		}
		var same []set.Cell
		for _, other := range cells {
			if other.Config[axis] == c.Config[axis] {
				same = append(same, *other)
			}
		}
		names[i] = strings.TrimSpace(names[i] + " " + set.LabelsOf(same).Load(c.Config))
	}
	return names
}

// judge adjusts the tests of all pairs of all groups, and names groups and leaders.
func (r *Ranking) judge(o Options) {
	var changes []Change
	for _, group := range r.Groups {
		changes = append(changes, group.changes...)
	}
	judge(changes, o, 1)
	r.Tests = count(changes, tested)
	for i := range r.Groups {
		group := &r.Groups[i]
		group.changes, changes = changes[:len(group.changes)], changes[len(group.changes):]
		group.judge()
	}
	r.Leaders = r.leaders()
}

// judge takes the outcome from the changes, which have their verdicts.
func (g *Candidates) judge() {
	leads := true
	apart := make([][]bool, len(g.List))
	for i := range apart {
		apart[i] = make([]bool, len(g.List))
	}
	next := 0
	tooLittle := make([]bool, len(g.List))
	tooLittle[0] = true // unless it is told apart from one
	for better, worse := range letters.Pairs(len(g.List)) {
		c := &g.changes[next]
		next++
		known := c.Verdict == Better || c.Verdict == Worse
		apart[better][worse], apart[worse][better] = known, known
		g.Pairs = append(g.Pairs, Pair{
			Old: g.List[worse].Value, New: g.List[better].Value,
			Change: c.Change, Low: c.Low, High: c.High, PHolm: c.PHolm, Verdict: c.Verdict,
			Note: c.Note,
		})
		if better > 0 {
			continue
		}
		candidate := &g.List[worse]
		candidate.Behind, candidate.Low, candidate.High, candidate.PHolm = c.Change, c.Low,
			c.High, c.PHolm
		candidate.Verdict, candidate.Note, candidate.States = c.Verdict, c.Note, c.States
		candidate.Floor = c.Floor
		g.TooLittle = g.TooLittle || c.TooLittle
		g.StatesApart = g.StatesApart || c.StatesApart
		tooLittle[worse] = c.TooLittle || c.StatesApart
		tooLittle[0] = tooLittle[0] && tooLittle[worse]
		leads = leads && c.Verdict == Better
	}
	for i, group := range letters.Of(apart) {
		if !tooLittle[i] {
			g.List[i].Group = group
		}
	}
	if leads {
		g.Leader = g.List[0].Value
	}
}

// leaders counts the groups that each value leads, by metric, the most first.
func (r *Ranking) leaders() []Leader {
	wins := map[string]map[string]*Leader{}
	for _, group := range r.Groups {
		if wins[group.Metric] == nil {
			wins[group.Metric] = map[string]*Leader{}
		}
		for _, candidate := range group.List {
			w := wins[group.Metric][candidate.Value]
			if w == nil {
				w = &Leader{Metric: group.Metric, Value: candidate.Value}
				wins[group.Metric][candidate.Value] = w
			}
			w.Groups++
			if candidate.Value == group.Leader {
				w.Wins++
			}
		}
	}
	list := []Leader{}
	for _, metric := range slices.Sorted(maps.Keys(wins)) {
		values := slices.SortedFunc(maps.Values(wins[metric]), func(a, b *Leader) int {
			return cmp.Or(cmp.Compare(b.Wins, a.Wins), set.CompareValues(a.Value, b.Value))
		})
		for _, w := range values {
			list = append(list, *w)
		}
	}
	return list
}
