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

// Summary returns how far the instrument can be trusted, in one line each: how well it recovers
// delays, how often it reports a difference where there is none, how often it finds one, and the
// smallest delay that it sees. It leaves out what was not measured.
func (d *Document) Summary() []string {
	var lines []string
	for _, line := range []string{d.delaySummary(), d.falseSummary(), d.pairsSummary(),
		d.powerSummary(), d.resolutionSummary()} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func (d *Document) delaySummary() string {
	count, within, bounded := 0, 0, 0
	largest, of := 0.0, 0.0
	for i := range d.Recovery {
		r := &d.Recovery[i]
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
	case count == 0:
		return ""
	case bounded == 0:
		return fmt.Sprintf(
			"the largest error of a recovered delay is %s (of %s), but too few windows bound it",
			format.Share(largest), format.Time(of))
	}
	return fmt.Sprintf("injected delays of %d ns or more, in half of the calls: %d of %d "+
		"recovered within %s or %d ns; the largest error is %s (of %s)"+d.delayedSummary(),
		minPromised, within, count, format.Share(delayTolerance), minTolerance,
		format.Share(largest), format.Time(of))
}

// delayedSummary goes on with what delays of every call show.
func (d *Document) delayedSummary() string {
	low, high := math.Inf(1), math.Inf(-1)
	for i := range d.Recovery {
		if r := &d.Recovery[i]; r.Quantity == quantityDelayed {
			low, high = min(low, r.Bias().Value), max(high, r.Bias().Value)
		}
	}
	if low > high {
		return ""
	}
	return fmt.Sprintf(
		"; a delay of every call, compared between two configurations, is off by %+.0f to %+.0f ns",
		low, high)
}

func (d *Document) falseSummary() string {
	var parts []string
	for _, f := range d.FalseVerdicts {
		method := f.Method
		if method == "diff" { // the sets have one transport
			method = "diff without a control"
		}
		parts = append(parts, fmt.Sprintf("%s %d of %d (%s)", method, f.False, f.Comparisons,
			f.Share.Interval()))
	}
	if len(parts) == 0 {
		return ""
	}
	text := fmt.Sprintf("false differences between equal configurations, at alpha %s: %s",
		format.Share(d.Alpha), strings.Join(parts, ", "))
	if d.Drift != nil {
		text += fmt.Sprintf(
			"; the sets of diff were measured %s apart, and %s of them differ by no more than %s",
			d.Drift.Apart(), format.Share(1-d.Alpha), format.Share(d.Drift.Limit))
	}
	return text
}

// powerSummary is about the change nearest to 5% of each class of operations, with the most repeats
// on quiet processors.
func (d *Document) powerSummary() string {
	longest := map[string]Power{}
	for _, p := range d.Measured() {
		if !p.Loaded && len(p.Trials) > 0 && p.Repeats > longest[p.Class].Repeats {
			longest[p.Class] = p
		}
	}
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(longest)) {
		p := longest[class]
		t := slices.MinFunc(p.Trials, func(a, b Trials) int {
			return cmp.Compare(math.Abs(a.Known-0.05), math.Abs(b.Known-0.05))
		})
		parts = append(parts, fmt.Sprintf("over %s with %d repeats, a change of %s is detected "+
			"in %d of %s (%s), and called worse against the default minimum effect of %s in %d",
			class, p.Repeats, format.Share(t.Known), t.Found, format.Count(t.Count, "trial"),
			t.Share.Interval(), format.Share(compare.Defaults().Floor), t.Beyond))
	}
	switch {
	case len(parts) > 0:
		return "measured in turns, as ab does: " + strings.Join(parts, "; ")
	case len(d.Power) > 0:
		return "this calibration measured the detection of small changes with padded operations " +
			"only, so it is not shown"
	}
	return ""
}

func (d *Document) resolutionSummary() string {
	r := &d.Resolution
	if len(r.Trials) == 0 {
		return ""
	}
	last := r.Trials[len(r.Trials)-1]
	switch {
	case r.Delay > 0:
		smallest, _ := smallestFound(r.Trials)
		return fmt.Sprintf("the smallest detectable delay with %d repeats is %s (%s)",
			r.Repeats, format.Time(r.Delay), smallest.counted())
	case last.Count < fewestTrials:
		return fmt.Sprintf("%s with %d repeats cannot show which delay is detectable",
			format.Count(last.Count, "trial"), r.Repeats)
	}
	return fmt.Sprintf(
		"no delay up to %s is detected in %s of the trials with %d repeats (the last %s)",
		format.Time(last.Known), format.Share(r.FoundShare), r.Repeats, last.counted())
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
