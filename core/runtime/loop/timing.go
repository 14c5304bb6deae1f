package loop

import (
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// Timing collects the samples of one duration.
type Timing struct {
	histogram *record.Recorder // nanoseconds
	Sum       uint64           // ticks
	Samples   uint64
}

// NewTiming returns a Timing without samples.
func NewTiming() *Timing { return &Timing{histogram: record.NewRecorder()} }

// Reset drops all samples.
func (t *Timing) Reset() {
	t.histogram.Reset()
	t.Sum, t.Samples = 0, 0
}

// Record adds a sample. It does not allocate.
func (t *Timing) Record(clock *machine.Clock, ticks uint64) {
	t.histogram.Record(clock.Nanos(ticks))
	t.Sum += ticks
	t.Samples++
}

// Add adds the samples of another Timing.
func (t *Timing) Add(other *Timing) {
	t.histogram.Merge(other.histogram)
	t.Sum += other.Sum
	t.Samples += other.Samples
}

// Report returns the samples in nanoseconds.
func (t *Timing) Report(clock *machine.Clock) record.TimingReport {
	return t.report(clock, t.histogram.Histogram())
}

// Outline is Report with a histogram that takes little space.
func (t *Timing) Outline(clock *machine.Clock) record.TimingReport {
	return t.report(clock, t.histogram.Histogram().Outline())
}

func (t *Timing) report(clock *machine.Clock, h *record.Histogram) record.TimingReport {
	r := record.TimingReport{Samples: t.Samples, Histogram: h.Encode()}
	if t.Samples > 0 {
		r.MeanNS = float64(clock.Nanos(t.Sum)) / float64(t.Samples)
	}
	return r
}

// Sampler chooses the ops to time: on average one of every ops, at random distances, so that
// sampling does not fall into step with batches.
type Sampler struct {
	Every  uint32
	Left   uint32
	random Random
}

// NewSampler returns a sampler of one op of every.
func NewSampler(every int, seed uint64) Sampler {
	s := Sampler{Every: uint32(max(every, 1)), random: NewRandom(seed, 0, drawSamples)}
	s.next()
	return s
}

// next draws the distance to the next sample: uniform from 1 to 2*every-1.
func (s *Sampler) next() {
	if s.Every == 1 {
		s.Left = 1
		return
	}
	s.Left = 1 + uint32(s.random.Below(uint64(2*s.Every-1)))
}

// Take counts one op and reports whether it is sampled.
func (s *Sampler) Take() bool {
	if s.Left--; s.Left != 0 {
		return false
	}
	s.next()
	return true
}

// ReadCost measures one clock reading, in ticks.
func ReadCost(clock *machine.Clock) uint64 {
	return uint64(Undisturbed(clock, func(uint64) { clock.Now() }) - Undisturbed(clock,
		func(uint64) {}))
}

// Undisturbed returns the ticks that f takes: the minimum over several batches, one of which
// ran without interruption.
func Undisturbed(clock *machine.Clock, f func(uint64)) float64 {
	const batches, rounds = 16, 256
	shortest := ^uint64(0)
	for range batches {
		start := clock.Now()
		for i := range uint64(rounds) {
			f(i)
		}
		shortest = min(shortest, clock.Now()-start)
	}
	return float64(shortest) / rounds
}

// stampBudget is the share of an op's time that timing may cost. It is half of what the
// result's check allows, because a window can be faster than the warm-up was.
const stampBudget = 0.01

// SampleEveryFor returns the sampling, a power of two, that keeps cost within the budget for
// ops that take opTime on average. Both are in nanoseconds.
func SampleEveryFor(cost, opTime float64) int {
	every := 1
	for every < 1<<20 && cost/float64(every) > stampBudget*opTime {
		every *= 2
	}
	return every
}
