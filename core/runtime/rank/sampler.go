package rank

import (
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// sampler chooses which ops are timed: on average one in every, at random
// distances, so that sampling does not fall into step with batches.
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

// take counts one op and says whether it is sampled.
func (s *sampler) take() bool {
	if s.left--; s.left != 0 {
		return false
	}
	s.next()
	return true
}

// recentSamples is how many of the last latencies of a client the live view
// shows; a power of two.
const recentSamples = 256

// live is what the control side may read while a client's loop runs. The loop
// writes it with each latency sample and at no other time.
type live struct {
	_      [128]byte
	ops    atomic.Uint64
	count  atomic.Uint64
	recent [recentSamples]atomic.Uint32 // nanoseconds
}

func (l *live) record(ops, ns uint64) {
	n := l.count.Load()
	l.recent[n%recentSamples].Store(uint32(min(ns, 1<<32-1)))
	l.count.Store(n + 1)
	l.ops.Store(ops)
}

func (l *live) reset() {
	l.ops.Store(0)
	l.count.Store(0)
}

// progressOf sums up what a rank's clients show.
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

// sampleCost measures what timing one op costs in nanoseconds: a reading of the
// clock at each end, an entry in the histogram, and one in the live view.
func sampleCost(clock *machine.Clock) float64 {
	h, l := record.NewHistogram(), &live{}
	ticks := undisturbed(clock, func(i uint64) {
		before := clock.Now()
		ns := clock.Nanos(clock.Now() - before)
		h.Record(ns)
		l.record(i, ns)
	})
	return float64(clock.Nanos(uint64(ticks*1024))) / 1024
}

// readCost measures one reading of the clock, in ticks. An op that is timed lasts
// that much longer than one that is not, between whose stamps there is none.
func readCost(clock *machine.Clock) uint64 {
	return uint64(undisturbed(clock, func(uint64) { clock.Now() }) - undisturbed(clock, func(uint64) {}))
}

// clockStep returns the least difference, in nanoseconds, between two readings
// of the clock that differ.
func clockStep(clock *machine.Clock) float64 {
	least := ^uint64(0)
	for last, i := clock.Now(), 0; i < 1000; i++ {
		now := clock.Now()
		if now != last {
			least = min(least, now-last)
		}
		last = now
	}
	return float64(clock.Nanos(least*1024)) / 1024
}

// undisturbed returns the ticks that f takes: the least of several batches is
// one that nothing interrupted.
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

// stampBudget is the share of an op that timing may cost. It is half of what the
// check allows: windows can be faster than the warm-up was.
const stampBudget = 0.01

// sampleEveryFor returns the sampling, a power of two, that keeps a cost within
// the budget at a mean time per op of one client.
func sampleEveryFor(cost, opTime float64) int {
	every := 1
	for every < 1<<20 && cost/float64(every) > stampBudget*opTime {
		every *= 2
	}
	return every
}
