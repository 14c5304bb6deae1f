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

// The checks in this file ask whether the numbers are correct.

// checkVerified counts wrong responses, lost calls, rejected requests and responses that were not
// verified.
func checkVerified(e evidence) finding {
	var done, reads, sums, unchecked, lost, rejected, wrong uint64
	var device record.DeviceReport
	unread := uint64(0) // values in device memory, of daemons that verified none
	failures := map[string]uint64{}
	unsummed := false
	cfg := e.result.Config
	for _, c := range e.clients() {
		read := c.Reads + c.Operations[config.OpRMW].Count
		done += c.Ops()
		reads += read
		sums += c.VerifiedSums
		lost += c.Lost
		verified := c.VerifiedKeys
		for what, n := range c.Failures {
			failures[what] += n
			wrong += n
			verified += n
		}
		unchecked += c.Ops() - min(verified, c.Ops())
		due := read / uint64(max(cfg.VerifyEvery, 1))
		const slack = 100 // the first sample is at a random read
		if cfg.ValueSize.Max() > 0 && (cfg.VerifyEvery <= 1 && c.VerifiedSums < read || due > slack && c.VerifiedSums == 0) {
			unsummed = true
		}
	}
	for _, d := range e.daemons() {
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
		f.message += fmt.Sprintf("; %d values stayed in device memory; the last %d were copied back after the windows, and are right",
			device.Values, device.Verified)
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
		return finding{value: float64(stopped), message: fmt.Sprintf("%d windows ended early", stopped)}
	}
	return finding{ok: true, message: "no window ended early"}
}

// checkOverlong finds windows that lasted too long. A loop with a processor of its own sees the
// end at once. Rates over windows that do not coincide must not be added.
func checkOverlong(e evidence) finding {
	window := float64(e.result.Config.Duration)
	f := finding{limit: 1.05 + float64(5*time.Millisecond)/window}
	for _, t := range e.threads() {
		f.value = max(f.value, float64(t.elapsedNS)/window)
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("the longest window lasted %.3g times as long as configured", f.value)
	if !f.ok {
		f.message += "; a polling thread had no processor when the window ended, so the sum of the threads' rates is wrong"
	}
	return f
}

// checkCounters compares the requests that daemons served with those that clients completed. Each
// request is served once, even if a daemon of mesh-proxied forwards it; a read-modify-write is two
// requests. The host opens the windows of different ranks by different calls, so they do not
// coincide, and the limit allows for that. The counters of one daemon have one window and must
// agree exactly.
func checkCounters(e evidence) finding {
	const apart, share = 50 * time.Millisecond, 0.02
	f := finding{limit: share + float64(apart)/float64(e.result.Config.Duration)}
	for i := range e.result.Repeats {
		requests := uint64(0)
		for _, d := range e.result.Repeats[i].Daemons() {
			requests += d.Requests
			if p := d.Proxy; p != nil && (p.FromClients != p.Local+p.Remote || d.Requests != p.Local+p.Incoming) {
				return finding{value: 1, limit: f.limit, message: fmt.Sprintf(
					"a daemon took %d requests from clients, served %d of them and forwarded %d; it served %d in all, %d of them from other ranks",
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
	f.message = fmt.Sprintf("requests served and requests completed differ by up to %.1f%%; their windows may be %v apart",
		100*f.value, apart)
	return f
}

// checkLittlesLaw compares the configured calls in flight with throughput times latency, summed
// over clients.
func checkLittlesLaw(e evidence) finding {
	f := finding{limit: 0.05}
	if e.result.Config.Rate > 0 {
		return f.notJudged("an open loop has no fixed number of calls in flight")
	}
	var found, configured float64 // in the worst repeat
	for i := range e.result.Repeats {
		clients := e.result.Repeats[i].Clients()
		configured = float64(len(clients) * e.result.Config.InFlight)
		inFlight := consistency.InFlightOf(clients)
		if residual := math.Abs(inFlight-configured) / max(configured, 1); residual >= f.value {
			f.value, found = residual, inFlight
		}
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("throughput times mean latency gives %.3g calls in flight, %g are configured (%.1f%% apart at worst)",
		found, configured, 100*f.value)
	switch {
	case f.ok:
	case found < configured:
		f.message += "; for some time no sampled call was in flight, for example at the end of a window, after a thread lost its processor"
	default:
		f.message += "; the sampled calls were slower than the others"
	}
	return f
}

// checkConsistent checks that the metrics of each repeat agree. It leaves what may be chance to
// the checks that know more.
func checkConsistent(e evidence) finding {
	wrong := slices.DeleteFunc(consistency.Result(e.result), func(c result.Check) bool { return c.Severity != result.Error })
	if len(wrong) > 0 {
		return finding{value: float64(len(wrong)), message: wrong[0].Message}
	}
	return finding{ok: true, message: "the metrics of each repeat agree"}
}

// checkSamples finds latency samples that are missing in the histograms.
func checkSamples(e evidence) finding {
	taken, kept := uint64(0), uint64(0)
	for _, c := range e.clients() {
		taken += c.Samples
	}
	for i := range e.result.Repeats {
		merged, err := result.Histograms(e.result.Repeats[i].Latency)
		if err != nil {
			return finding{value: 1, message: err.Error()}
		}
		kept += merged.Count()
	}
	f := finding{value: math.Abs(float64(taken) - float64(kept))}
	switch {
	case len(e.result.Repeats) == 0:
		return f.notJudged("no repeat was completed")
	case taken == 0:
		f.message = fmt.Sprintf("no latency was sampled; use a longer --duration or a lower --sample-every (now %d)", e.sampleEvery)
	case taken != kept:
		f.message = fmt.Sprintf("%d latencies were sampled, but the histograms have %d", taken, kept)
	default:
		f.ok, f.message = true, fmt.Sprintf("%d latencies sampled, one in %d operations", taken, max(e.sampleEvery, 1))
	}
	return f
}

// checkSamplingCost computes the share of a client's processor time that goes into sampling
// latencies.
func checkSamplingCost(e evidence) finding {
	f := finding{limit: 0.02}
	every := max(e.sampleEvery, 1)
	perOp := e.result.Overhead.StampNS / float64(every)
	for _, c := range e.clients() {
		f.value = max(f.value, perOp*result.PerSecond(c.Ops(), c.Thread.Busy(c.ElapsedNS))/1e9)
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("sampling one in %d operations takes up to %.2f%% of a client's processor time", every, 100*f.value)
	if !f.ok {
		f.message += "; the warm-up was slower than the windows, or there was none: use a higher --sample-every"
	}
	return f
}

// checkInterval reports whether the repeats suffice for confidence intervals.
func checkInterval(e evidence) finding {
	const enough = 6
	n := len(e.result.Repeats)
	f := finding{value: float64(n), limit: enough, ok: n >= enough}
	if f.ok {
		f.message = fmt.Sprintf("%d repeats give every median a 95%% interval", n)
	} else {
		f.message = fmt.Sprintf("%d repeats give no 95%% interval; use --repeats %d or more", n, enough)
	}
	return f
}
