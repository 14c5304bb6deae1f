package runner

import (
	"fmt"
	"math"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/result"
)

// The checks of this file ask whether the load was the one that was asked for,
// and whether what was recorded of the loops explains what clients saw.

// checkComplete finds runs that were cut short, by a failure or by the user.
func checkComplete(e evidence) finding {
	r := e.result
	f := finding{ok: !r.Incomplete, value: float64(len(r.Repeats)), limit: float64(r.Config.Repeats)}
	if f.ok {
		f.message = fmt.Sprintf("all %d repeats are here", len(r.Repeats))
	} else {
		f.message = r.IncompleteReason
	}
	return f
}

// openLoop says whether the load had a schedule; the message is that of a check
// that looks at nothing else.
func openLoop(e evidence) (is bool, message string) {
	return e.result.Config.Rate > 0, "not judged: a closed loop has no schedule"
}

// checkRate compares the operations that an open loop completed with those that
// were due. A client may have as many under way at the end of its window as
// were answered after it, or lost, and one that came due at that moment.
func checkRate(e evidence) finding {
	f := finding{value: 1, limit: 0.99, ok: true}
	open, message := openLoop(e)
	if !open {
		f.message = message
		return f
	}
	var worst struct{ due, done uint64 }
	for i := range e.result.Repeats {
		var due, done, under uint64
		for _, c := range e.result.Repeats[i].Clients() {
			if c.Open != nil {
				due += c.Open.Scheduled
				done += c.Ops()
				under += min(c.Drained+c.Lost+1, uint64(e.result.Config.InFlight))
			}
		}
		kept := min(1, float64(done+under)/float64(max(due, 1)))
		if kept <= f.value {
			f.value, worst.due, worst.done = kept, due, done
		}
	}
	switch f.ok = f.value >= f.limit; {
	case worst.due == 0:
		f.message = "no operation was due"
	case f.ok:
		f.message = fmt.Sprintf("the load was kept: %d of %d operations due were completed in the worst window, the others but for %.2f%% under way",
			worst.done, worst.due, 100*(1-f.value))
	default:
		f.message = fmt.Sprintf("the load was not kept: %d of %d operations due were completed in a window; use a lower --rate or a higher --in-flight",
			worst.done, worst.due)
	}
	return f
}

