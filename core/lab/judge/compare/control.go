package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/parallel"
	"transportbench/core/base/record"
	"transportbench/core/lab/judge/compare/control"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Control is how much of a change the machine made, by the other transports of both sets.
type Control struct {
	// Raw is the change with the movement of the machine, as a share, and Machine that movement:
	// 1+Raw is (1+Machine) times (1+Change).
	Raw     float64 `json:"raw"`
	Machine float64 `json:"machine"`
	// Spread is the standard deviation of the logarithms of such changes that no transport caused:
	// of the residuals of the other transports beyond their errors.
	Spread float64 `json:"spread"`
	// Others counts the other transports that are the control.
	Others int `json:"others"`
	// Reference is set if they are too few, and the reference of both sets is the control instead.
	Reference bool `json:"reference,omitempty"`

	peer bool // the transport is itself a part of the control of others
}

// roundsApart is how many rounds a window of the control may be away: windows of a round may be in
// different states.
const roundsApart = 2

// controls are what the changes of one comparison have in common.
type controls struct {
	states state.Classifier
	// peers has the pairs of each load by transport, of the transports that are the control.
	peers map[string]map[string][]pair
	loads func(pair) string
	// reference is that of both sets, if they have one.
	reference []pair
	// none is why no change has a control; empty if some may.
	none string
	// transports are all that were compared, and unchanged those that have the same program or the
	// same sources on both sides.
	unchanged, transports []string
}

// newControls finds the pairs that are each other's control. Loads are told apart without what
// transports set themselves: levels do not matter, only how they move.
func newControls(old, new *set.Set, pairs []pair, states state.Classifier, none string) *controls {
	drop := TransportOptions(new)
	c := &controls{states: states, peers: map[string]map[string][]pair{}, none: none,
		loads: func(p pair) string { return p.new.Key(drop...) }}
	for i := range min(len(old.Reference), len(new.Reference), 1) {
		c.reference = []pair{{old: &old.Reference[i], new: &new.Reference[i]}}
	}
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool {
		why, _ := unusable(p)
		return why != "" || p.old.Status != set.Measured || p.new.Status != set.Measured ||
			p.ratesDiffer()
	})
	c.unchanged, c.transports = unchanged(pairs)
	alone := c.alone()
	for _, p := range pairs {
		if alone && !slices.Contains(c.unchanged, p.new.Transport()) {
			continue
		}
		load := c.loads(p)
		if c.peers[load] == nil {
			c.peers[load] = map[string][]pair{}
		}
		c.peers[load][p.new.Transport()] = append(c.peers[load][p.new.Transport()], p)
	}
	return c
}

// unchanged returns the transports of pairs, and those of them that have the same program or the
// same sources in each pair. Results before 0.10 have no digest of the sources.
func unchanged(pairs []pair) (same, all []string) {
	changed := map[string]bool{}
	for _, p := range pairs {
		a, b, name := p.old.Plugin, p.new.Plugin, p.new.Transport()
		all = appendNew(all, name)
		changed[name] = changed[name] || (a.SHA256 == "" || a.SHA256 != b.SHA256) &&
			(a.Sources == "" || a.Sources != b.Sources)
	}
	same = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return changed[name] })
	return same, all
}

// alone reports whether the transports that did not change are the control without the others: each
// of them has enough others, too.
func (c *controls) alone() bool {
	return len(c.unchanged) > control.Fewest && len(c.unchanged) < len(c.transports)
}

// note says which transports are the control, if not all are.
func (c *controls) note() string {
	if c == nil || c.none != "" || !c.alone() {
		return ""
	}
	return fmt.Sprintf("%d of %d transports have the same sources: they are the control (%s)",
		len(c.unchanged), len(c.transports), strings.Join(c.unchanged, ", "))
}

// TransportOptions returns the options of a set that do not belong to a load: the transport, its
// own options, the track, and what the track sets.
func TransportOptions(s *set.Set) []string {
	return append(dropped(s, "transport"), dropped(s, trackOption)...)
}

