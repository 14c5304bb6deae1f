package runner

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/consistency"
	"transportbench/core/lab/result"
)

// The checks of this file ask whether the numbers are right.

// checkVerified counts everything that shows that the transport did not do its
// work: wrong responses, lost calls, requests that could not be served, and
// responses that nobody looked at.
func checkVerified(e evidence) finding {
	var done, reads, sums, unchecked, lost, rejected, wrong uint64
	var device record.DeviceReport
	unread := uint64(0) // values in device memory, of daemons that verified none
	failures := map[string]uint64{}
	unsummed := false
	cfg := e.result.Config
	for i := range e.result.Repeats {
		for _, c := range e.result.Repeats[i].Clients() {
			read := c.Reads + c.Operations[config.OpRMW].Count
			done += c.Ops()
			reads += read
			sums += c.VerifiedSums
			lost += c.Lost
			looked := c.VerifiedKeys
			for what, n := range c.Failures {
				failures[what] += n
				wrong += n
				looked += n // a wrong response was looked at, too
			}
			unchecked += c.Ops() - min(looked, c.Ops())
			due := read / uint64(max(cfg.VerifyEvery, 1))
			const slack = 100 // sampling starts anywhere
			if cfg.ValueSize.Max() > 0 && (cfg.VerifyEvery <= 1 && c.VerifiedSums < read || due > slack && c.VerifiedSums == 0) {
				unsummed = true
			}
		}
		for _, d := range e.result.Repeats[i].Daemons() {
			rejected += d.Rejected
			if d.Device != nil {
				device.Values += d.Device.Values
				device.Verified += d.Device.Verified
				device.Wrong += d.Device.Wrong
				if d.Device.Values > 0 && d.Device.Verified+d.Device.Wrong == 0 {
					unread += d.Device.Values
				}
			}
		}
	}
	var problems []string
	for _, what := range slices.Sorted(maps.Keys(failures)) {
		problems = append(problems, fmt.Sprintf("%d responses %s", failures[what], what))
	}
	for _, p := range []struct {
		count uint64
		what  string
	}{{lost, "calls lost"}, {rejected, "requests rejected"}, {unchecked, "responses not checked"},
		{device.Wrong, "values wrong in device memory"}, {unread, "values in device memory of which none was copied back"}} {
		if p.count > 0 {
			problems = append(problems, fmt.Sprintf("%d %s", p.count, p.what))
		}
	}
	if unsummed {
		problems = append(problems, fmt.Sprintf("only %d checksums verified for %d reads", sums, reads))
	}
	f := finding{ok: len(problems) == 0, value: float64(wrong + lost + rejected + unchecked + device.Wrong + unread)}
	switch {
	case len(e.result.Repeats) == 0:
		f.ok, f.message = false, "no repeat was completed"
	case done == 0:
		f.ok, f.message = false, "no operation was completed"
	case !f.ok:
		f.message = strings.Join(problems, ", ")
	case cfg.VerifyEvery > 1:
		f.message = fmt.Sprintf("all %d responses have the right key and version; checksums were sampled, %d of %d reads (--verify-every %d)",
			done, min(sums, reads), reads, cfg.VerifyEvery)
	default:
		f.message = fmt.Sprintf("all %d responses are right, checksums included", done)
	}
	if f.ok && device.Values > 0 {
		f.message += fmt.Sprintf("; of %d values that stayed in device memory the last %d were copied back after the windows, and are right", device.Values, device.Verified)
	}
	return f
}

func checkStoppedEarly(e evidence) finding {
	stopped := 0
	for _, r := range e.result.Repeats {
		for _, report := range r.Ranks {
			if report.Stopped {
				stopped++
			}
		}
	}
	if stopped > 0 {
		return finding{value: float64(stopped), message: fmt.Sprintf("%d windows ended before their time", stopped)}
	}
	return finding{ok: true, message: "every window lasted its time"}
}