// checkScheduleLag looks at how late operations started that could have.
func checkScheduleLag(e evidence) finding {
	const most = 5 * time.Microsecond
	f := finding{ok: true, limit: float64(most)}
	open, message := openLoop(e)
	if !open {
		f.message = message
		return f
	}
	samples := uint64(0)
	for _, r := range e.result.Repeats {
		lag, err := result.Histograms(r.Lag)
		if err != nil {
			return finding{value: math.Inf(1), limit: f.limit, message: err.Error()}
		}
		if lag.Count() > 0 {
			samples += lag.Count()
			f.value = max(f.value, lag.Quantile(0.99))
		}
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("99%% of the operations started within %.3g us of their time", f.value/1e3)
	switch {
	case samples == 0:
		f.message = "not judged: no lag was sampled"
	case !f.ok && e.oversubscribed:
		f.message += "; threads share processors, and a client that is due has to wait for its own"
	case !f.ok:
		f.message += "; response times contain what the harness was late"
	}
	return f
}

// checkDrift compares the rate in the first third of each window with that in
// the last. What counting alone explains is no drift: four standard deviations
// of a count, and the operations between two samples at either end.
func checkDrift(e evidence) finding {
	f := finding{ok: true, limit: 0.1}
	judged := 0
	for i := range e.result.Repeats {
		clients := e.result.Repeats[i].Clients()
		sum, ok := sumSlices(clients)
		if !ok {
			continue
		}
		judged++
		first, last := thirds(sum)
		noise := 4*math.Sqrt(first+last) + float64(2*max(e.sampleEvery, 1)*len(clients))
		if math.Abs(last-first) <= noise {
			continue
		}
		if change := (last - first) / max(first, last); math.Abs(change) >= math.Abs(f.value) {
			f.value = change
		}
	}
	f.ok = math.Abs(f.value) <= f.limit
	switch {
	case judged == 0:
		f.message = "not judged: the windows have no slices, since they were cut short or too little was sampled"
	case f.ok:
		f.message = fmt.Sprintf("rates at the begin and the end of a window differ by %.1f%% or less beyond counting noise", 100*math.Abs(f.value))
	case f.value > 0:
		f.message = fmt.Sprintf("the rate rose by %.0f%% within a window; use a longer --warmup", 100*f.value)
	default:
		f.message = fmt.Sprintf("the rate fell by %.0f%% within a window; something else runs here, or the processor's clock went down", -100*f.value)
	}
	return f
}

// sumSlices adds the clients' slices up; ok is false where one has none.
func sumSlices(clients []record.ClientReport) (sum []uint64, ok bool) {
	for _, c := range clients {
		if len(c.Slices) < 3 || sum != nil && len(c.Slices) != len(sum) {
			return nil, false
		}
		if sum == nil {
			sum = make([]uint64, len(c.Slices))
		}
		for i, n := range c.Slices {
			sum[i] += n
		}
	}
	return sum, sum != nil
}

func thirds(slices []uint64) (first, last float64) {
	n := len(slices) / 3
	for i := range n {
		first += float64(slices[i])
		last += float64(slices[len(slices)-1-i])
	}
	return first, last
}

// checkStages asks whether the stages of remote requests explain their service
// time. Not all are taken apart, so that a few that took very long may be in one
// mean and not in the other; what that alone explains is no fault.
func checkStages(e evidence) finding {
	f := finding{ok: true, limit: 0.1}
	if !e.result.Config.Proxied() {
		f.message = "not judged: only mesh-proxied has stages"
		return f
	}
	stages, err := result.StagesOf(e.result.Repeats)
	switch {
	case err != nil:
		return finding{value: math.Inf(1), limit: f.limit, message: err.Error()}
	case stages == nil:
		f.message = "not judged: no remote request was taken apart"
		return f
	}
	explained := stages.Explained()
	f.value = math.Abs(explained - 1)
	f.ok = f.value <= max(f.limit, stages.Noise)
	f.message = fmt.Sprintf("the stages explain %.1f%% of the mean service time of remote requests", 100*explained)
	if f.ok && f.value > f.limit {
		f.message += fmt.Sprintf("; since some took very long, the %d of them that were taken apart may be off by %.0f%%",
			stages.Spreads[0].Samples, 100*stages.Noise)
	}
	return f
}

// checkLoopTimingCost finds out what share of a loop's time goes into timing
// its phases.
func checkLoopTimingCost(e evidence) finding {
	f := finding{ok: true, limit: 0.02}
	every := 0
	for i := range e.result.Repeats {
		for _, d := range e.result.Repeats[i].Daemons() {
			if d.PhaseEvery == 0 || d.ElapsedNS == 0 {
				continue
			}
			cost := d.PhaseNS / float64(d.PhaseEvery) * float64(d.Loops) / float64(d.Thread.Busy(d.ElapsedNS))
			if every == 0 || cost >= f.value {
				f.value, every = cost, d.PhaseEvery
			}
		}
	}
	f.ok = f.value <= f.limit
	if every == 0 {
		f.message = "not judged: no loop was timed"
		return f
	}
	f.message = fmt.Sprintf("timing one in %d turns takes up to %.2f%% of a daemon's processor time", every, 100*f.value)
	if !f.ok {
		f.message += "; the warm-up's loops were slower than the windows', or there was no warm-up: use --warmup"
	}
	return f
}

// checkWarmup says what ended the warm-up.
func checkWarmup(e evidence) finding {
	limit := time.Duration(e.result.Config.Warmup)
	f := finding{ok: true, limit: milliseconds(limit)}
	w := e.result.Setup.Warmup
	switch {
	case w == nil:
		f.message = "not judged: there was no warm-up"
	case w.Ended == result.WarmupSteady:
		f.value = w.LastedMS
		f.message = fmt.Sprintf("the throughput was steady after %.0f ms", w.LastedMS)
	default:
		f.ok, f.value = false, w.LastedMS
		f.message = fmt.Sprintf("the throughput was not steady within %v; use a longer --warmup, and see whether the windows drift", limit)
	}
	return f
}
