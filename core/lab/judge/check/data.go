package check

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// The checks in this file ask whether the numbers are correct.

// verifySlack is how many checksums may be due although none was verified: the first sample is at a
// random value.
const verifySlack = 100

// unanswered describes calls that had no response when the drain after a window ended. On a machine
// that starves ranks they may only be late.
func unanswered(e Evidence) string {
	text := "calls unanswered long after the window: "
	if off := checkPreempted(e); !e.Oversubscribed && (off.OK || off.Value < result.StarvedShare) {
		return text + "the transport lost them, or holds them up"
	}
	return text + "the ranks waited for processors, so these calls are late rather than lost; " +
		"use a core for each polling thread, or a lower load"
}

// checkVerified counts wrong responses, lost calls, rejected requests and responses that were not
// verified.
func checkVerified(e Evidence) result.Finding {
	var done, reads, sums, unchecked, lost, rejected, wrong uint64
	var device record.DeviceReport
	sunk := uint64(0)   // requests to sinks that verified no value
	unread := uint64(0) // values in device memory, of daemons that verified none
	failures := map[string]uint64{}
	unsummed := false
	cfg := e.Result.Config
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
		if cfg.ValueSize.Max() > 0 && (cfg.VerifyEvery <= 1 && c.VerifiedSums < read ||
			due > verifySlack && c.VerifiedSums == 0) {
			unsummed = true
		}
	}
	for _, d := range e.daemons() {
		rejected += d.Rejected
		if cfg.Service == config.ServiceSink && cfg.ValueSize.Max() > 0 && d.Device == nil &&
			d.Requests > verifySlack*uint64(max(cfg.VerifyEvery, 1)) && d.ChecksummedBytes == 0 {
			sunk += d.Requests
		}
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
	}{{lost, unanswered(e)}, {rejected, "requests rejected"}, {unchecked, "responses not checked"},
		{sunk, "values sunk of which no checksum was verified"},
		{device.Wrong, "values wrong in device memory"},
		{unread, "values in device memory of which none was copied back"}} {
		if p.count > 0 {
			problems = append(problems, fmt.Sprintf("%d %s", p.count, p.what))
		}
	}
	if unsummed {
		problems = append(problems, fmt.Sprintf("only %d checksums verified for %d reads",
			sums, reads))
	}
	f := result.Finding{OK: len(problems) == 0,
		Value: float64(wrong + lost + rejected + unchecked + sunk + device.Wrong + unread)}
	switch {
	case len(e.Result.Repeats) == 0:
		f.OK, f.Message = false, "no repeat was completed"
	case done == 0:
		f.OK, f.Message = false, "no operation was completed"
	case !f.OK:
		f.Message = strings.Join(problems, ", ")
	case cfg.VerifyEvery > 1 && reads == 0:
		f.Message = fmt.Sprintf("all %d responses have the right key and version; daemons "+
			"verified one value in %d in full", done, cfg.VerifyEvery)
	case cfg.VerifyEvery > 1:
		f.Message = fmt.Sprintf("all %d responses have the right key and version; checksums were "+
			"sampled, %d of %d reads (--verify-every %d)",
			done, min(sums, reads), reads, cfg.VerifyEvery)
	default:
		f.Message = fmt.Sprintf("all %d responses are right, checksums included", done)
	}
	if f.OK && device.Values > 0 {
		f.Message += fmt.Sprintf("; %d values stayed in device memory; the last %d were copied "+
			"back after the windows, and are right",
			device.Values, device.Verified)
	}
	return f
}

func checkStoppedEarly(e Evidence) result.Finding {
	stopped := 0
	for _, r := range e.Result.Repeats {
		for _, report := range r.Ranks {
			if report.Stopped {
				stopped++
			}
		}
	}
	if stopped > 0 {
		return result.Finding{Value: float64(stopped),
			Message: fmt.Sprintf("%d windows ended early", stopped)}
	}
	return result.Finding{OK: true, Message: "no window ended early"}
}

// windowSlack is how far a window may deviate from its configured length.
const windowSlack = 0.05