// controlled is a pair's metric without the movement of the machine.
type controlled struct {
	a, b      sample
	others    int
	reference bool
	// peer is set if the transport of the pair is itself a part of the control of others.
	peer bool
}

// of returns a pair's samples of a metric without the movement of the machine, or why there is no
// control for them.
func (c *controls) of(p pair, metric string, a, b sample) (adjusted controlled, why string) {
	if c.none != "" {
		return controlled{}, c.none
	}
	var old, new [][]control.Series // by transport, then by cell
	add := func(peers []pair) {
		var before, after []control.Series
		for _, peer := range peers {
			x, y := c.series(peer, metric)
			if len(x) > 0 && len(y) > 0 {
				before, after = append(before, x), append(after, y)
			}
		}
		if len(before) > 0 {
			old, new = append(old, before), append(new, after)
		}
	}
	for transport, peers := range c.peers[c.loads(p)] {
		if transport != p.new.Transport() {
			add(peers)
		}
	}
	fewest := control.Fewest
	if len(old) < fewest {
		old, new, fewest = nil, nil, 1
		add(c.reference)
	}
	if len(old) == 0 {
		if c.measured(p) || len(c.reference) > 0 {
			return controlled{}, unseenMovement
		}
		return controlled{}, fmt.Sprintf("fewer than %d other transports under the same load, and "+
			"no reference", control.Fewest)
	}
	adjusted = controlled{a: c.without(a, old, fewest), b: c.without(b, new, fewest),
		others: len(old), reference: fewest == 1,
		peer: len(c.peers[c.loads(p)][p.new.Transport()]) > 0}
	if 2*len(adjusted.a.values) < len(a.values) || 2*len(adjusted.b.values) < len(b.values) {
		return controlled{}, unseenMovement
	}
	return adjusted, ""
}

// unseenMovement is why a change has no verdict although there are enough other transports. So it
// is where others disturbed all windows of transports that poll, but not those of one that sleeps:
// without a control, equal sets of a quiet and of a busy machine differ by a factor of two.
const unseenMovement = "too few windows of other transports in the same rounds and states of the " +
	"machine"

// measured reports whether enough other transports were measured under the load of a pair.
func (c *controls) measured(p pair) bool {
	peers := c.peers[c.loads(p)]
	others := len(peers)
	if len(peers[p.new.Transport()]) > 0 {
		others--
	}
	return others >= control.Fewest
}

// series returns the windows of a metric of both sides of a pair, relative to the level of both in
// each state. Windows in states that only one side has are left out.
func (c *controls) series(p pair, metric string) (old, new control.Series) {
	a, b := newSample(p.old, metric), newSample(p.new, metric)
	if !positive(a.values) || !positive(b.values) || p.otherMeaning(metric) {
		return nil, nil
	}
	before, after := a.logsByState(c.states), b.logsByState(c.states)
	of := func(s sample) (list control.Series) {
		for i, w := range s.windows {
			state := s.state(i, c.states)
			if len(before[state]) > 0 && len(after[state]) > 0 {
				level := (record.Median(before[state]) + record.Median(after[state])) / 2
				list = append(list, control.Point{At: w.StartedAt, State: state,
					Deviation: math.Log(s.values[i]) - level})
			}
		}
		return list
	}
	return of(a), of(b)
}

// logsByState returns the logarithms of the values in each state.
func (s sample) logsByState(states state.Classifier) map[string][]float64 {
	by := map[string][]float64{}
	for i, v := range s.values {
		by[s.state(i, states)] = append(by[s.state(i, states)], math.Log(v))
	}
	return by
}

// without returns a sample without the movement of the machine. Values of windows that have no
// control are left out.
func (c *controls) without(s sample, others [][]control.Series, fewest int) (adjusted sample) {
	reach := roundsApart * s.round()
	for i, w := range s.windows {
		moved, ok := control.Movement(others, w.StartedAt, s.state(i, c.states), reach,
			fewest)
		if ok {
			adjusted.values = append(adjusted.values, s.values[i]/math.Exp(moved))
			adjusted.windows = append(adjusted.windows, w)
		}
	}
	return adjusted
}

