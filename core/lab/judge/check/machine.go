package check

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// The checks in this file ask whether the machine disturbed the measurement.

// checkMixed counts the windows in which the machine changed its state, and which stayed mixed when
// they were measured again. Their figures are of no state.
func checkMixed(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.2}
	probed, mixed, again := 0, 0, 0
	for _, r := range e.Result.Repeats {
		for _, w := range r.Remeasured {
			if w.Starved+w.Empty == "" {
				again++
			}
		}
		if r.Before.CoreDistance > 0 && r.After.CoreDistance > 0 {
			probed++
		}
		if r.Mixed {
			mixed++
		}
	}
	if probed == 0 {
		return notJudged(f, "the core distance was not measured")
	}
	f.Value = float64(mixed) / float64(probed)
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf("%d of %d windows are mixed: the core distance changed by more "+
		"than %gx around them; %d windows were measured again",
		mixed, probed, result.MixedRatio, again)
	if !f.OK {
		f.Message += e.withoutMixed()
	}
	return f
}

// withoutMixed returns the effect of mixed windows on the median latency.
func (e Evidence) withoutMixed() string {
	p50 := func(skip bool) float64 {
		m, _ := e.overWindows(func(r *result.Repeat) (float64, bool) {
			v, has := r.Samples[result.LatencyP50]
			return v, has && !(skip && r.Mixed)
		})
		return m
	}
	with, without := p50(false), p50(true)
	if with == 0 || without == 0 {
		return "; no window shows one state"
	}
	return fmt.Sprintf("; without them p50 is %s instead of %s", format.Time(without),
		format.Time(with))
}

// checkDisturbedWindows counts the windows that others disturbed. Tables of sets leave them out,
// and comparisons compare them with each other only.
func checkDisturbedWindows(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.2}
	windows, highest, at := 0, 0.0, 0
	for i := range e.Result.Repeats {
		if taken := e.Result.Taken(i); taken > result.DisturbedShare {
			if windows++; taken > highest {
				highest, at = taken, i
			}
		}
	}
	all := len(e.Result.Repeats)
	f.Value = float64(windows) / float64(max(1, all))
	f.OK = f.Value <= f.Limit || windows == all
	switch {
	case windows == 0:
		f.Message = "no window is disturbed"
	case windows == all:
		f.Message = "every window is disturbed, so none is left out; see preempted and steal"
	default:
		f.Message = fmt.Sprintf("%d of %d windows are disturbed, so tables leave them out: "+
			"other programs or the hypervisor had the processor of a polling thread for %s of "+
			"window %d", windows, all, percent(highest), at+1)
	}
	return f
}

// undisturbed returns the evidence without disturbed windows, or all of it if there are no others.
func (e Evidence) undisturbed() Evidence {
	rest := *e.Result
	rest.Repeats = nil
	for i := range e.Result.Repeats {
		if e.Result.Taken(i) <= result.DisturbedShare {
			rest.Repeats = append(rest.Repeats, e.Result.Repeats[i])
		}
	}
	if len(rest.Repeats) > 0 {
		e.Result = &rest
	}
	return e
}

// checkStarved counts the windows that measured nothing because a rank had no processor. Most are
// measured again. If they are many, the others are those in which the machine happened to have one.
func checkStarved(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.2}
	again, kept, last := 0, 0, ""
	for _, r := range e.Result.Repeats {
		for _, w := range r.Remeasured {
			if w.Starved != "" {
				again++
				last = w.Starved
			}
		}
		if r.Starved != "" {
			kept++
			last = r.Starved
		}
	}
	if again+kept == 0 {
		f.OK, f.Message = true, "every rank had a processor in all windows"
		return f
	}
	f.Value = float64(again+kept) / float64(again+len(e.Result.Repeats))
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf(
		"%d windows measured nothing and were measured again, and %d remained (%s)", again,
		kept, last)
	if !f.OK {
		f.Message += "; the others are those for which the machine had time"
	}
	return f
}

