package rank

import (
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// timing collects the samples of one duration.
type timing struct {
	histogram *record.Recorder // nanoseconds
	sum       uint64           // ticks
	samples   uint64
}

func newTiming() *timing { return &timing{histogram: record.NewRecorder()} }

func (t *timing) reset() {
	t.histogram.Reset()
	t.sum, t.samples = 0, 0
}

func (t *timing) record(clock *machine.Clock, ticks uint64) {
	t.histogram.Record(clock.Nanos(ticks))
	t.sum += ticks
	t.samples++
}

func (t *timing) report(clock *machine.Clock) record.TimingReport {
	r := record.TimingReport{Samples: t.samples, Histogram: t.histogram.Histogram().Encode()}
	if t.samples > 0 {
		r.MeanNS = float64(clock.Nanos(t.sum)) / float64(t.samples)
	}
	return r
}

// sampler chooses the ops to time: on average one of every ops, at random distances, so that
// sampling does not fall into step with batches.
type sampler struct {
	every  uint32
	left   uint32
	random random
}

func newSampler(every int, seed uint64) sampler {
	s := sampler{every: uint32(max(every, 1)), random: newRandom(seed, 0, drawSamples)}
	s.next()
	return s
}

// next draws the distance to the next sample: uniform from 1 to 2*every-1.
func (s *sampler) next() {
	if s.every == 1 {
		s.left = 1
		return
	}
	s.left = 1 + uint32(s.random.below(uint64(2*s.every-1)))
}

// take counts one op and reports whether it is sampled.
func (s *sampler) take() bool {
	if s.left--; s.left != 0 {
		return false
	}
	s.next()
	return true
}

// recentSamples is the number of latencies of a client in the live view; a power of two.
const recentSamples = 256

// live has the figures of a client that the control side may read while the loop runs. The loop
// writes ops when it counts some, but at most once in liveEvery, and the latencies as it samples
// them.
type live struct {
	_      [128]byte
	ops    atomic.Uint64
	count  atomic.Uint64
	recent [recentSamples]atomic.Uint32 // nanoseconds

	// The rest is the loop's alone.
	due      uint64 // ticks: when ops may be written again
	every    uint64 // ticks
	silences silences
}

// liveEvery is less than 1% of a round of progress in a warm-up, and makes the cost of writing ops
// vanish.
const liveEvery = 50 * time.Microsecond

// publish sets ops, unless that was done a moment ago.
func (l *live) publish(ops, now uint64) {
	if now >= l.due {
		if now-l.due >= l.silences.limit {
			l.silences.add(now - l.due)
		}
		l.ops.Store(ops)
		l.due = now + l.every
	}
}

// begin starts a window, end ends it.
func (l *live) begin(now uint64, s *schedule) {
	gap := 0.0
	if s != nil {
		gap = s.gap
	}
	l.silences.begin(gap)
	l.due = now
}

func (l *live) end(now uint64) {
	if now > l.due && now-l.due >= l.silences.limit {
		l.silences.add(now - l.due)
	}
	l.silences.limit = noLimit
}

func (l *live) record(ns uint64) {
	n := l.count.Load()
	l.recent[n%recentSamples].Store(uint32(min(ns, 1<<32-1)))
	l.count.Store(n + 1)
}

func (l *live) reset() {
	l.ops.Store(0)
	l.count.Store(0)
	l.due = 0
}

// progressOf sums up the live figures of a rank's clients.
func progressOf(clients []*client, elapsed time.Duration) record.Progress {
	p := record.Progress{Elapsed: elapsed}
	var recent []uint32
	for _, c := range clients {
		p.Ops += c.live.ops.Load()
		for i := range min(c.live.count.Load(), recentSamples) {
			recent = append(recent, c.live.recent[i].Load())
		}
	}
	if len(recent) > 0 {
		slices.Sort(recent)
		p.RecentP50 = float64(recent[len(recent)/2])
		p.RecentP99 = float64(recent[len(recent)*99/100])
	}
	return p
}

// sampleCost measures the cost of recording one latency, in nanoseconds: an entry in the histogram
// and one in the live view.
func sampleCost(clock *machine.Clock) float64 {
	h, l := record.NewRecorder(), &live{}
	ticks := undisturbed(clock, func(i uint64) {
		ns := clock.Nanos(100 + i%64)
		h.Record(ns)
		l.record(ns)
	})
	return float64(clock.Nanos(uint64(ticks*1024))) / 1024
}

// readCost measures one clock reading, in ticks.
func readCost(clock *machine.Clock) uint64 {
	return uint64(undisturbed(clock, func(uint64) { clock.Now() }) - undisturbed(clock,
		func(uint64) {}))
}

// undisturbed returns the ticks that f takes: the minimum over several batches, one of which
// ran without interruption.
func undisturbed(clock *machine.Clock, f func(uint64)) float64 {
	const batches, rounds = 16, 256
	least := ^uint64(0)
	for range batches {
		start := clock.Now()
		for i := range uint64(rounds) {
			f(i)
		}
		least = min(least, clock.Now()-start)
	}
	return float64(least) / rounds
}

// stampBudget is the share of an op's time that timing may cost. It is half of what the
// result's check allows, because a window can be faster than the warm-up was.
const stampBudget = 0.01

// sampleEveryFor returns the sampling, a power of two, that keeps cost within the budget for
// ops that take opTime on average. Both are in nanoseconds.
func sampleEveryFor(cost, opTime float64) int {
	every := 1
	for every < 1<<20 && cost/float64(every) > stampBudget*opTime {
		every *= 2
	}
	return every
}

// sliceCounter counts the operations in each slice of the window, so that drift shows. It is
// updated at sampled operations only.
type sliceCounter struct {
	length uint64 // ticks
	next   uint64 // ticks: the end of the current slice
	at     int
	done   [record.Slices]uint64 // operations completed by the end of each slice
}

func (s *sliceCounter) reset(window uint64) { *s = sliceCounter{length: window / record.Slices} }

func (s *sliceCounter) start(now uint64) { s.next = now + s.length }

// record sets the number of operations completed by now.
func (s *sliceCounter) record(now, ops uint64) {
	for now >= s.next && s.at < record.Slices-1 {
		// Operations since the last sample count in the earlier slice.
		s.at++
		s.done[s.at] = s.done[s.at-1]
		s.next += s.length
	}
	s.done[s.at] = ops
}

// report returns the operations of each slice, or nil if the window was cut short.
func (s *sliceCounter) report() []uint64 {
	if s.at < record.Slices-1 {
		return nil
	}
	list := make([]uint64, record.Slices)
	before := uint64(0)
	for i, done := range s.done {
		list[i] = done - min(before, done)
		before = done
	}
	return list
}