// round returns the median time from one window to the next.
func (s sample) round() time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(s.windows); i++ {
		gaps = append(gaps, s.windows[i].StartedAt.Sub(s.windows[i-1].StartedAt))
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// spread sets the spread of every controlled change, from the residuals of the same metric, and
// withholds verdicts where the machine moved too far.
func spread(changes []Change) {
	residuals := map[string][]control.Residual{} // by metric
	for i := range changes {
		c := &changes[i]
		if c.Control == nil || !c.Control.peer || len(c.blocks) == 0 {
			continue
		}
		if se, ok := c.standardError(); ok {
			residuals[c.Metric] = append(residuals[c.Metric],
				control.Residual{Transport: c.Transport, Change: math.Log1p(*c.Change), Error: se})
		}
	}
	_ = parallel.Each(len(changes), func(i int) error {
		c := &changes[i]
		if c.Control == nil {
			return nil
		}
		c.observations.spread = control.SpreadWithout(c.Transport, residuals[c.Metric])
		if c.Control.Reference {
			c.observations.spread = c.observations.spread.AtLeast(math.Log1p(c.Control.Machine))
		}
		c.Control.Spread = c.observations.spread.Tau
		if c.Control.movedTooFar() {
			c.withhold(movedTooFar)
		}
		return nil
	})
}

// Readout describes a change with the movement of the machine in it, and without; it is empty if
// there is no control.
func (c *Change) Readout() string {
	if c.Control == nil {
		return ""
	}
	text := fmt.Sprintf("raw %s; the machine moved %s; own change %s",
		format.Percent(&c.Control.Raw), format.Percent(&c.Control.Machine),
		format.Percent(c.Change))
	if c.Low != nil {
		text += " (" + format.Percents(c.Low, c.High) + ")"
	}
	return text
}

// Controlled reports whether any change has a control.
func (r *Report) Controlled() bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Control != nil })
}

var movedTooFar = fmt.Sprintf("the machine moved by more than %.0f%% between the sets",
	100*control.MaxMovement)

// withhold leaves a change without a verdict, unless there is none anyway.
func (c *Change) withhold(why string) {
	if c.Verdict == "" {
		c.Verdict, c.withheld = Ambiguous, why
	}
}

// Withheld returns why the change has no verdict because of what the machine did between the sets;
// it is empty if it may have one.
func (c *Change) Withheld() string { return c.withheld }

// Claim returns the smallest minimum effect, as a share, with which no change would have a verdict.
func (r *Report) Claim() (claim float64) {
	for _, list := range [][]Change{r.Transports, r.Changes} {
		for i := range list {
			if c := &list[i]; c.PHolm != nil {
				_, low, high := c.observations.interval(r.level(list))
				claim = max(claim, low-1, 1-high)
			}
		}
	}
	return min(claim, 1)
}

// controlNotes says how far the machine moved in each metric, and which changes have no control.
func (r *Report) controlNotes(o Options) (notes []string) {
	movements, spreads := map[string][]float64{}, map[string][]float64{}
	without := map[string]int{}
	var reasons []string
	for i := range r.Changes {
		switch c := &r.Changes[i]; {
		case c.Control != nil:
			movements[c.Metric] = append(movements[c.Metric], math.Log1p(c.Control.Machine))
			spreads[c.Metric] = append(spreads[c.Metric], c.Control.Spread)
		case c.Uncontrolled != "":
			if without[c.Uncontrolled]++; without[c.Uncontrolled] == 1 {
				reasons = append(reasons, c.Uncontrolled)
			}
		}
	}
	var moved []string
	for _, metric := range o.Metrics {
		if len(movements[metric]) == 0 {
			continue
		}
		by := math.Expm1(record.Median(movements[metric]))
		moved = append(moved, fmt.Sprintf("%s by %s (transports follow within %s)", metric,
			format.Percent(&by), format.Share(math.Expm1(record.Median(spreads[metric])))))
	}
	if len(moved) > 0 {
		notes = append(notes, "the machine moved between the sets, by the median of the other "+
			"transports under each load, or by the reference: "+strings.Join(moved, ", "))
	}
	for _, reason := range reasons {
		note := fmt.Sprintf("no control for %s, because of %s",
			format.Count(without[reason], "change"), reason)
		if reason == unseenMovement {
			note += ": they have no verdict"
		} else if o.DriftFrom != "" {
			note += "; the minimum effect there: " + format.Share(max(r.Floor, o.Drift)) +
				", " + o.DriftFrom
		}
		notes = append(notes, note)
	}
	return notes
}