// checkEmptyWindows finds windows in which nothing was completed although no rank was starved. They
// were measured again, so the metrics show less of an outage than there was.
func checkEmptyWindows(e Evidence) result.Finding {
	f := result.Finding{OK: true,
		Message: "something was completed in every window in which no rank was starved"}
	last := ""
	for _, r := range e.Result.Repeats {
		for _, w := range r.Remeasured {
			if w.Empty != "" {
				f.Value++
				last = w.Empty
			}
		}
	}
	if f.OK = f.Value == 0; !f.OK {
		f.Message = fmt.Sprintf("%.0f windows were empty and were measured again (%s): the "+
			"metrics leave them out; their stalls are in remeasured of the result",
			f.Value, last)
	}
	return f
}

// maxStolen bounds the share of a window by which its throughput is corrected.
const maxStolen = 0.9

// checkSteal computes the share of time for which the hypervisor took the run's processors away,
// without disturbed windows. It passes a share that the interval of the throughput covers, without
// what stolen time itself adds to that.
func checkSteal(e Evidence) result.Finding {
	e = e.undisturbed()
	f := result.Finding{Limit: 0.01}
	if f.Value = e.stolen(); math.IsNaN(f.Value) {
		return notJudged(f, "the kernel does not report steal time")
	}
	stolen := uint64(0)
	var rates []float64
	for i := range e.Result.Repeats {
		r := &e.Result.Repeats[i]
		stolen += r.Machine.StealNS
		if rate, has := r.Samples[result.Throughput]; has {
			rates = append(rates, rate/(1-min(r.Samples[result.Steal], maxStolen)))
		}
	}
	if len(rates) > 0 {
		m := result.Summarize(result.Throughput, rates)
		if m.Low != nil {
			f.Limit = max(f.Limit, (*m.High-*m.Low)/2/m.Median)
		}
	}
	f.OK = f.Value <= f.Limit || stolen < uint64(result.MinSteal)
	f.Message = fmt.Sprintf("the hypervisor took the processors away for %s of the time",
		percent(f.Value))
	if !f.OK {
		f.Message += ": " + say(&f.Effect, "throughput may be %s low, and the tails include it",
			percent(f.Value))
	}
	return f
}

// stolen returns the share of time for which the hypervisor took the processors away, or NaN.
func (e Evidence) stolen() float64 {
	windows, stolen := 0.0, 0.0
	for i := range e.Result.Repeats {
		if share, known := e.Result.Repeats[i].Samples[result.Steal]; known {
			windows++
			stolen += share
		}
	}
	return stolen / windows
}

// checkRelay computes the share of time in which the relay of a network had packets to pass. A
// relay that hardly waits is slower than the load, whatever rate the network has.
func checkRelay(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.8}
	var windows int
	f.Value, windows = e.overWindows(func(r *result.Repeat) (float64, bool) {
		if r.Network == nil {
			return 0, false
		}
		return float64(r.Network.BusyNS) / float64(r.Machine.CoveredNS), true
	})
	if windows == 0 {
		return notJudged(f, "no repeat was completed")
	}
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf("the relay of the network was busy for %s of the time",
		percent(f.Value))
	if !f.OK {
		f.Message += ": " + say(&f.Effect,
			"it limits throughput, and not the transport or the rate of the network") + "; " +
			say(&f.Remedy, "use a lower rate or a smaller load")
	}
	return f
}

// checkFairness judges the median over the windows.
func checkFairness(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.5}
	var windows int
	if e.Result.Config.Load() == config.LoadClasses {
		return notJudged(f, "clients of several classes have different loads")
	}
	if e.Result.Config.Traffic.Matrix() != nil {
		return notJudged(f, "a matrix of traffic gives ranks different loads")
	}
	f.Value, windows = e.overWindows(func(r *result.Repeat) (float64, bool) {
		share, known := r.Samples[result.ClientFairness]
		return share, known
	})
	if windows == 0 {
		return notJudged(f, "no repeat was completed")
	}
	f.OK = f.Value >= f.Limit
	f.Message = fmt.Sprintf("the slowest client has %.2f of the median client's rate", f.Value)
	if !f.OK {
		f.Message += "; " + say(&f.Effect,
			"latencies are those of the others, because faster clients have more samples")
	}
	return f
}

