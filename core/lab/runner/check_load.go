package runner

import (
	"fmt"
	"math"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/result"
)

// The checks in this file ask whether the load was the configured one, and whether the times of
// loops and stages explain what clients measured.

// checkComplete finds runs that ended early, by a failure or an interrupt.
func checkComplete(e evidence) finding {
	r := e.result
	f := finding{ok: !r.Incomplete, value: float64(len(r.Repeats)), limit: float64(r.Config.Repeats)}
	f.message = r.IncompleteReason
	if f.ok {
		f.message = fmt.Sprintf("all %d repeats are complete", len(r.Repeats))
	}
	return f
}

const noSchedule = "a closed loop has no schedule"

// checkRate compares the operations that an open loop completed with those that were due. At the
// end of its window, a client may still wait for as many operations as later completed or were
// lost, and for one that was due at that moment.
func checkRate(e evidence) finding {
	f := finding{value: 1, limit: 0.99}
	if e.result.Config.Rate == 0 {
		return f.notJudged(noSchedule)
	}
	var worst struct{ due, done uint64 }
	for i := range e.result.Repeats {
		var due, done, waiting uint64
		for _, c := range e.result.Repeats[i].Clients() {
			if c.Open != nil {
				due += c.Open.Scheduled
				done += c.Ops()
				waiting += min(c.Drained+c.Lost+1, uint64(e.result.Config.InFlight))
			}
		}
		kept := min(1, float64(done+waiting)/float64(max(due, 1)))
		if kept <= f.value {
			f.value, worst.due, worst.done = kept, due, done
		}
	}
	switch f.ok = f.value >= f.limit; {
	case worst.due == 0:
		f.message = "no operation was due"
	case f.ok:
		f.message = fmt.Sprintf("the load was kept: in the worst window, %d of %d operations due were completed, and all others but %.2f%% were in flight",
			worst.done, worst.due, 100*(1-f.value))
	default:
		f.message = fmt.Sprintf("the load was not kept: in a window, %d of %d operations due were completed; use a lower --rate or a higher --in-flight",
			worst.done, worst.due)
	}
	return f
}

// checkScheduleLag checks how late operations started although a call was free.
func checkScheduleLag(e evidence) finding {
	f := finding{limit: float64(5 * time.Microsecond)}
	if e.result.Config.Rate == 0 {
		return f.notJudged(noSchedule)
	}
	samples := uint64(0)
	for _, r := range e.result.Repeats {
		lag, err := result.Histograms(r.Lag)
		if err != nil {
			return failed(f.limit, err)
		}
		if lag.Count() > 0 {
			samples += lag.Count()
			f.value = max(f.value, lag.Quantile(0.99))
		}
	}
	if samples == 0 {
		return f.notJudged("no lag was sampled")
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("99%% of the operations started within %.3g us of their time", f.value/1e3)
	switch {
	case f.ok:
	case e.oversubscribed:
		f.message += "; threads share processors, and a client whose operation is due has to wait for one"
	default:
		f.message += "; the response times include this lag of the harness"
	}
	return f
}

// checkDrift compares the rate in the first third of each window with that in the last. It ignores
// what counting alone explains: four standard deviations of a count, and the operations between
// two samples at either end.
func checkDrift(e evidence) finding {
	f := finding{limit: 0.1}
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
		return f.notJudged("the windows have no slices, because they ended early or had too few samples")
	case f.ok:
		f.message = fmt.Sprintf("the rates at the start and the end of a window differ by %.1f%% or less beyond counting noise", 100*math.Abs(f.value))
	case f.value > 0:
		f.message = fmt.Sprintf("the rate rose by %.0f%% within a window; use a longer --warmup", 100*f.value)
	default:
		f.message = fmt.Sprintf("the rate fell by %.0f%% within a window; another program runs here, or the processor's frequency fell", -100*f.value)
	}
	return f
}

// sumSlices adds up the clients' slices; ok is false if a client has none.
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

// checkStages checks that the stages of calls add up to their service time: of remote requests in
// mesh-proxied, else of all calls. Only a sample of the calls has stages, so a few very slow ones
// may be in one mean and not in the other; the check allows for that.
func checkStages(e evidence) finding {
	f := finding{limit: 0.05}
	if e.result.Config.Proxied() {
		f.limit = 0.1
	}
	stages, err := result.StagesOf(e.result.Repeats)
	if err != nil {
		return failed(f.limit, err)
	}
	if stages == nil {
		return f.notJudged("no call has timed stages")
	}
	if stages.Halves != "" {
		return f.notJudged("the stages of calls are halves of round trips: %s", stages.Halves)
	}
	explained := stages.Explained()
	f.value = math.Abs(explained - 1)
	f.ok = f.value <= max(f.limit, stages.Noise)
	calls := "remote requests"
	if stages.Direct {
		calls = "calls"
	}
	f.message = fmt.Sprintf("the stages explain %.1f%% of the mean service time of %s", 100*explained, calls)
	if f.ok && f.value > f.limit {
		f.message += fmt.Sprintf("; because some were very slow, the mean of the %d with timed stages may be off by %.0f%%",
			stages.Spreads[0].Samples, 100*stages.Noise)
	}
	return f
}

// checkLoopTimingCost computes the share of a daemon's processor time that goes into timing the
// phases of its loop.
func checkLoopTimingCost(e evidence) finding {
	f := finding{limit: 0.02}
	every := 0
	for _, d := range e.daemons() {
		if d.PhaseEvery == 0 || d.ElapsedNS == 0 {
			continue
		}
		cost := d.PhaseNS / float64(d.PhaseEvery) * float64(d.Loops) / float64(d.Thread.Busy(d.ElapsedNS))
		if every == 0 || cost >= f.value {
			f.value, every = cost, d.PhaseEvery
		}
	}
	if every == 0 {
		return f.notJudged("no loop was timed")
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("timing one in %d loops takes up to %.2f%% of a daemon's processor time", every, 100*f.value)
	if !f.ok {
		f.message += "; the loops were slower in the warm-up than in the windows, or there was no warm-up: use --warmup"
	}
	return f
}

// checkWarmup reports whether the warm-up reached a steady throughput.
func checkWarmup(e evidence) finding {
	limit := time.Duration(e.result.Config.Warmup)
	f := finding{limit: milliseconds(limit)}
	launches, unsteady := e.launches(), 0
	for _, l := range launches {
		w := l.Setup.Warmup
		if w == nil {
			return f.notJudged("there was no warm-up")
		}
		f.value = max(f.value, w.LastedMS)
		if w.Ended != result.WarmupSteady {
			unsteady++
		}
	}
	f.ok = unsteady == 0
	f.message = fmt.Sprintf("the throughput was steady after at most %.0f ms", f.value)
	if !f.ok {
		f.message = fmt.Sprintf("in %d of %d launches, the throughput was not steady within %v; use a longer --warmup, and see whether the windows drift",
			unsteady, len(launches), limit)
	}
	return f
}
