package runner

import (
	"fmt"
	"slices"

	"transportbench/core/lab/result"
)

// beaten is the ratio to a floor below which a transport is faster than its medium can be. What is
// above it may be the spread of the probe.
const beaten = 0.95

// checkFloorBeaten counts the windows in which the transport was faster than the floor of its
// medium: the probe then did not measure the floor of that window, and the ratio means nothing. With
// one call in flight, only the floor of a round trip is judged.
func checkFloorBeaten(e evidence) finding {
	f := finding{limit: 0.1}
	if c := &e.result.Config; c.Proxied() && c.RemoteShare != 1 {
		return f.notJudged("requests to a client's own rank do not cross the medium")
	}
	windows, below, steady, lowest := 0.0, 0.0, 0.0, 1.0
	for i := range e.result.Repeats {
		r := &e.result.Repeats[i]
		low, probed := 1.0, false
		for _, name := range []string{ // a repeat has one, or one for each kind of pair
			result.FloorRatio, result.OpTimeRatio, result.FloorRatio + result.WithinMachine, result.FloorRatio + result.BetweenMachines,
		} {
			if ratio, has := r.Samples[name]; has {
				probed = true
				low = min(low, ratio)
			}
		}
		if !probed {
			continue
		}
		windows++
		lowest = min(lowest, low)
		if low < beaten {
			below++
			if steadyBounces(r) {
				steady++
			}
		}
	}
	if windows == 0 {
		return f.notJudged("no floor was measured")
	}
	f.value = below / windows
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("in %.0f of %.0f windows the transport was faster than the floor of its medium", below, windows)
	if !f.ok {
		cause := "the probes were disturbed, or saw another state of the machine than the windows"
		if steady == below {
			cause = "the bounces show one state of the machine, so the probes were disturbed or do not reach what the medium can do"
		}
		f.message += fmt.Sprintf(", by %s at most: %s; ratios to the floor may be that much low", percent(1-lowest), cause)
	}
	return f
}

// checkProbes counts the probes that failed and were taken again, and finds sides of windows on which
// they were given up, so that floors or bounces are missing.
func checkProbes(e evidence) finding {
	f := finding{ok: true, message: "no probe failed"}
	again, last := 0, ""
	for i := range e.result.Repeats {
		r := &e.result.Repeats[i]
		for _, failure := range slices.Concat(r.Before.Failures, r.After.Failures) {
			last = fmt.Sprintf("the %s probe between %v and %v: %s", failure.Kind, failure.Caller, failure.Daemon, failure.Error)
			again += failure.Times
			if failure.GivenUp {
				f.value++
				again--
			}
		}
	}
	if again > 0 {
		f.message = fmt.Sprintf("%d probes failed and were taken again; %s", again, last)
	}
	if f.ok = f.value == 0; !f.ok {
		f.message = fmt.Sprintf("on %.0f sides of windows, the probes were given up, so their floors are missing; %s", f.value, last)
	}
	return f
}
