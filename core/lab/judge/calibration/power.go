package calibration

import (
	"cmp"
	"fmt"
	"slices"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

const (
	// resolutionRepeats are the repeats of a comparison of the resolution.
	resolutionRepeats = 10
	// foundShare is the share of the trials that must find a change that counts as visible, and
	// fewestTrials the number of trials below which no share is trusted.
	foundShare   = 0.9
	fewestTrials = 10
)

var powerRepeats = []int{10, 20}

// resolution compares medians of the latency, which interruptions do not move: the exact mean of a
// window of 50 ms scatters by far more than the delays as soon as a thread loses its processor
// once. A median that moved by less than a step of the clock has no verdict, as in any comparison.
func (d *Document) resolution() (Resolution, error) {
	r := Resolution{Repeats: resolutionRepeats, FoundShare: foundShare, Trials: []Trials{}}
	e := d.experiment(ExperimentDelay)
	if e == nil {
		return r, nil
	}
	var err error
	if r.Trials, err = e.trials(resolutionRepeats, d.Alpha, result.LatencyP50); err != nil {
		return r, err
	}
	smallest, _ := smallestFound(r.Trials)
	r.Delay = smallest.Known
	return r, nil
}

// The classes of operations of which a calibration knows what is found.
const (
	classMemory  = "memory"
	classSockets = "sockets"
)

// classes has the class of operations of each experiment of power.
var classes = map[string]string{ExperimentMemory: classMemory, ExperimentSockets: classSockets,
	ExperimentMemoryLoaded: classMemory}

func (d *Document) power() ([]Power, error) {
	rows := []Power{}
	for _, name := range []string{ExperimentMemory, ExperimentSockets, ExperimentMemoryLoaded} {
		e := d.experiment(name)
		if e == nil {
			continue
		}
		for _, repeats := range powerRepeats {
			trials, err := e.trials(repeats, d.Alpha, compare.DefaultMetrics...)
			if err != nil {
				return nil, err
			}
			e.measureInjected(trials)
			if len(trials) > 0 {
				rows = append(rows, Power{Load: loadName(e.reference()), Class: classes[name],
					Loaded: e.Loaded, Repeats: repeats, Trials: trials})
			}
		}
	}
	return rows, nil
}

// measureInjected replaces what was to be injected by what all rounds of the experiment together
// show, and keeps the trials ascending.
func (e *Experiment) measureInjected(trials []Trials) {
	reference, states := e.reference(), state.NewClassifier(e.Set)
	for i := range trials {
		t := &trials[i]
		t.Sought = t.Known
		at := slices.Index(e.Known, t.Known)
		if ratio, _, ok := throughputRatio(&e.Set.Cells[at], reference, states); ok {
			t.Known = ratio.Value - 1
		}
	}
	slices.SortStableFunc(trials, func(a, b Trials) int { return cmp.Compare(a.Known, b.Known) })
}

// Measured returns the rows of the power of operations that were not padded.
func (d *Document) Measured() (rows []Power) {
	for _, p := range d.Power {
		if p.Class != "" {
			rows = append(rows, p)
		}
	}
	return rows
}

// loadName describes what a cell measures, without what was injected.
func loadName(c *set.Cell) string {
	name := fmt.Sprintf("%s, %s in flight", c.Config["profile"], c.Config["in_flight"])
	if delay := c.Config["options.delay"]; durationOf(c, "delay") > 0 {
		name += ", delay " + delay
	}
	return name
}

// trials cuts e into comparisons of so many consecutive rounds, and counts for each known change
// those that found it: that it makes any of the metrics worse, at all and by more than the
// minimum effect. There are none if e is too short for one, or has no reference.
func (e *Experiment) trials(repeats int, alpha float64, metrics ...string) ([]Trials, error) {
	reference := e.reference()
	rows := []Trials{}
	count := e.rounds() / repeats
	if reference == nil || count == 0 {
		return rows, nil
	}
	called := compare.Defaults()
	called.Alpha, called.Metrics = alpha, metrics
	told := called
	told.Floor = 0
	for i, known := range e.Known {
		c := &e.Set.Cells[i]
		if known == 0 || !slices.ContainsFunc(metrics,
			func(m string) bool { return len(c.Samples[m]) > 0 && len(reference.Samples[m]) > 0 }) {
			continue
		}
		t := Trials{Known: known, Count: count}
		for n := range count {
			a, b := e.setOf(cut(reference, n*repeats, repeats)), e.setOf(cut(c, n*repeats, repeats))
			report, err := compare.Pairwise(a, b, told)
			if err != nil {
				return nil, err
			}
			t.Found += min(report.Count(compare.Worse), 1)
			t.Wrong += min(report.Count(compare.Better), 1)
			if report, err = compare.Pairwise(a, b, called); err != nil {
				return nil, err
			}
			t.Beyond += min(report.Count(compare.Worse), 1)
		}
		t.Share = binomial(t.Found, t.Count)
		rows = append(rows, t)
	}
	slices.SortFunc(rows, func(a, b Trials) int { return cmp.Compare(a.Known, b.Known) })
	return rows, nil
}

// smallestFound returns the trials of the smallest change that was found in at least foundShare of
// them, as was every larger one. ok is false if none was, or if there are too few trials. trials
// ascend.
func smallestFound(trials []Trials) (smallest Trials, ok bool) {
	for _, t := range slices.Backward(trials) {
		if t.Count < fewestTrials || t.Share.Value < foundShare {
			break
		}
		smallest, ok = t, true
	}
	return smallest, ok
}