// checkWindow finds windows that were longer or shorter than configured. The rates of threads are
// added, which is wrong if their windows do not coincide. A loop with a processor of its own sees
// the end at once.
func checkWindow(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.1}
	configured := float64(e.Result.Config.Duration)
	off, all, apart := 0.0, 0.0, 0.0
	for _, t := range e.threads() {
		deviation := math.Abs(float64(t.elapsedNS)/configured - 1)
		if deviation > windowSlack+float64(5*time.Millisecond)/configured {
			off++
		}
		apart += deviation
		all++
	}
	if all == 0 {
		return notJudged(f, "no thread measured")
	}
	f.Value = off / all
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf(
		"%s of the threads' windows were over %s longer or shorter than configured",
		percent(f.Value), percent(windowSlack))
	if !f.OK {
		f.Message += ": threads had no processor when their window ended, and " +
			say(&f.Effect, "throughput may be %s off", percent(apart/all))
	}
	return f
}

// checkClock compares the length of windows by the clock of the measurement with the kernel's
// monotonic clock, by the median over all threads. If the first runs fast or slow, all times and
// rates are wrong alike.
func checkClock(e Evidence) result.Finding {
	// without ClockNS, a thread may lose its processor between two readings
	const slack = time.Millisecond
	f := result.Finding{Limit: 0.005 + float64(slack)/float64(e.Result.Config.Duration)}
	var deviations []float64
	for _, t := range e.threads() {
		if t.MonotonicNS > 0 {
			deviations = append(deviations, float64(cmp.Or(t.ClockNS, t.elapsedNS))/
				float64(t.MonotonicNS)-1)
		}
	}
	if len(deviations) == 0 {
		return notJudged(f, "the windows were timed by one clock only")
	}
	deviation := record.Median(deviations)
	f.Value = math.Abs(deviation)
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf("by the kernel's clock, the windows were %s shorter or longer",
		percent(f.Value))
	switch {
	case f.OK:
	case deviation > 0:
		f.Message = fmt.Sprintf("the clock runs fast: by the kernel's clock, the windows were %s "+
			"shorter; all times are that much too high", percent(f.Value))
	default:
		f.Message = fmt.Sprintf("the clock runs slow: by the kernel's clock, the windows were %s "+
			"longer; all times are that much too low", percent(f.Value))
	}
	return f
}

// checkServed compares the requests that daemons served with those that clients issued, from ready
// to stopped. They must be the same exactly: a difference is a request that was served twice or
// answered by nobody. A read-modify-write is two requests, and in mesh-proxied a request that is
// forwarded is served once.
func checkServed(e Evidence) result.Finding {
	var f result.Finding
	var issued, served, wrong uint64
	for i := range e.Result.Repeats {
		var here, there uint64
		for _, c := range e.Result.Repeats[i].Clients() {
			here += c.Issued
		}
		for _, d := range e.Result.Repeats[i].Daemons() {
			there += d.Served
			var delegated record.DelegationReport
			if d.Delegation != nil {
				delegated = *d.Delegation
			}
			if p := d.Proxy; p != nil &&
				(p.FromClients != p.Local+p.Remote || d.Requests+delegated.Sent != p.Local+
					p.Incoming+delegated.Served) {
				f.Value, f.Message = 1, fmt.Sprintf(
					"a daemon took %d requests from clients, %d for its rank, and forwarded %d; "+
						"it had %d of other ranks and %d of other daemons, passed %d on to "+
						"those, and served %d in all",
					p.FromClients, p.Local, p.Remote, p.Incoming, delegated.Served, delegated.Sent,
					d.Requests)
				return f
			}
		}
		issued, served = issued+here, served+there
		wrong += max(here, there) - min(here, there)
	}
	f.Value, f.OK = float64(wrong), wrong == 0
	switch {
	case issued == 0 && served == 0:
		return notJudged(f, "no request was issued")
	case f.OK:
		f.Message = fmt.Sprintf(
			"the daemons served the %d requests that the clients issued, no more and no less",
			issued)
	default:
		f.Message = fmt.Sprintf("the clients issued %d requests and the daemons served %d: in "+
			"the windows, %d were served twice or not at all, and %s",
			issued, served, wrong, say(&f.Effect, "throughput may be %s off",
				percent(float64(wrong)/float64(max(issued, 1)))))
	}
	return f
}

