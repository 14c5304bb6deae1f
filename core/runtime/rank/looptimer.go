package rank

import (
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// The phases of a daemon's loop, as indices into loopTimer.phases.
const (
	phasePoll = iota
	phaseServe
	phaseScan
	phaseFlush
	numPhases
)

// loopTimer times the phases of some turns of a daemon's loop, chosen like the
// latency samples so that the stamps cost about 1% of a turn.
type loopTimer struct {
	clock    *machine.Clock
	sampler  sampler
	every    int
	readCost uint64  // ticks of one reading of the clock
	cost     float64 // nanoseconds of one timed turn

	phases     [numPhases]*timing
	whole      *timing
	turnaround *timing
	last       uint64 // ticks: the phase before ended
	spent      uint64 // in this turn's phases
	polling    uint64 // in the first of them
	frozen     bool   // the window is over
}

// loopEvery is the choice before any phase has run.
const loopEvery = 1024

func newLoopTimer(clock *machine.Clock) loopTimer {
	t := loopTimer{clock: clock, every: loopEvery, readCost: readCost(clock), whole: newTiming(), turnaround: newTiming()}
	for i := range t.phases {
		t.phases[i] = newTiming()
	}
	t.cost = undisturbed(clock, func(uint64) {
		t.start()
		for i := range t.phases {
			t.stamp(i)
		}
		t.finish(true)
	})
	t.cost = float64(clock.Nanos(uint64(t.cost*1024))) / 1024
	t.begin()
	return t
}

// begin prepares a phase.
func (t *loopTimer) begin() {
	t.sampler = newSampler(t.every, t.clock.Now())
	t.reset()
}

// reset begins the window.
func (t *loopTimer) reset() {
	for _, p := range t.phases {
		p.reset()
	}
	t.whole.reset()
	t.turnaround.reset()
	t.frozen = false
}

// stop ends the window.
func (t *loopTimer) stop() { t.frozen = true }

// settle chooses how often the next window is timed, by the time that a turn
// of this one took.
func (t *loopTimer) settle(turn float64) { t.every = sampleEveryFor(t.cost, turn) }

// take says whether a turn is timed; it is then begun.
func (t *loopTimer) take() bool {
	if !t.sampler.take() || t.frozen {
		return false
	}
	t.start()
	return true
}

func (t *loopTimer) start() {
	t.spent = 0
	t.last = t.clock.Now()
}

// stamp ends a phase.
func (t *loopTimer) stamp(phase int) {
	spent := t.clock.Now() - t.last
	spent -= min(spent, t.readCost)
	t.phases[phase].record(t.clock, spent)
	t.spent += spent
	if phase == phasePoll {
		t.polling = spent
	}
	t.last = t.clock.Now() // what recording took is nobody's
}

// finish ends the turn; served says that peers had sent something.
func (t *loopTimer) finish(served bool) {
	t.whole.record(t.clock, t.spent)
	if served {
		t.turnaround.record(t.clock, t.spent-t.polling)
	}
}

func (t *loopTimer) report(r *record.DaemonReport) error {
	r.PhaseEvery, r.PhaseNS = int(t.sampler.every), t.cost
	r.Phases = map[string]record.TimingReport{}
	for i, name := range record.PhaseNames {
		if err := t.add(r, name, t.phases[i]); err != nil {
			return err
		}
	}
	if err := t.add(r, record.PhaseLoop, t.whole); err != nil {
		return err
	}
	return t.add(r, record.PhaseTurnaround, t.turnaround)
}

// add leaves out what has no samples, such as the scan where there is none.
func (t *loopTimer) add(r *record.DaemonReport, name string, from *timing) error {
	if from.samples == 0 {
		return nil
	}
	report, err := from.report(t.clock)
	r.Phases[name] = report
	return err
}