// checkStorm finds connections of a storm that failed, were made late or left descriptors behind.
func checkStorm(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.1}
	var due, made, failed, leaked uint64
	reason := ""
	for _, repeat := range e.Result.Repeats {
		for _, r := range repeat.Ranks {
			if s := r.Storm; s != nil {
				due, made, failed, leaked = due+s.Due, made+s.Connections, failed+s.Failed,
					leaked+uint64(s.Leaked)
				reason = cmp.Or(reason, s.Error)
			}
		}
	}
	if due == 0 {
		return notJudged(f, "no repeat was completed")
	}
	f.Value = 1 - float64(made)/float64(due)
	f.OK = f.Value <= f.Limit && failed == 0 && leaked == 0
	f.Message = fmt.Sprintf("%d of the %d connections due were made and dropped", made, due)
	if failed > 0 {
		f.Message += fmt.Sprintf("; %d failed: %s", failed, reason)
	}
	if leaked > 0 {
		f.Message += fmt.Sprintf("; they left %s behind", format.Count(int(leaked), "descriptor"))
	}
	if !f.OK && failed == 0 && leaked == 0 {
		f.Message += "; connecting takes longer than the rate allows, so " +
			say(&f.Remedy, "lower the rate")
	}
	return f
}

// checkCollections finds windows in which the garbage collector ran. It is off there unless the
// transport needs it.
func checkCollections(e Evidence) result.Finding {
	collections, windows := uint64(0), 0
	for _, r := range e.Result.Repeats {
		for _, report := range r.Ranks {
			if report.Process.Collections > 0 {
				collections += report.Process.Collections
				windows++
			}
		}
	}
	if e.Result.Plugin.Capabilities.Goroutines {
		return result.Finding{OK: true, Value: float64(collections), Message: fmt.Sprintf(
			"the garbage collector was on, because the transport allocates: it ran %d times, "+
				"which is part of what the transport costs", collections)}
	}
	if collections > 0 {
		return result.Finding{Value: float64(collections), Message: fmt.Sprintf(
			"the garbage collector ran %d times in %d windows; it stops threads, so p99.9 and "+
				"the maximum may be milliseconds high", collections, windows)}
	}
	return result.Finding{OK: true, Message: "the garbage collector did not run in any window"}
}

// checkPreempted computes the share of time for which polling threads that spin were not on a
// processor, by the kernel's account of each thread. Steal and disturbed windows, which have checks
// of their own, do not count.
func checkPreempted(e Evidence) result.Finding {
	e = e.undisturbed()
	f := result.Finding{Limit: 0.02}
	for _, p := range e.Result.Placement {
		if p.Idle != config.IdleSpin {
			return notJudged(f, "the threads %s when there is nothing to do", p.Idle)
		}
	}
	elapsed, on, switches := 0.0, 0.0, 0.0
	for _, t := range e.threads() {
		if t.CPUNS > 0 {
			elapsed += float64(t.elapsedNS)
			on += float64(min(t.CPUNS, t.elapsedNS))
			switches += float64(t.Involuntary)
		}
	}
	if elapsed == 0 {
		return notJudged(f, "the kernel does not report the threads' processor time")
	}
	f.Value = 1 - on/elapsed
	if stolen := e.stolen(); stolen > 0 {
		f.Value = max(0, f.Value-stolen)
	}
	f.OK = f.Value <= f.Limit
	f.Message = fmt.Sprintf(
		"the polling threads were off their processors for %s of the time (%.0f switches a second)",
		percent(f.Value), switches/elapsed*1e9)
	switch {
	case f.OK:
	case e.Pollers >= e.CPUs:
		f.Message += ": " + say(&f.Effect, "throughput may be %s low, and the tails include it",
			percent(f.Value)) + "; no processor is left for other programs"
	default:
		f.Message += ": " + say(&f.Effect, "throughput may be %s low, and the tails include it",
			percent(f.Value)) + "; another program runs there"
	}
	return f
}

// checkOversubscribed reports whether polling threads share processors.
func checkOversubscribed(e Evidence) result.Finding {
	f := result.Finding{
		OK:    !e.Oversubscribed,
		Value: float64(e.Pollers), Limit: float64(e.CPUs),
		Message: fmt.Sprintf("%d polling threads have %s", e.Pollers,
			format.Count(e.CPUs, "processor")),
	}
	if !f.OK {
		turns := 0
		for _, c := range e.clients() {
			turns = max(turns, c.Thread.Sharing)
		}
		if turns > 0 {
			f.Message += fmt.Sprintf(", and %d clients take turns on a thread", turns)
		}
		f.Message += "; " + say(&f.Effect, "latencies include the time that a thread waits for one")
	}
	return f
}

