package check

import (
	"fmt"
	"math"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// The checks in this file ask whether the load was the configured one, and whether the times of
// loops and stages explain what clients measured.

// checkComplete finds runs that ended early, by a failure or an interrupt.
func checkComplete(e Evidence) result.Finding {
	r := e.Result
	f := result.Finding{OK: !r.Incomplete, Value: float64(len(r.Repeats)),
		Limit: float64(r.Config.Repeats)}
	f.Message = r.IncompleteReason
	if f.OK {
		f.Message = fmt.Sprintf("all %d repeats are complete", len(r.Repeats))
	}
	return f
}

// notSteady is the advice if throughput is not steady, whichever check finds it.
const notSteady = "stop other programs, and if that does not help, use a longer --warmup"

const noSchedule = "a closed loop has no schedule"

// checkRate finds windows of an open loop in which less was completed than was due. They measure a
// backlog that grows until the window ends. It is an error if these are half of the windows, since
// then the medians measure it, too.
func checkRate(e Evidence) result.Finding {
	const keptShare = 0.99 // of the operations due; the last ones may be late
	f := result.Finding{Severity: result.Warning}
	windows := len(e.Result.Repeats)
	switch c := &e.Result.Config; {
	case c.Load() == config.LoadCapacity:
		return notJudged(f, "more is due than any transport serves, to find the capacity")
	case !c.Scheduled():
		return notJudged(f, noSchedule)
	case windows == 0:
		return notJudged(f, "no repeat was completed")
	}
	behind, lowest := 0, 1.
	for i := range e.Result.Repeats {
		kept := e.offeredIn(&e.Result.Repeats[i]).kept()
		lowest = min(lowest, kept)
		if kept < keptShare {
			behind++
		}
	}
	f.Value = float64(behind) / float64(windows)
	switch f.OK = behind == 0; {
	case f.OK:
		f.Message = fmt.Sprintf("the load was kept: in each window, at least %.1f%% of the "+
			"operations due were completed or in flight", 100*lowest)
	case 2*behind < windows:
		f.Message = fmt.Sprintf("in %d of %d windows the load was not kept (at least %s of the "+
			"operations due): they measure a backlog, and the percentiles of all windows include "+
			"it; see p50 and p99 by state",
			behind, windows, percent(lowest))
	default:
		rate := "rate"
		if e.Result.Config.Replays() {
			rate = "speed"
		}
		quiet := ""
		if !e.Oversubscribed && (!checkPreempted(e).OK || !checkSteal(e).OK) {
			quiet = "stop other programs, which took the processors away, or "
		}
		f.Severity = result.Error
		f.Message = fmt.Sprintf("the load was not kept: in %d of %d windows, down to %s of the "+
			"operations due were completed, so %s; %s",
			behind, windows, percent(lowest),
			say(&f.Effect, "response times grow with the window's length"),
			say(&f.Remedy, "%suse a lower --%s or a higher --in-flight", quiet, rate))
	}
	return f
}

// offered counts the operations of open loops that were due and completed. At the end of its
// window, a client may still wait for as many operations as later completed or were lost, and for
// one that was due at that moment.
type offered struct{ due, done, waiting uint64 }

// offeredIn returns the operations of all clients in one window.
func (e Evidence) offeredIn(r *result.Repeat) (o offered) {
	for _, c := range r.Clients() {
		if c.Open != nil {
			o.add(offered{c.Open.Scheduled, c.Ops(),
				min(c.Drained+c.Lost+1, uint64(e.Result.Config.InFlight))})
		}
	}
	return o
}

func (o *offered) add(more offered) {
	o.due, o.done, o.waiting = o.due+more.due, o.done+more.done, o.waiting+more.waiting
}

// kept returns the share of the operations due that were completed or in flight.
func (o offered) kept() float64 { return min(1, float64(o.done+o.waiting)/float64(max(o.due, 1))) }

// checkReplay finds windows in which requests of a trace were not read in time.
func checkReplay(e Evidence) result.Finding {
	var f result.Finding
	for _, c := range e.clients() {
		f.Value += float64(c.Starved)
	}
	if f.OK = f.Value == 0; f.OK {
		f.Message = "each request of the trace was read before it was due"
	} else {
		f.Message = fmt.Sprintf("%.0f requests of the trace were not read before they were due, "+
			"so %s; %s", f.Value, say(&f.Effect, "other requests were sent than it has"),
			say(&f.Remedy, "use a shorter part, which fits in memory, a lower --speed or a faster "+
				"disk"))
	}
	return f
}

const (
	// An operation may start late by lagShare of the response time with which it is compared. One
	// that falls due in an iteration of the client waits for its end, as with any user of one
	// thread, so a median of one working iteration and a p99 of three are no fault of the schedule,
	// up to maxLag.
	lagShare    = 0.05
	maxLag      = 1. / 3
	medianTurns = 1
	tailTurns   = 3
	maxLeftOut  = 0.05 // of the operations, as stalled
)

// checkScheduleLag checks how late operations of all windows started although a call was free: the
// median beside the median response time, and the p99 beside the p99, both without as many of the
// latest as the share of time in gaps. Those are stalls, which the result lists, and an open loop
// is there to show what they do to response times. The worse of the two counts.
func checkScheduleLag(e Evidence) result.Finding {
	var f result.Finding
	if load := e.Result.Config.Load(); load != config.LoadOpen && load != config.LoadCapacity {
		return notJudged(f, noSchedule)
	}
	var lags, responses []string
	stalled := 0.0
	for i := range e.Result.Repeats {
		r := &e.Result.Repeats[i]
		lags, responses = append(lags, r.Lag), append(responses, r.Response)
		stalled += r.Samples[result.Stalled] / float64(len(e.Result.Repeats))
	}
	lag, err := result.Histograms(lags...)
	if err != nil {
		return failed(f.Limit, err)
	}
	response, err := result.Histograms(responses...)
	if err != nil {
		return failed(f.Limit, err)
	}
	if lag.Count() == 0 || response.Count() == 0 {
		return notJudged(f, "no lag was sampled")
	}
	out := min(stalled, maxLeftOut)
	tail := 0.99 * (1 - out)
	turn := workingIteration(e.clients())
	late, lateTail := lag.Quantile(0.5), lag.Quantile(tail)
	half, whole := response.Quantile(0.5), response.Quantile(tail)
	f.OK = true
	effect := ""
	for _, part := range []struct {
		name      string
		lag, of   float64
		iteration float64
	}{
		{"response_p50", late, half, medianTurns * turn},
		{"response_p99 without stalls", lateTail, whole, tailTurns * turn},
	} {
		limit := max(lagShare*part.of, min(part.iteration, maxLag*part.of))
		if f.Limit == 0 || part.lag/limit > f.Value/f.Limit {
			f.Value, f.Limit = part.lag, limit
		}
		if part.lag > limit {
			f.OK = false
			if effect != "" {
				effect += ", and "
			}
			effect += fmt.Sprintf("%s may be up to %.3g us (%s) high", part.name, part.lag/1e3,
				percent(min(1, part.lag/part.of)))
		}
	}
	f.Message = fmt.Sprintf(
		"half of the operations started within %.3g us of their time, and 99%% within %.3g us",
		late/1e3, lateTail/1e3)
	if out > 0 {
		f.Message += fmt.Sprintf(", without the latest %s, as stalls took %s of the time",
			percent(out), percent(stalled))
	}
	switch {
	case f.OK:
		f.Message += fmt.Sprintf(": %s and %s of such response times", percent(late/half),
			percent(lateTail/whole))
	case e.Oversubscribed:
		f.Effect = effect
		f.Message += "; " + effect +
			": threads share processors, and a client whose operation is due has to wait for one"
	default:
		f.Effect = effect
		f.Message += "; " + effect + ", because the client's thread was busy or asleep"
	}
	return f
}

// workingIteration returns the mean time of the iterations in which clients found responses, in
// nanoseconds, or 0 if it is unknown.
func workingIteration(clients []record.ClientReport) float64 {
	busy, found := 0.0, 0.0
	for _, c := range clients {
		if c.BusyNS > 0 && c.Polls > c.EmptyPolls {
			busy += float64(c.BusyNS)
			found += float64(c.Polls - c.EmptyPolls)
		}
	}
	return busy / max(found, 1)
}

// checkDrift compares the rate in the first third of each window with that in the last, and judges
// the median of the changes, so that one window in which the machine changed does not count. It
// ignores what counting alone explains: four standard deviations of a count, and the operations
// between two samples at either end.
func checkDrift(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.1}
	if e.Result.Config.Replays() && e.Result.Config.Rate.Offers() {
		return notJudged(f, "the rate is that of the trace")
	}
	var windows int
	f.Value, windows = e.overWindows(func(r *result.Repeat) (float64, bool) {
		clients := r.Clients()
		sum, ok := sumSlices(clients)
		if !ok {
			return 0, false
		}
		first, last := thirds(sum)
		noise := 4 * math.Sqrt(first+last)
		for _, report := range r.Ranks {
			noise += float64(2 * sampleEvery(&report) * len(report.Clients))
		}
		if math.Abs(last-first) <= noise {
			return 0, true
		}
		return (last - first) / max(first, last), true
	})
	f.OK = math.Abs(f.Value) <= f.Limit
	switch {
	case windows == 0:
		return notJudged(f,
			"the windows have no slices, because they ended early or had too few samples")
	case f.OK:
		f.Message = fmt.Sprintf(
			"the rates at the start and the end of a window differ by %s, beyond counting noise",
			percent(math.Abs(f.Value)))
	case f.Value > 0:
		f.Message = fmt.Sprintf("the rate rises by %s within a window, so %s; %s",
			percent(f.Value), say(&f.Effect, "throughput is about %s low", percent(f.Value/2)),
			say(&f.Remedy, notSteady))
	default:
		f.Message = fmt.Sprintf("the rate falls by %s within a window, so %s; %s",
			percent(-f.Value), say(&f.Effect, "throughput is about %s higher than it stays",
				percent(-f.Value/2)), say(&f.Remedy, notSteady))
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

// checkStages checks that the stages of calls add up to their mean service time: of remote requests
// in mesh-proxied, else of all calls, without what calls that were held up add to it. Only a sample
// of the calls has stages, so a few very slow ones may be in one mean and not in the other; the
// check allows for that.
func checkStages(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.05}
	if e.Result.Config.Proxied() {
		f.Limit = 0.1
	}
	stages, err := result.StagesOf(e.Result.Repeats)
	if err != nil {
		return failed(f.Limit, err)
	}
	if stages == nil {
		return notJudged(f, "no call has timed stages")
	}
	if stages.Halves != "" {
		return notJudged(f, "the stages of calls are halves of round trips: %s", stages.Halves)
	}
	slowed := stages.Slowed
	if len(e.Result.Repeats) > 1 {
		if slowed, err = medianSlowed(e.Result.Repeats); err != nil {
			return failed(f.Limit, err)
		}
	}
	explained := stages.Explained()
	f.Value = math.Abs(explained - 1)
	f.OK = f.Value <= max(f.Limit, stages.Noise) && slowed <= max(slowedLimit, stages.Noise)
	calls := "remote requests"
	if stages.Direct {
		calls = "calls"
	}
	f.Message = fmt.Sprintf("the stages explain %.1f%% of the mean service time of %s",
		100*explained, calls)
	if stages.Held > 0 {
		f.Message += fmt.Sprintf(", without those of over %.3g us, which add %s to it",
			stages.HeldLimit/1e3, percent(stages.Held/stages.Ordinary()))
	}
	if slowed > 0 {
		f.Message += fmt.Sprintf("; in half of the windows the stamps slow sampled calls by "+
			"%.0f%% or more, which is left out", 100*slowed)
	}
	if slowed > slowedLimit {
		f.Message += fmt.Sprintf(", but more than %.0f%% need not be alike in all stages: each "+
			"stamp moves a cache line between the processors of client and daemon, which are far "+
			"apart here; compare stages only with those of runs with near ones",
			100*slowedLimit)
	}
	if f.OK && f.Value > f.Limit {
		f.Message += fmt.Sprintf("; because some were very slow, the mean of the %d with timed "+
			"stages may be off by %.0f%%",
			stages.Spreads[0].Samples, 100*stages.Noise)
	}
	return f
}

// slowedLimit is the share by which stamps may slow sampled calls. They do by about 10% with near
// processors, and by 15 to 55% with far ones.
const slowedLimit = 0.25

// medianSlowed returns the median over the windows of the share by which stamps slowed sampled
// calls. The sample of one window may have caught more slow calls than their share.
func medianSlowed(repeats []result.Repeat) (float64, error) {
	var list []float64
	for i := range repeats {
		s, err := result.StagesOf(repeats[i : i+1])
		if err != nil {
			return 0, err
		}
		if s != nil {
			list = append(list, s.Slowed)
		}
	}
	return record.Median(list), nil
}

// checkLoopTimingCost computes the share of the daemons' processor time that goes into timing the
// phases of its loop.
func checkLoopTimingCost(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.02}
	every, cost, busy := 0, 0.0, 0.0
	for _, d := range e.daemons() {
		if d.PhaseEvery > 0 {
			every = d.PhaseEvery
			cost += d.PhaseNS / float64(d.PhaseEvery) * float64(d.Loops)
			busy += float64(d.Thread.Busy(d.ElapsedNS))
		}
	}
	if every == 0 {
		return notJudged(f, "no loop was timed")
	}
	f.Value = cost / max(busy, 1)
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf("timing one in %d loops takes %s of the daemons' time", every,
		percent(f.Value))
	if !f.OK {
		f.Message += ", and " + say(&f.Effect, "throughput may be that much low") +
			"; the loops were slower in the warm-up than in the windows, or there was no " +
			"warm-up: " +
			say(&f.Remedy, "use --warmup")
	}
	return f
}

// checkWarmup reports whether the warm-up reached a steady throughput in most process starts.
func checkWarmup(e Evidence) result.Finding {
	limit := time.Duration(e.Result.Config.Warmup)
	f := result.Finding{Limit: 0.5}
	starts, unsteady, longest := e.starts(), 0, 0.0
	for _, start := range starts {
		w := start.Setup.Warmup
		if w == nil {
			return notJudged(f, "there was no warm-up")
		}
		longest = max(longest, w.LastedMS)
		if w.Ended != result.WarmupSteady {
			unsteady++
		}
	}
	f.Value = float64(unsteady) / float64(len(starts))
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf("in %d of %d process starts the throughput was steady after at most "+
		"%.0f ms", len(starts)-unsteady, len(starts), longest)
	if !f.OK {
		f.Message = fmt.Sprintf("in %d of %d process starts, the throughput was not steady within "+
			"%v; %s", unsteady, len(starts), limit, say(&f.Remedy, notSteady))
	}
	return f
}