// checkOverlong looks for windows that went on beyond their time. A loop that
// has its processor sees the end at once; rates over windows that do not
// coincide do not add up.
func checkOverlong(e evidence) finding {
	window := float64(e.result.Config.Duration)
	f := finding{limit: 1.05 + float64(5*time.Millisecond)/window}
	see := func(elapsedNS uint64) { f.value = max(f.value, float64(elapsedNS)/window) }
	for i := range e.result.Repeats {
		for _, c := range e.result.Repeats[i].Clients() {
			see(c.ElapsedNS)
		}
		for _, d := range e.result.Repeats[i].Daemons() {
			see(d.ElapsedNS)
		}
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("the longest window lasted %.3g times as long as it should", f.value)
	if !f.ok {
		f.message += "; a polling thread did not have its processor when it ended, so that rates of different threads do not add up"
	}
	return f
}

// checkCounters compares what the daemons of all ranks served with what the
// clients completed: each request is served once, also where a daemon of
// mesh-proxied forwards it, and a read-modify-write is two. The windows of
// different ranks are opened by different calls of the control plane and do not
// coincide, for which the limit leaves room. A daemon's own counters have one
// window, and must agree to the last request.
func checkCounters(e evidence) finding {
	const apart, share = 50 * time.Millisecond, 0.02
	window := time.Duration(e.result.Config.Duration)
	f := finding{limit: share + float64(apart)/float64(window)}
	for i := range e.result.Repeats {
		requests := uint64(0)
		for _, d := range e.result.Repeats[i].Daemons() {
			requests += d.Requests
			if p := d.Proxy; p != nil && (p.FromClients != p.Local+p.Remote || d.Requests != p.Local+p.Incoming) {
				return finding{value: 1, limit: f.limit, message: fmt.Sprintf(
					"a daemon took up %d requests of clients and kept %d and forwarded %d of them; it served %d, of which %d came from other ranks",
					p.FromClients, p.Local, p.Remote, d.Requests, p.Incoming)}
			}
		}
		clients := e.result.Repeats[i].Clients()
		done := totalOps(clients)
		for _, c := range clients {
			done += c.Operations[config.OpRMW].Count
		}
		f.value = max(f.value, math.Abs(float64(requests)-float64(done))/float64(max(done, 1)))
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("served requests and those of completed operations differ by up to %.1f%%; their windows may be %v apart",
		100*f.value, apart)
	return f
}

// checkLittlesLaw compares the calls in flight that were configured with
// throughput times latency, client by client.
func checkLittlesLaw(e evidence) finding {
	f := finding{limit: 0.05}
	if e.result.Config.Rate > 0 {
		f.ok, f.message = true, "not judged: an open loop keeps no number of calls in flight"
		return f
	}
	worst := 0.0
	configured := 0.0
	for i := range e.result.Repeats {
		clients := e.result.Repeats[i].Clients()
		configured = float64(len(clients) * e.result.Config.InFlight)
		found := consistency.InFlightOf(clients)
		if residual := math.Abs(found-configured) / max(configured, 1); residual >= f.value {
			f.value, worst = residual, found
		}
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("throughput times mean latency gives %.3g calls in flight, %g are configured (%.1f%% apart at worst)",
		worst, configured, 100*f.value)
	switch {
	case f.ok:
	case worst < configured:
		f.message += "; time passed in which no sampled call was in flight, such as a window's end that a thread which lost its processor never reached"
	default:
		f.message += "; the sampled calls were slower than the others"
	}
	return f
}

// checkConsistent asks whether the metrics of each repeat fit together. What may
// be chance is left to the checks that know more.
func checkConsistent(e evidence) finding {
	wrong := slices.DeleteFunc(consistency.Result(e.result), func(c result.Check) bool { return c.Severity != result.Error })
	f := finding{ok: len(wrong) == 0, value: float64(len(wrong)), message: "the metrics of each repeat fit together"}
	if !f.ok {
		f.message = wrong[0].Message
	}
	return f
}

// checkSamples finds latency samples that did not reach the histogram.
func checkSamples(e evidence) finding {
	taken, kept := uint64(0), uint64(0)
	for i := range e.result.Repeats {
		for _, c := range e.result.Repeats[i].Clients() {
			taken += c.Samples
		}
		merged, err := result.Histograms(e.result.Repeats[i].Latency)
		if err != nil {
			return finding{value: 1, message: err.Error()}
		}
		kept += merged.Count()
	}
	f := finding{value: math.Abs(float64(taken) - float64(kept))}
	switch {
	case len(e.result.Repeats) == 0:
		f.ok, f.message = true, "not judged: no repeat was completed"
	case taken == 0:
		f.message = fmt.Sprintf("no latency was sampled; use a longer --duration or a lower --sample-every (now %d)", e.sampleEvery)
	case taken != kept:
		f.message = fmt.Sprintf("%d latencies were sampled and %d are in the histograms", taken, kept)
	default:
		f.ok, f.message = true, fmt.Sprintf("%d latencies sampled, one in %d operations", taken, max(e.sampleEvery, 1))
	}
	return f
}

// checkSamplingCost finds out what share of an operation's time goes into
// stamping it.
func checkSamplingCost(e evidence) finding {
	f := finding{limit: 0.02}
	perOp := e.result.Overhead.StampNS / float64(max(e.sampleEvery, 1))
	for i := range e.result.Repeats {
		for _, c := range e.result.Repeats[i].Clients() {
			f.value = max(f.value, perOp*result.PerSecond(c.Ops(), c.Thread.Busy(c.ElapsedNS))/1e9)
		}
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("stamping one in %d operations takes up to %.2f%% of a client's processor time", max(e.sampleEvery, 1), 100*f.value)
	if !f.ok {
		f.message += "; the warm-up was slower than the windows, or there was none: give --sample-every a higher number"
	}
	return f
}

// checkInterval tells why a summary has no intervals.
func checkInterval(e evidence) finding {
	const enough = 6
	f := finding{value: float64(len(e.result.Repeats)), limit: enough, ok: len(e.result.Repeats) >= enough}
	if f.ok {
		f.message = fmt.Sprintf("%d repeats give every median a 95%% interval", len(e.result.Repeats))
	} else {
		f.message = fmt.Sprintf("%d repeats give no 95%% interval; use --repeats %d or more", len(e.result.Repeats), enough)
	}
	return f
}