// checkSpareProcessor reports whether a processor is left for the kernel and other programs.
func checkSpareProcessor(e Evidence) result.Finding {
	f := result.Finding{Value: float64(e.CPUs - e.Pollers), Limit: 1}
	f.OK = e.Oversubscribed || e.CPUs > e.Pollers // the first has a check of its own
	f.Message = fmt.Sprintf(
		"%d polling threads leave %d of %d processors to the kernel and other programs", e.Pollers,
		max(0, e.CPUs-e.Pollers), e.CPUs)
	if !f.OK {
		f.Message = fmt.Sprintf("%d polling threads take all %d processors; what else runs "+
			"interrupts them, and p99 and above include that", e.Pollers, e.CPUs)
	}
	return f
}

// checkVirtualMachine reports whether a hypervisor shares the processors out.
func checkVirtualMachine(e Evidence) result.Finding {
	kind := e.Result.Environment.Identity.Virtualisation
	f := result.Finding{OK: kind == "", Message: "the machine is not virtual"}
	if !f.OK {
		f.Value, f.Message = 1, fmt.Sprintf("a virtual machine (%s): the hypervisor may move its "+
			"processors, which changes how far they are apart, and take them away", kind)
	}
	return f
}

// checkPinned counts the threads that may move between processors, by the affinity that the kernel
// reported.
func checkPinned(e Evidence) result.Finding {
	unpinned := 0 // in the launch that has most
	for _, l := range e.starts() {
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
	f := result.Finding{OK: unpinned == 0, Value: float64(unpinned)}
	switch {
	case f.OK:
		f.Message = "every polling thread is pinned to its processor"
	case e.Result.Plugin.Capabilities.Goroutines:
		f.OK = true
		f.Message = "the polling loops are goroutines, which share the processors with those of " +
			"the transport, as in any Go program"
	case !e.Result.Config.Pin:
		f.Message = "the polling threads are not pinned, as configured; if they move during a " +
			"window, p50 is of several distances"
	default:
		f.Message = fmt.Sprintf("%d of %d polling threads are not pinned to their processors; "+
			"does a cpuset restrict them?", unpinned, e.Pollers)
	}
	return f
}

// checkClosed finds ranks that measured, but then failed to close.
func checkClosed(e Evidence) result.Finding {
	f := result.Finding{OK: true, Message: "every rank closed in time"}
	for _, err := range e.Closing {
		if err != nil {
			f.OK, f.Message = false, err.Error() // the last one represents all
			f.Value++
		}
	}
	if f.OK && e.Result.Incomplete {
		return notJudged(f, "the run ended early")
	}
	return f
}

// checkStrangers counts what came to the transport's ports in the windows and belongs to no peer. A
// transport rejects it, which takes time. A port scan may come across a run; many are an attack, or
// another run with the same fixed ports.
func checkStrangers(e Evidence) result.Finding {
	f := result.Finding{Limit: 0.001}
	strangers, ops := uint64(0), uint64(0)
	count := func(stats []transport.Stat) {
		for _, s := range stats {
			if s.Means == transport.MeansStranger {
				strangers += s.Value
			}
		}
	}
	for _, c := range e.clients() {
		ops += c.Ops()
		count(c.Transport)
	}
	for _, d := range e.daemons() {
		count(d.Transport)
	}
	f.Value = float64(strangers) / float64(max(ops, 1))
	f.OK = f.Value <= f.Limit
	switch {
	case strangers == 0:
		f.Message = "nothing came to the transport's ports that belongs to no peer"
	case f.OK:
		f.Message = fmt.Sprintf("%d packets or connections of strangers came to the transport's "+
			"ports, and were rejected", strangers)
	default:
		f.Message = fmt.Sprintf("%d packets or connections of strangers came to the transport's "+
			"ports, and were rejected: that took time from the ranks; keep others away from "+
			"the ports", strangers)
	}
	return f
}
