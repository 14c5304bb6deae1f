package runner

import (
	"fmt"
	"strconv"

	"transportbench/core/base/config"
	"transportbench/core/lab/result"
)

// The checks in this file ask whether the machine disturbed the measurement.

// checkFloorStable counts the repeats whose floor changed from before the window to after it.
func checkFloorStable(e evidence) finding {
	const most = 1.3
	moved, probed, worst := 0, 0, 1.0
	for _, r := range e.result.Repeats {
		if r.Before.Medium == nil || r.After.Medium == nil {
			continue
		}
		probed++
		a, b := r.Before.Medium.RoundTrip, r.After.Medium.RoundTrip
		ratio := max(a, b) / min(a, b)
		worst = max(worst, ratio)
		if !(ratio <= most) {
			moved++
		}
	}
	f := finding{ok: moved == 0, value: float64(moved)}
	switch {
	case probed == 0:
		f.message = "no floor was measured: this transport has no probe"
	case f.ok:
		f.message = fmt.Sprintf("the floor changed by at most %.2fx around a window", worst)
	default:
		f.message = fmt.Sprintf("the floor changed by more than %gx (up to %.2fx) around %d of %d windows; compare only ratios to it, or repeat on a quieter machine",
			most, worst, moved, probed)
	}
	return f
}

// checkFairness judges the worst repeat.
func checkFairness(e evidence) finding {
	f := finding{value: 1, limit: 0.5}
	for i := range e.result.Repeats {
		f.value = min(f.value, fairness(e.result.Repeats[i].Clients()))
	}
	f.ok = f.value >= f.limit
	f.message = fmt.Sprintf("the slowest client has %.2f of the median client's rate or more", f.value)
	if !f.ok {
		f.message = fmt.Sprintf("a client has only %.2f of the median client's rate", f.value)
	}
	return f
}

func checkCollections(e evidence) finding {
	collections, windows := uint64(0), 0
	for _, r := range e.result.Repeats {
		for _, report := range r.Ranks {
			if report.Process.Collections > 0 {
				collections += report.Process.Collections
				windows++
			}
		}
	}
	if collections > 0 {
		return finding{value: float64(collections), message: fmt.Sprintf(
			"the garbage collector ran %d times in %d windows; it stops a polling thread for milliseconds", collections, windows)}
	}
	return finding{ok: true, message: "the garbage collector did not run in any window"}
}

// checkInvoluntarySwitches finds polling threads that lost their processor. The kernel counts a
// yield as an involuntary switch, so threads that yield cannot be judged.
func checkInvoluntarySwitches(e evidence) finding {
	f := finding{limit: 100}
	for _, p := range e.result.Placement {
		if p.Idle == config.IdleYield {
			return f.notJudged("the threads yield, which the kernel counts as involuntary")
		}
	}
	if e.oversubscribed {
		return f.notJudged("the threads share processors and preempt each other")
	}
	for _, t := range e.threads() {
		f.value = max(f.value, result.PerSecond(t.Involuntary, t.elapsedNS))
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("a polling thread lost its processor up to %.0f times a second", f.value)
	switch {
	case f.ok:
	case e.pollers >= e.cpus:
		f.message += "; no processor is left for the control threads and other programs"
	default:
		f.message += "; another program runs there"
	}
	return f
}

func checkOversubscribed(e evidence) finding {
	f := finding{
		ok:    !e.oversubscribed,
		value: float64(e.pollers), limit: float64(e.cpus),
		message: fmt.Sprintf("%d polling threads have %d processors", e.pollers, e.cpus),
	}
	if !f.ok {
		f.message += "; latencies include the time that a thread waits for one"
	}
	return f
}

// checkPinned counts the threads that may move between processors, by the affinity that the kernel
// reported.
func checkPinned(e evidence) finding {
	unpinned := 0 // in the launch that has most
	for _, l := range e.launches() {
		count := 0
		for _, p := range l.Placement {
			for t, cpu := range p.CPUs {
				if cpu < 0 || t >= len(p.Affinity) || p.Affinity[t] != strconv.Itoa(cpu) {
					count++
				}
			}
		}
		unpinned = max(unpinned, count)
	}
	f := finding{ok: unpinned == 0, value: float64(unpinned)}
	switch {
	case f.ok:
		f.message = "every polling thread is pinned to its processor"
	case !e.result.Config.Pin:
		f.message = "the polling threads are not pinned, as configured, and may move during a window"
	default:
		f.message = fmt.Sprintf("%d of %d polling threads are not pinned to their processors; does a cpuset restrict them?", unpinned, e.pollers)
	}
	return f
}

// checkClosed finds ranks that measured, but then failed to close.
func checkClosed(e evidence) finding {
	f := finding{ok: true, message: "every rank closed in time"}
	for _, err := range e.closing {
		if err != nil {
			f.ok, f.message = false, err.Error() // the last one represents all
			f.value++
		}
	}
	if f.ok && e.result.Incomplete {
		return f.notJudged("the run ended early")
	}
	return f
}
