package daemon

import (
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/loop"
)

// The phases of a daemon's loop, as indices into loopTimer.phases.
const (
	phasePoll = iota
	phaseServe
	phaseScan
	phaseDelegate
	phaseFlush
	numPhases
)

// loopTimer times the phases of sampled iterations of a daemon's loop. The sampling is chosen
// so that the stamps cost about 1% of an iteration.
type loopTimer struct {
	clock    *machine.Clock
	gaps     *loop.GapWatch // learns how long working iterations are
	sampler  loop.Sampler
	every    int
	readCost uint64  // ticks of one reading of the clock
	cost     float64 // nanoseconds of timing one iteration

	phases               [numPhases]*loop.Timing
	whole                *loop.Timing
	turnaround           *loop.Timing
	last                 uint64 // ticks: the end of the phase before
	spent                uint64 // ticks in this iteration's phases
	polling              uint64 // ticks in its poll phase
	frozen               bool   // the window is over
	timing               bool   // the iteration
	busyTimed, busyTicks uint64 // timed iterations that found work, and their time
}

// loopEvery is the sampling of the first window.
const loopEvery = 1024

func newLoopTimer(clock *machine.Clock, gaps *loop.GapWatch) loopTimer {
	t := loopTimer{clock: clock, gaps: gaps, every: loopEvery, readCost: loop.ReadCost(clock),
		whole: loop.NewTiming(), turnaround: loop.NewTiming()}
	for i := range t.phases {
		t.phases[i] = loop.NewTiming()
	}
	t.cost = loop.Undisturbed(clock, func(uint64) {
		t.start()
		for i := range t.phases {
			t.stamp(i)
		}
		t.finish(true, true)
	})
	t.cost = float64(clock.Nanos(uint64(t.cost*1024))) / 1024
	t.begin()
	return t
}

// begin prepares for a window.
func (t *loopTimer) begin() {
	t.sampler = loop.NewSampler(t.every, t.clock.Now())
	t.reset()
}

// reset drops all samples; the window begins to measure.
func (t *loopTimer) reset() {
	for _, p := range t.phases {
		p.Reset()
	}
	t.whole.Reset()
	t.turnaround.Reset()
	t.busyTimed, t.busyTicks = 0, 0
	t.frozen, t.timing = false, false
}

// stop ends the sampling of the window.
func (t *loopTimer) stop() { t.frozen = true }

// settle chooses the sampling of the next window by the mean time of an iteration in this one,
// in nanoseconds.
func (t *loopTimer) settle(iteration float64) { t.every = loop.SampleEveryFor(t.cost, iteration) }

// start begins to time an iteration, if the window measures.
func (t *loopTimer) start() {
	t.timing = !t.frozen
	t.spent = 0
	t.last = t.clock.Now()
}

// stamp ends a phase of the iteration.
func (t *loopTimer) stamp(phase int) {
	spent := t.clock.Now() - t.last
	spent -= min(spent, t.readCost)
	t.phases[phase].Record(t.clock, spent)
	t.spent += spent
	if phase == phasePoll {
		t.polling = spent
	}
	t.last = t.clock.Now() // leaves out the time that recording took
}

// finish ends the iteration; served reports whether it served peers, and busy whether it found
// work.
func (t *loopTimer) finish(served, busy bool) {
	t.timing = false
	t.whole.Record(t.clock, t.spent)
	if busy {
		t.busyTimed++
		t.busyTicks += t.spent
		t.gaps.Work(t.spent)
	}
	if served {
		t.turnaround.Record(t.clock, t.spent-t.polling)
	}
}

// report fills in the phases, except those without samples, such as scan outside mesh-proxied.
func (t *loopTimer) report(r *record.DaemonReport) {
	r.PhaseEvery, r.PhaseNS = int(t.sampler.Every), t.cost
	r.Phases = map[string]record.TimingReport{}
	add := func(name string, phase *loop.Timing) {
		if phase.Samples > 0 {
			r.Phases[name] = phase.Report(t.clock)
		}
	}
	for i, name := range record.PhaseNames {
		add(name, t.phases[i])
	}
	add(record.PhaseLoop, t.whole)
	add(record.PhaseTurnaround, t.turnaround)
	if t.busyTimed > 0 {
		r.BusyNS = uint64(float64(t.clock.Nanos(t.busyTicks)) / float64(t.busyTimed) * float64(
			r.Loops-r.EmptyLoops))
	}
}
