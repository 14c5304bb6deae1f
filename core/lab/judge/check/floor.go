package check

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// beaten is the ratio to a floor below which a transport is faster than its medium can be. What is
// above it may be the spread of the probe.
const beaten = 0.95

// checkFloorBeaten counts the windows in which the transport was faster than the floor of its
// medium: the probe then did not measure the floor of that window, and the ratio means nothing.
// With one call in flight, only the floor of a round trip is judged.
func checkFloorBeaten(e Evidence) result.Finding {
	if why := incomparable(&e.Result.Config); why != "" {
		return notJudged(result.Finding{Limit: maxBeaten}, "%s", why)
	}
	var windows []floorWindow
	for i := range e.Result.Repeats {
		r := &e.Result.Repeats[i]
		windows = addFloor(windows, r.SteadyDistance(), func(metric string) (float64, bool) {
			ratio, has := r.Samples[metric]
			return ratio, has
		})
	}
	if len(windows) == 0 {
		return notJudged(result.Finding{Limit: maxBeaten}, "%s", e.missingFloor())
	}
	return floorBeaten(windows)
}

// JudgeFloor applies the check of floors again, to the windows that a cell has: some of those that
// were measured.
func JudgeFloor(c *set.Cell) {
	if c.Run == nil || incomparable(c.Run) != "" {
		return
	}
	var windows []floorWindow
	for i, w := range c.Windows {
		steady := w.DistanceBefore > 0 && w.DistanceAfter > 0 &&
			!result.OtherState(w.DistanceBefore, w.DistanceAfter)
		windows = addFloor(windows, steady, func(metric string) (float64, bool) {
			return c.Sample(metric, i)
		})
	}
	c.Warnings = slices.DeleteFunc(slices.Clone(c.Warnings),
		func(w result.Finding) bool { return w.Name == set.FloorBeaten })
	if len(windows) == 0 {
		return
	}
	if f := floorBeaten(windows); !f.OK {
		f.Name, f.Severity = set.FloorBeaten, result.Warning
		c.Warnings = append(c.Warnings, f)
	}
}

// incomparable returns why a transport may be faster than the floor of its medium, or "".
func incomparable(c *config.Config) string {
	if c.Proxied() && c.RemoteShare != 1 {
		return "requests to a client's own rank do not cross the medium"
	}
	// Probes wait differently for a lost packet than a transport does.
	if n := c.Network.Impairments(); n.Loss > 0 || n.Reorder > 0 || n.Jitter > 0 {
		return "the network loses, delays or reorders packets at random, those of the probes too"
	}
	return ""
}

type floorWindow struct {
	ratio  float64 // the least to a floor
	steady bool    // the core distances around the window agree
}

// addFloor adds a window if it has a floor: one, or one for each kind of pair.
func addFloor(windows []floorWindow, steady bool,
	of func(metric string) (ratio float64, has bool)) []floorWindow {
	w, probed := floorWindow{math.Inf(1), steady}, false
	for _, name := range result.RatiosToFloor {
		if ratio, has := of(name); has {
			w.ratio, probed = min(w.ratio, ratio), true
		}
	}
	if !probed {
		return windows
	}
	return append(windows, w)
}

// maxBeaten is the share of the windows in which a transport may be faster than its floor.
const maxBeaten = 0.1

// floorBeaten judges windows with a floor, of which there must be one.
func floorBeaten(windows []floorWindow) result.Finding {
	below, steady, lowest := 0, 0, 1.0
	for _, w := range windows {
		lowest = min(lowest, w.ratio)
		if w.ratio < beaten {
			below++
			if w.steady {
				steady++
			}
		}
	}
	f := result.Finding{Limit: maxBeaten, Value: float64(below) / float64(len(windows))}
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf(
		"in %d of %d windows the transport was faster than the floor of its medium",
		below, len(windows))
	if !f.OK {
		cause := "the probes were disturbed, or saw another state of the machine than the windows"
		if steady == below {
			cause = "the core distances show one state of the machine, so the probes were " +
				"disturbed or do not reach what the medium can do"
		}
		f.Message += fmt.Sprintf(", by %s at most: %s; ", percent(1-lowest), cause) +
			say(&f.Effect, "ratios to the floor may be that much low")
	}
	return f
}

// missingFloor returns the reason why no window has a ratio to a floor.
func (e Evidence) missingFloor() string {
	has := func(metric string) bool {
		return slices.ContainsFunc(e.Result.Repeats,
			func(r result.Repeat) bool { return r.Samples[metric] > 0 })
	}
	switch roundTrip, rate := has(result.Floor), has(result.RateFloor); {
	case rate && e.Result.Config.CallsPerPair() > 1:
		return "an open loop takes as long for an operation as its schedule says, whatever " +
			"the floor"
	case rate:
		return "the floor of a round trip was not measured, and that of a rate does not compare " +
			"with one call in flight"
	case roundTrip:
		return "the rate floor was not measured, and the floor of a round trip does not compare " +
			"with several calls in flight"
	}
	return "no floor was measured"
}

