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
func checkMixed(e Evidence) finding {
	f := finding{limit: 0.2}
	probed, mixed, again := 0, 0, 0
	for _, r := range e.Result.Repeats {
		for _, w := range r.Remeasured {
			if w.Starved+w.Empty == "" {
				again++
			}
		}
		if r.Before.Bounce > 0 && r.After.Bounce > 0 {
			probed++
		}
		if r.Mixed {
			mixed++
		}
	}
	if probed == 0 {
		return f.notJudged("the bounce between the processors was not measured")
	}
	f.value = float64(mixed) / float64(probed)
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("%d of %d windows are mixed: the bounce between the processors changed by more than %gx around them; %d windows were measured again",
		mixed, probed, result.MixedRatio, again)
	if !f.ok {
		f.message += e.withoutMixed()
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
	return fmt.Sprintf("; without them p50 is %s instead of %s", format.Time(without), format.Time(with))
}

// checkStarved counts the windows that measured nothing because a rank had no processor. Most are
// measured again. If they are many, the others are those in which the machine happened to have one.
func checkStarved(e Evidence) finding {
	f := finding{limit: 0.2}
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
		f.ok, f.message = true, "every rank had a processor in all windows"
		return f
	}
	f.value = float64(again+kept) / float64(again+len(e.Result.Repeats))
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("%d windows measured nothing and were measured again, and %d remained (%s)", again, kept, last)
	if !f.ok {
		f.message += "; the others are those for which the machine had time"
	}
	return f
}

// checkEmptyWindows finds windows in which nothing was completed although no rank was starved. They
// were measured again, so the metrics show less of an outage than there was.
func checkEmptyWindows(e Evidence) finding {
	f := finding{ok: true, message: "something was completed in every window in which no rank was starved"}
	last := ""
	for _, r := range e.Result.Repeats {
		for _, w := range r.Remeasured {
			if w.Empty != "" {
				f.value++
				last = w.Empty
			}
		}
	}
	if f.ok = f.value == 0; !f.ok {
		f.message = fmt.Sprintf("%.0f windows were empty and were measured again (%s): the metrics leave them out; their stalls are in remeasured of the result",
			f.value, last)
	}
	return f
}

