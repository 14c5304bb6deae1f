package runner

import (
	"math"
	"slices"
	"sync"
	"time"

	"transportbench/core/base/record"
)

// A warm-up is steady when the rates of the last steadyRounds rounds of progress are within
// steadySpread of their mean, as a fraction.
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
	rates   map[int]float64         // of this round in op/s, by rank
	rounds  []float64               // total rates in op/s
	reached chan struct{}           // nil unless a goroutine waits
}

func newSteady(callers int) *steady {
	return &steady{callers: callers, last: map[int]record.Progress{}, rates: map[int]float64{}}
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
	s.rates[r] = float64(p.Ops-min(before.Ops, p.Ops)) / (p.Elapsed - before.Elapsed).Seconds()
	if len(s.rates) < s.callers {
		return
	}
	total := 0.0
	for _, rate := range s.rates {
		total += rate
	}
	clear(s.rates)
	s.rounds = append(s.rounds, total)
	if settled(s.rounds) {
		close(s.reached)
		s.reached = nil
	}
}

// settled reports whether the last rounds are steady.
func settled(rounds []float64) bool {
	if len(rounds) < steadyRounds {
		return false
	}
	last := rounds[len(rounds)-steadyRounds:]
	mean := 0.0
	for _, rate := range last {
		mean += rate / steadyRounds
	}
	return mean > 0 && !slices.ContainsFunc(last, func(rate float64) bool {
		return math.Abs(rate-mean) > steadySpread*mean
	})
}