// impossible is the share of the bare medium's time below which no window of large values can be
// that has one stream, as the probes have. What disturbs them does not double their time in all
// windows of a run.
const impossible = 0.5

// minCeilingSize is the size in bytes from which on a transport cannot win by moving several values
// at once.
const minCeilingSize = 64 << 10

// checkCeiling finds large values that moved faster than what is under the transport can move
// bytes, so that not all were moved, or not in that time. Memory is left out: there a value may be
// handed over.
func checkCeiling(e Evidence) result.Finding {
	streams, known := e.streams()
	f := result.Finding{Limit: impossible / streams}
	c := &e.Result.Config
	switch {
	case c.ValueSize.Min() < minCeilingSize:
		return notJudged(f, "values below %s may move several at once",
			transport.FormatSize(minCeilingSize))
	case !known:
		return notJudged(f, "values need not move in memory, or what carries them is not known")
	case c.Proxied() && c.RemoteShare != 1:
		return notJudged(f, "requests to a client's own rank do not cross the medium")
	}
	windows := 0
	for i := range e.Result.Repeats {
		samples := e.Result.Repeats[i].Samples
		share, probed := samples[result.OpTimeRatio]
		if floor := samples[result.Floor]; !probed && floor > 0 {
			share, probed = samples[result.LatencyMean]/floor, true
		}
		if probed {
			windows++
			f.Value = max(f.Value, share)
		}
	}
	if windows == 0 {
		return notJudged(f, "no floor was measured")
	}
	f.OK = f.Value >= f.Limit
	f.Message = fmt.Sprintf(
		"values took up to %.2f of the time that the bare medium takes for their bytes", f.Value)
	if !f.OK {
		f.Message += fmt.Sprintf(", in the slowest of %s: not all were moved, or not in that time",
			format.Count(windows, "window"))
	}
	return f
}

// streams returns how many TCP connections a rank has with another, and 1 if other paths carry its
// bytes. They are not known unless every path goes through the kernel or a device.
func (e Evidence) streams() (perConnection float64, known bool) {
	perConnection = 1
	for _, launch := range e.starts() {
		for i := range launch.Setup.Ranks {
			s := &launch.Setup.Ranks[i]
			sockets := 0
			for _, p := range s.Paths {
				switch known = true; p.Carrier {
				case transport.MediumTCP:
					n, _ := strconv.Atoi(p.Facts[record.FactConnections])
					sockets += n
				case transport.MediumUDP, transport.MediumUnix, transport.MediumVerbs:
				default:
					return 1, false
				}
			}
			perConnection = max(perConnection, float64(sockets)/float64(max(s.Connections, 1)))
		}
	}
	return perConnection, known
}

// checkProbes counts the probes that failed and were taken again, and finds sides of windows on
// which they were given up, so that floors or core distances are missing.
func checkProbes(e Evidence) result.Finding {
	f := result.Finding{OK: true, Message: "no probe failed"}
	again, last := 0, ""
	for i := range e.Result.Repeats {
		r := &e.Result.Repeats[i]
		for _, failure := range slices.Concat(r.Before.Failures, r.After.Failures) {
			last = fmt.Sprintf("the %s probe between %v and %v: %s", failure.Kind, failure.Caller,
				failure.Daemon, failure.Error)
			again += failure.Times
			if failure.GivenUp {
				f.Value++
				again--
			}
		}
	}
	if again > 0 {
		f.Message = fmt.Sprintf("%d probes failed and were taken again; %s", again, last)
	}
	if f.OK = f.Value == 0; !f.OK {
		f.Message = fmt.Sprintf(
			"on %.0f sides of windows, the probes were given up, so their floors are missing; %s",
			f.Value, last)
	}
	return f
}

// checkWitness counts the windows beside which one of the witness's readings was disturbed.
func checkWitness(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.1}
	windows, disturbed := 0.0, 0.0
	for i := range e.Result.Repeats {
		before, after := e.Result.Repeats[i].Before.Witness, e.Result.Repeats[i].After.Witness
		if before == nil || after == nil {
			continue
		}
		windows++
		if result.Apart(before.RoundTrip, after.RoundTrip) ||
			result.Apart(before.PerOp, after.PerOp) {
			disturbed++
		}
	}
	if windows == 0 {
		return notJudged(f, "the reference tool has no readings on both sides of a window")
	}
	f.Value = disturbed / windows
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf("beside %.0f of %.0f windows the readings of %s differ by over %.1fx",
		disturbed, windows, e.Result.Witness.Tool, result.ApartRatio)
	if !f.OK {
		f.Message += ": other programs disturbed it, so " +
			say(&f.Effect, "its ratio may be of the wrong reading")
	}
	return f
}