// checkSteal computes the share of time for which the hypervisor took the run's processors away.
func checkSteal(e Evidence) finding {
	f := finding{limit: 0.01}
	if f.value = e.stolen(); math.IsNaN(f.value) {
		return f.notJudged("the kernel does not report steal time")
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("the hypervisor took the processors away for %s of the time", percent(f.value))
	if !f.ok {
		f.message += fmt.Sprintf(": throughput may be %s low, and the tails include it", percent(f.value))
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

// checkRelay computes the share of time in which the relay of a network had packets to pass. A relay
// that hardly waits is slower than the load, whatever rate the network has.
func checkRelay(e Evidence) finding {
	f := finding{limit: 0.8}
	var windows int
	f.value, windows = e.overWindows(func(r *result.Repeat) (float64, bool) {
		if r.Network == nil {
			return 0, false
		}
		return float64(r.Network.BusyNS) / float64(r.Machine.CoveredNS), true
	})
	if windows == 0 {
		return f.notJudged("no repeat was completed")
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("the relay of the network was busy for %s of the time", percent(f.value))
	if !f.ok {
		f.message += ": it limits throughput, and not the transport or the rate of the network; use a lower rate or a smaller load"
	}
	return f
}

// checkFairness judges the median over the windows.
func checkFairness(e Evidence) finding {
	f := finding{limit: 0.5}
	var windows int
	if len(e.Result.Config.Classes) > 0 {
		return f.notJudged("clients of several classes have different loads")
	}
	f.value, windows = e.overWindows(func(r *result.Repeat) (float64, bool) {
		share, known := r.Samples[result.ClientFairness]
		return share, known
	})
	if windows == 0 {
		return f.notJudged("no repeat was completed")
	}
	f.ok = f.value >= f.limit
	f.message = fmt.Sprintf("the slowest client has %.2f of the median client's rate", f.value)
	if !f.ok {
		f.message += "; latencies are those of the others, because faster clients have more samples"
	}
	return f
}

// checkStorm finds connections of a storm that failed, were made late or left descriptors behind.
func checkStorm(e Evidence) finding {
	f := finding{limit: 0.1}
	var due, made, failed, leaked uint64
	reason := ""
	for _, repeat := range e.Result.Repeats {
		for _, r := range repeat.Ranks {
			if s := r.Storm; s != nil {
				due, made, failed, leaked = due+s.Due, made+s.Connections, failed+s.Failed, leaked+uint64(s.Leaked)
				reason = cmp.Or(reason, s.Error)
			}
		}
	}
	if due == 0 {
		return f.notJudged("no repeat was completed")
	}
	f.value = 1 - float64(made)/float64(due)
	f.ok = f.value <= f.limit && failed == 0 && leaked == 0
	f.message = fmt.Sprintf("%d of the %d connections due were made and dropped", made, due)
	if failed > 0 {
		f.message += fmt.Sprintf("; %d failed: %s", failed, reason)
	}
	if leaked > 0 {
		f.message += fmt.Sprintf("; they left %s behind", format.Count(int(leaked), "descriptor"))
	}
	if !f.ok && failed == 0 && leaked == 0 {
		f.message += "; connecting takes longer than the rate allows, so lower the rate"
	}
	return f
}

// checkCollections finds windows in which the garbage collector ran. It is off there unless the
// transport needs it.
func checkCollections(e Evidence) finding {
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
		return finding{ok: true, value: float64(collections), message: fmt.Sprintf(
			"the garbage collector was on, because the transport allocates: it ran %d times, which is part of what the transport costs", collections)}
	}
	if collections > 0 {
		return finding{value: float64(collections), message: fmt.Sprintf(
			"the garbage collector ran %d times in %d windows; it stops threads, so p99.9 and the maximum may be milliseconds high", collections, windows)}
	}
	return finding{ok: true, message: "the garbage collector did not run in any window"}
}

// checkPreempted computes the share of time for which polling threads that spin were not on a
// processor, by the kernel's account of each thread. Steal, which has a check of its own, does not
// count.
func checkPreempted(e Evidence) finding {
	f := finding{limit: 0.02}
	for _, p := range e.Result.Placement {
		if p.Idle != config.IdleSpin {
			return f.notJudged("the threads %s when there is nothing to do", p.Idle)
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
		return f.notJudged("the kernel does not report the threads' processor time")
	}
	f.value = 1 - on/elapsed
	if stolen := e.stolen(); stolen > 0 {
		f.value = max(0, f.value-stolen)
	}
	f.ok = f.value <= f.limit
	f.message = fmt.Sprintf("the polling threads were off their processors for %s of the time (%.0f switches a second)",
		percent(f.value), switches/elapsed*1e9)
	switch {
	case f.ok:
	case e.Pollers >= e.CPUs:
		f.message += fmt.Sprintf(": throughput may be %s low, and the tails include it; no processor is left for other programs", percent(f.value))
	default:
		f.message += fmt.Sprintf(": throughput may be %s low, and the tails include it; another program runs there", percent(f.value))
	}
	return f
}

// checkOversubscribed reports whether polling threads share processors.
func checkOversubscribed(e Evidence) finding {
	f := finding{
		ok:    !e.Oversubscribed,
		value: float64(e.Pollers), limit: float64(e.CPUs),
		message: fmt.Sprintf("%d polling threads have %s", e.Pollers, format.Count(e.CPUs, "processor")),
	}
	if !f.ok {
		turns := 0
		for _, c := range e.clients() {
			turns = max(turns, c.Thread.Sharing)
		}
		if turns > 0 {
			f.message += fmt.Sprintf(", and %d clients take turns on a thread", turns)
		}
		f.message += "; latencies include the time that a thread waits for one"
	}
	return f
}

// checkSpareProcessor reports whether a processor is left for the kernel and other programs.
func checkSpareProcessor(e Evidence) finding {
	f := finding{value: float64(e.CPUs - e.Pollers), limit: 1}
	f.ok = e.Oversubscribed || e.CPUs > e.Pollers // the first has a check of its own
	f.message = fmt.Sprintf("%d polling threads leave %d of %d processors to the kernel and other programs", e.Pollers, max(0, e.CPUs-e.Pollers), e.CPUs)
	if !f.ok {
		f.message = fmt.Sprintf("%d polling threads take all %d processors; what else runs interrupts them, and p99 and above include that", e.Pollers, e.CPUs)
	}
	return f
}

// checkVirtualMachine reports whether a hypervisor shares the processors out.
func checkVirtualMachine(e Evidence) finding {
	kind := e.Result.Environment.Identity.Virtualisation
	f := finding{ok: kind == "", message: "the machine is not virtual"}
	if !f.ok {
		f.value, f.message = 1, fmt.Sprintf("a virtual machine (%s): the hypervisor may move its processors, which changes how far they are apart, and take them away", kind)
	}
	return f
}

// checkPinned counts the threads that may move between processors, by the affinity that the kernel
// reported.
func checkPinned(e Evidence) finding {
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
	case e.Result.Plugin.Capabilities.Goroutines:
		f.ok = true
		f.message = "the polling loops are goroutines, which share the processors with those of the transport, as in any Go program"
	case !e.Result.Config.Pin:
		f.message = "the polling threads are not pinned, as configured; if they move during a window, p50 is of several distances"
	default:
		f.message = fmt.Sprintf("%d of %d polling threads are not pinned to their processors; does a cpuset restrict them?", unpinned, e.Pollers)
	}
	return f
}

// checkClosed finds ranks that measured, but then failed to close.
func checkClosed(e Evidence) finding {
	f := finding{ok: true, message: "every rank closed in time"}
	for _, err := range e.Closing {
		if err != nil {
			f.ok, f.message = false, err.Error() // the last one represents all
			f.value++
		}
	}
	if f.ok && e.Result.Incomplete {
		return f.notJudged("the run ended early")
	}
	return f
}

// checkStrangers counts what came to the transport's ports in the windows and belongs to no peer. A
// transport rejects it, which takes time. A port scan may come across a run; many are an attack, or
// another run with the same fixed ports.
func checkStrangers(e Evidence) finding {
	f := finding{limit: 0.001}
	strangers, ops := uint64(0), uint64(0)
	count := func(stats []transport.Stat) {
		for _, s := range stats {
			if s.Name == "strangers" || s.Name == "forged" {
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
	f.value = float64(strangers) / float64(max(ops, 1))
	f.ok = f.value <= f.limit
	switch {
	case strangers == 0:
		f.message = "nothing came to the transport's ports that belongs to no peer"
	case f.ok:
		f.message = fmt.Sprintf("%d packets or connections of strangers came to the transport's ports, and were rejected", strangers)
	default:
		f.message = fmt.Sprintf("%d packets or connections of strangers came to the transport's ports, and were rejected: that took time from the ranks; keep others away from the ports", strangers)
	}
	return f
}
