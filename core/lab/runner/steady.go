package runner

import (
	"math"
	"sync"
	"time"

	"transportbench/core/base/record"
)

// A warm-up is steady when the rates of this many rounds of progress lie within
// this distance of their mean.
const (
	steadyRounds = 5
	steadySpread = 0.1
)

// steady tells when throughput has settled. Ranks report their progress on their
// own; a round is over when each of the callers has told something new.
type steady struct {
	callers int

	mu      sync.Mutex
	last    map[int]record.Progress
	rates   map[int]float64 // of this round, op/s
	rounds  []float64
	reached chan struct{} // to be closed when it is steady; nil where nobody watches
}

func newSteady(callers int) *steady {
	return &steady{callers: callers, last: map[int]record.Progress{}, rates: map[int]float64{}}
}

// watch returns a channel that is closed when the throughput is steady.
func (s *steady) watch() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached, s.rounds = make(chan struct{}), nil
	clear(s.last)
	clear(s.rates)
	return s.reached
}

// unwatch ends watch: what ranks tell after it is of another phase.
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
	sum := 0.0
	for _, rate := range s.rates {
		sum += rate
	}
	clear(s.rates)
	s.rounds = append(s.rounds, sum)
	if settled(s.rounds) {
		close(s.reached)
		s.reached = nil
	}
}

// settled looks at the last rounds.
func settled(rounds []float64) bool {
	if len(rounds) < steadyRounds {
		return false
	}
	last := rounds[len(rounds)-steadyRounds:]
	mean, away := 0.0, 0.0
	for _, rate := range last {
		mean += rate / steadyRounds
	}
	for _, rate := range last {
		away = max(away, math.Abs(rate-mean))
	}
	return mean > 0 && away <= steadySpread*mean
}
