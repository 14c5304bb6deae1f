package client

import (
	"slices"
	"sync/atomic"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/loop"
)

// recentSamples is the number of latencies of a client in the live view; a power of two.
const recentSamples = 256

// live has the figures of a client that the control side may read while the loop runs. The loop
// writes ops at most once in liveEvery, and each latency when it is sampled.
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

// publish sets ops, unless it was set less than liveEvery ago.
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
	l.silences.limit = loop.NoLimit
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

// Progress sums up the live figures of a rank's clients.
func Progress(clients []*Client, elapsed time.Duration) record.Progress {
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

// SampleCost measures the cost of recording one latency, in nanoseconds: an entry in the histogram
// and one in the live view.
func SampleCost(clock *machine.Clock) float64 {
	h, l := record.NewRecorder(), &live{}
	ticks := loop.Undisturbed(clock, func(i uint64) {
		ns := clock.Nanos(100 + i%64)
		h.Record(ns)
		l.record(ns)
	})
	return float64(clock.Nanos(uint64(ticks*1024))) / 1024
}

// sliceCounter counts the operations in each slice of the window, so that drift shows. It counts in
// steps, of which a slice has several, and is updated at sampled operations only.
type sliceCounter struct {
	length uint64               // ticks of a step
	next   uint64               // ticks: the end of the current step
	at     int                  // the step
	done   [record.Steps]uint64 // operations completed by the end of each step
}

const sliceSteps = record.Steps / record.Slices

func (s *sliceCounter) reset(window uint64) { *s = sliceCounter{length: window / record.Steps} }

func (s *sliceCounter) start(now uint64) { s.next = now + s.length }

// record sets the number of operations completed by now.
func (s *sliceCounter) record(now, ops uint64) {
	for now >= s.next && s.at < record.Steps-1 {
		// Operations since the last sample count in the earlier step.
		s.at++
		s.done[s.at] = s.done[s.at-1]
		s.next += s.length
	}
	s.done[s.at] = ops
}

// report returns the operations of each slice, or nil if the window was cut short.
func (s *sliceCounter) report() []uint64 {
	if s.at < record.Steps-sliceSteps {
		return nil
	}
	list := make([]uint64, record.Slices)
	before := uint64(0)
	for i := range list {
		done := s.done[min((i+1)*sliceSteps-1, s.at)]
		list[i] = done - min(before, done)
		before = done
	}
	return list
}
