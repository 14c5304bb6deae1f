package calibration

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/format"
)

// Summary returns how far the instrument can be trusted, in short lines: how well it recovers
// delays, how often it reports a difference where there is none, and how often it finds one. It
// leaves out what was not measured.
func (d *Document) Summary() []string {
	return slices.Concat(d.delaySummary(), d.resolutionSummary(), d.falseSummary(),
		d.pairsSummary(), d.powerSummary())
}

func (d *Document) delaySummary() (lines []string) {
	count, within, bounded := 0, 0, 0
	largest, of := 0.0, 0.0
	low, high := math.Inf(1), math.Inf(-1)
	for i := range d.Recovery {
		r := &d.Recovery[i]
		if r.Quantity == quantityDelayed {
			low, high = min(low, r.Bias().Value), max(high, r.Bias().Value)
		}
		if r.Quantity != quantityDelay || r.Tolerance == 0 {
			continue
		}
		count++
		if r.Measured.Low != nil {
			bounded++
		}
		if r.Within {
			within++
		}
		if e := math.Abs(r.Bias().Value) / r.Known; e >= largest {
			largest, of = e, r.Known
		}
	}
	switch {
	case count > 0 && bounded == 0:
		lines = append(lines, fmt.Sprintf("injected delays in half of the calls: the largest "+
			"error is %s (of %s), but too few windows bound it", format.Share(largest),
			format.Time(of)))
	case count > 0:
		lines = append(lines, fmt.Sprintf("injected delays of %d ns or more in half of the "+
			"calls: %d of %d measured within %s or %d ns; the largest error is %s (of %s)",
			minPromised, within, count, format.Share(delayTolerance), minTolerance,
			format.Share(largest), format.Time(of)))
	}
	if low <= high {
		lines = append(lines, fmt.Sprintf(
			"injected delays of every call, between two configurations: off by %+.0f to %+.0f ns",
			low, high))
	}
	return lines
}

// compared describes what the methods of [FalseVerdicts] compare.
var compared = map[string]string{
	"diff":  "one configuration at two times, without a control (diff)", // one transport
	"along": "equal configurations in one set (diff --along)",
	"ab":    "equal configurations in turns (ab)",
}

func (d *Document) falseSummary() (lines []string) {
	for i, f := range slices.Backward(d.FalseVerdicts) { // diff last
		text := fmt.Sprintf("%s: %d of %d differ (%s)", cmp.Or(compared[f.Method], f.Method),
			f.False, f.Comparisons, f.Share.Interval())
		if i == len(d.FalseVerdicts)-1 {
			text += fmt.Sprintf("; by chance, %s may (alpha)", format.Share(d.Alpha))
		}
		if f.Method == "diff" && d.Drift != nil {
			text += fmt.Sprintf("; %s apart, the machine drifts: with a minimum effect of %s, at "+
				"most %s have a verdict", d.Drift.Apart(), format.Share(d.Drift.Limit),
				format.Share(d.Alpha))
		}
		lines = append(lines, text)
	}
	return lines
}

// powerSummary is about the change nearest to 5% of each class of operations, with the most repeats
// on quiet processors.
func (d *Document) powerSummary() (lines []string) {
	longest := map[string]Power{}
	for _, p := range d.Measured() {
		if !p.Loaded && len(p.Trials) > 0 && p.Repeats > longest[p.Class].Repeats {
			longest[p.Class] = p
		}
	}
	for _, class := range slices.Sorted(maps.Keys(longest)) {
		p := longest[class]
		t := slices.MinFunc(p.Trials, func(a, b Trials) int {
			return cmp.Compare(math.Abs(a.Known-0.05), math.Abs(b.Known-0.05))
		})
		lines = append(lines, fmt.Sprintf("operations over %s slower by %s, %d repeats in turns "+
			"(ab): detected in %d of %s (%s), called worse by more than %s in %d", class,
			format.Share(t.Known), p.Repeats, t.Found, format.Count(t.Count, "trial"),
			t.Share.Interval(), format.Share(compare.Defaults().Floor), t.Beyond))
	}
	if len(lines) == 0 && len(d.Power) > 0 {
		lines = []string{"this calibration measured the detection of small changes with padded " +
			"operations only, so it is not shown"}
	}
	return lines
}

func (d *Document) resolutionSummary() []string {
	r := &d.Resolution
	if len(r.Trials) == 0 {
		return nil
	}
	last := r.Trials[len(r.Trials)-1]
	switch {
	case r.Delay > 0:
		smallest, _ := smallestFound(r.Trials)
		return []string{fmt.Sprintf("the smallest delay that %d repeats detect: %s (%s)",
			r.Repeats, format.Time(r.Delay), smallest.counted())}
	case last.Count < fewestTrials:
		return []string{fmt.Sprintf("%s with %d repeats cannot show which delay is detectable",
			format.Count(last.Count, "trial"), r.Repeats)}
	}
	return []string{fmt.Sprintf(
		"no delay up to %s is detected in %s of the trials with %d repeats (the last %s)",
		format.Time(last.Known), format.Share(r.FoundShare), r.Repeats, last.counted())}
}

// counted describes how many found the change.
func (t Trials) counted() string {
	return fmt.Sprintf("in %d of %s, %s", t.Found, format.Count(t.Count, "trial"),
		t.Share.Interval())
}

// Interval formats the interval of a share.
func (e Estimate) Interval() string {
	if e.Low == nil || e.High == nil {
		return "no interval"
	}
	return strings.TrimSuffix(format.Share(*e.Low), "%") + " to " + format.Share(*e.High)
}