// movedTogether says in which metrics most changes have a movement of the machine beyond the
// minimum effect, all in one direction, if the runtime or the tool differs between the sides; else
// it returns "". A change of what all transports share looks like that, too.
func (r *Report) movedTogether(o Options) string {
	apart := func(a, b []string) bool { // both are known
		return len(a) > 0 && len(b) > 0 && !slices.Equal(a, b)
	}
	differs := ""
	switch a, b := r.OldSide, r.NewSide; {
	case r.Runtime != nil:
		differs = "the runtime"
	case apart(a.Versions, b.Versions):
		differs = "the version"
	case apart(a.Revisions, b.Revisions):
		differs = "the revision"
	default:
		return ""
	}
	var moved []string
	for _, metric := range o.Metrics {
		var all, up, down []float64
		for i := range r.Changes {
			c := &r.Changes[i]
			if c.Metric != metric || c.Control == nil || c.Control.Reference {
				continue
			}
			by := c.Control.Machine
			if all = append(all, by); by > c.minChange() {
				up = append(up, by)
			} else if by < -c.minChange() {
				down = append(down, by)
			}
		}
		if 2*max(len(up), len(down)) > len(all) {
			by := record.Median(all)
			moved = append(moved, metric+" by "+format.Percent(&by))
		}
	}
	if len(moved) == 0 {
		return ""
	}
	return fmt.Sprintf("most transports moved together (%s) and %s differs: these sets cannot "+
		"tell a change of what transports share from one of the machine",
		strings.Join(moved, ", "), differs)
}

// otherMachines is why sets of several machines have no control.
const otherMachines = "different machines"

// FairerInTurns reports whether a change may be the machine's, which sides that are measured in
// turns would show.
func (c *Change) FairerInTurns() bool {
	return c.Control != nil || c.withheld != "" ||
		c.Uncontrolled != "" && c.Uncontrolled != otherMachines
}

// Bridge is the command that compares two versions without the movement of the machine: it measures
// the plugins of both in turns.
const Bridge = "ab --a plugin-dir=OLD --b plugin-dir=NEW"

// maxDisturbed is the share of the time that processors were taken away above which two sets are
// judged by p50: that moves throughput by as much, and the median of the latency hardly.
const maxDisturbed = 0.02

// disturbance returns the share of the time that steal and preemption took from a cell.
func disturbance(c *set.Cell) (share float64) {
	if steal := c.Samples[result.Steal]; len(steal) > 0 {
		share = record.Median(steal)
	}
	for _, w := range c.Warnings {
		if w.Name == "preempted" {
			share += w.Value
		}
	}
	return share
}

// withholdForDisturbance makes a change of a throughput ambiguous if a side was disturbed and the
// median latency is judged, too.
func (c *Change) withholdForDisturbance(p pair, o Options) {
	by := max(disturbance(p.old), disturbance(p.new))
	if c.Verdict != "" || c.Unit != result.Define(result.Throughput).Unit || by <= maxDisturbed ||
		!slices.Contains(o.Metrics, result.LatencyP50) ||
		len(p.old.Samples[result.LatencyP50]) == 0 || len(p.new.Samples[result.LatencyP50]) == 0 {
		return
	}
	c.Verdict = Ambiguous
	c.AddNote(fmt.Sprintf("steal and preemption took %s of the time: judge by %s",
		format.Share(by), result.LatencyP50))
}

// movedTooFar reports whether the machine moved by so much that there is no verdict.
func (c *Control) movedTooFar() bool {
	return math.Abs(math.Log1p(c.Machine)) > math.Log1p(control.MaxMovement)
}