// maxMeanNoise is the largest deviation that checkMean excuses as chance. A larger one misleads
// whatever its cause.
const maxMeanNoise = 0.1

// checkMean compares the mean of the sampled latencies with the exact mean, which comes from counts
// and the time for which calls were in flight. If they differ, the sampled calls are not like the
// others.
func checkMean(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.03}
	var failure error
	var noises []float64
	sampled := uint64(0)
	deviation, windows := e.overWindows(func(r *result.Repeat) (float64, bool) {
		sum, samples := 0.0, 0.0
		for _, c := range r.Clients() {
			sum += c.MeanNS * float64(c.Samples)
			samples += float64(c.Samples)
			sampled += c.Samples
		}
		exact, known := r.Samples[result.LatencyMean]
		if !known || samples == 0 {
			return 0, false
		}
		h, err := result.Histograms(r.Latency)
		if err != nil {
			failure = err
			return 0, false
		}
		noises = append(noises, h.StdDev()/exact/math.Sqrt(samples))
		return sum/samples/exact - 1, true
	})
	switch {
	case failure != nil:
		return failed(f.Limit, failure)
	case len(e.Result.Repeats) == 0:
		return notJudged(f, "no repeat was completed")
	case sampled == 0:
		f.Message = "no latency was sampled; " +
			say(&f.Remedy, "use a longer --duration or a lower --sample-every (now %s)",
				e.sampling())
		return f
	case windows == 0:
		return notJudged(f, "the exact mean is not known")
	}
	// Three standard errors of the median over windows, which for normal errors is 1.25 times as
	// wide as their mean.
	noise := min(maxMeanNoise, 3*record.Median(noises)*min(1, 1.25/math.Sqrt(float64(windows))))
	f.Value = math.Abs(deviation)
	f.OK = f.Value <= max(f.Limit, noise)
	f.Message = fmt.Sprintf("the sampled latencies have a mean within %s of the exact one",
		percent(f.Value))
	switch {
	case f.OK && f.Value > f.Limit:
		f.Message += fmt.Sprintf(
			", which may be chance: they vary so much that their mean is known to %s",
			percent(noise))
	case f.OK:
	case deviation > 0:
		f.Message = "the sampled calls were slower than the others: " +
			say(&f.Effect, "percentiles may be %s high", percent(f.Value))
	default:
		f.Message = "the sampled calls were faster than the others, for example because threads " +
			"lost their processors while none was in flight: " +
			say(&f.Effect, "percentiles may be %s low", percent(f.Value))
	}
	return f
}

// checkSamplingCost computes the share of the clients' processor time that goes into sampling
// latencies.
func checkSamplingCost(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.02}
	stamps, busy := 0.0, 0.0
	for i := range e.Result.Repeats {
		for _, report := range e.Result.Repeats[i].Ranks {
			for _, c := range report.Clients {
				stamps += e.Result.Overhead.StampNS * float64(c.Ops()) /
					float64(sampleEvery(&report))
				busy += float64(c.Thread.Busy(c.ElapsedNS))
			}
		}
	}
	f.Value = stamps / max(busy, 1)
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf("sampling one in %s operations takes %s of the clients' time",
		e.sampling(), percent(f.Value))
	if !f.OK {
		f.Message += ", and " + say(&f.Effect, "throughput may be that much low") +
			"; the warm-up was slower than the windows, or there was none: " +
			say(&f.Remedy, "use a higher --sample-every")
	}
	return f
}

// checkInterval reports whether the repeats suffice for confidence intervals.
func checkInterval(e Evidence) result.Finding {
	const enough = 6
	n := len(e.Result.Repeats)
	f := result.Finding{Value: float64(n), Limit: enough, OK: n >= enough}
	switch {
	case !f.OK:
		f.Message = fmt.Sprintf("%d repeats give no 95%% interval; ", n) +
			say(&f.Remedy, "use --repeats %d or more", enough)
	case e.Result.Config.WithinLaunch():
		f.OK, f.Message = false, fmt.Sprintf(
			"the 95%% intervals are within one process start (--launches 1): %d repeats do not "+
				"show what differs between starts, and diff gives no verdict", n)
	default:
		f.Message = fmt.Sprintf("%d repeats give every median a 95%% interval", n)
	}
	return f
}
