package runner

import (
	"math"
	"slices"
	"sync"
	"time"

	"transportbench/core/base/record"
)

// A warm-up is steady when the rates of the last steadyRounds rounds of progress are within
// steadySpread of their mean, as a fraction, and beyond that within two standard deviations of a
// count: a round of large messages counts few.
const (
	steadyRounds = 5
	steadySpread = 0.1
)

// steady detects that throughput has settled. Ranks report progress independently; a round ends
// once every calling rank has reported.
type steady struct {
	callers int

	mu      sync.Mutex
	last    map[int]record.Progress // by rank
	rates   map[int]round           // of this round, by rank
	rounds  []round                 // of all calling ranks
	reached chan struct{}           // nil unless a goroutine waits
}

// round is a rate in op/s, and by how much counting alone makes it vary.
type round struct{ rate, noise float64 }

func newSteady(callers int) *steady {
	return &steady{callers: callers, last: map[int]record.Progress{}, rates: map[int]round{}}
}

// watch starts anew and returns a channel that is closed once the throughput is steady.
func (s *steady) watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached, s.rounds = make(chan struct{}), nil
	clear(s.last)
	clear(s.rates)
	return s.reached
}

// unwatch ends watch, so that later progress, which belongs to another window, is ignored.
func (s *steady) unwatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached = nil
}

func (s *steady) update(r int, p record.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reached == nil || p.Drained {
		return
	}
	before, known := s.last[r]
	s.last[r] = p
	if !known || p.Elapsed-before.Elapsed < time.Millisecond {
		return
	}
	ops, seconds := float64(p.Ops-before.Ops), (p.Elapsed - before.Elapsed).Seconds()
	s.rates[r] = round{ops / seconds, 2 * math.Sqrt(ops) / seconds}
	if len(s.rates) < s.callers {
		return
	}
	total := round{}
	for _, one := range s.rates {
		total.rate += one.rate
		total.noise = math.Hypot(total.noise, one.noise)
	}
	clear(s.rates)
	s.rounds = append(s.rounds, total)
	if settled(s.rounds) {
		close(s.reached)
		s.reached = nil
	}
}

// settled reports whether the last rounds are steady.
func settled(rounds []round) bool {
	if len(rounds) < steadyRounds {
		return false
	}
	last := rounds[len(rounds)-steadyRounds:]
	mean := 0.0
	for _, one := range last {
		mean += one.rate / steadyRounds
	}
	return mean > 0 && !slices.ContainsFunc(last, func(one round) bool {
		return math.Abs(one.rate-mean) > steadySpread*mean+one.noise
	})
}
