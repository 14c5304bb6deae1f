package client

import (
	"math"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/workload"
)

// schedule has the intended start of each operation of an open-loop client, in absolute ticks.
// It does not depend on when earlier operations complete: a client that falls behind catches
// up, and the delay counts as response time.
type schedule struct {
	gap    float64        // mean, ticks
	known  bool           // the gaps come from a trace
	first  func() float64 // draws the ticks from the begin to the first operation
	draw   func() float64 // draws the ticks to the next one
	random loop.Random
	at     float64 // ticks since start; float64 is exact for longer than any window
	start  uint64
	due    uint64  // absolute ticks: the next operation
	whole  float64 // gap of windows in which all ranks are called
}

// never is more ticks than a window has, and few enough that now plus never does not overflow.
const never = 1 << 62

// longestGap bounds the mean gap of ranks that hardly call. No draw from it exceeds never.
const longestGap = never >> 6

// newSchedule returns nil for a closed loop. The clients of all ranks share the load evenly, or as
// a matrix of traffic says; number is the client's among them and seeds the gaps. The gaps are
// those of stream unless it is nil or the rate is RateMax.
func newSchedule(cfg config.Config, clock *machine.Clock, rank, number int,
	stream *workload.Stream) *schedule {
	if cfg.Rate == 0 {
		return nil
	}
	perClient := float64(cfg.Rate) * cfg.CallsShare(rank) / float64(cfg.Clients)
	gap := min(clock.Hertz()/perClient, longestGap)
	s := &schedule{gap: gap, whole: gap,
		random: loop.NewRandom(cfg.Seed, uint64(number), loop.DrawGaps)}
	switch {
	case stream != nil && cfg.Rate.Offers():
		scale := clock.Hertz() / 1e9 / cfg.Speed.Factor()
		s.draw = func() float64 { return min(float64(stream.After())*scale, never) }
		s.first, s.known = s.draw, true
	case cfg.Arrival == config.ArrivalPoisson:
		s.draw = func() float64 { return -math.Log(s.random.Unit()) * s.gap }
		s.first = s.draw
	default: // equal gaps, the first one cut at random, so that clients do not call in step
		s.draw = func() float64 { return s.gap }
		s.first = func() float64 { return s.gap * s.random.Unit() }
	}
	return s
}

// begin starts the schedule at now.
func (s *schedule) begin(now uint64) {
	s.start = now
	s.at = s.first()
	s.due = now + uint64(s.at)
}

// next moves to the next operation.
func (s *schedule) next() {
	s.at += s.draw()
	s.due = s.start + uint64(s.at)
}

// overdue returns how many operations that next has not passed are due at now: exactly for a trace;
// otherwise all but the first are computed from the mean gap.
func (s *schedule) overdue(now uint64) (n uint64) {
	for ; s.known && s.due <= now; n++ {
		s.next()
	}
	if s.known {
		return n
	}
	if s.due > now {
		return 0
	}
	return 1 + uint64(float64(now-s.due)/s.gap)
}

// burner spins for a known time before each call of a client. It slows a transport down by a
// known amount, against which comparisons are tested.
type burner struct {
	clock     *machine.Clock
	perOp     int64 // ticks
	debt      int64 // ticks; negative after a burn that took too long
	maxExcess int64 // ticks: the largest excess that is credited to the next burn
}

// maxCredit is longer than any step of a clock. A larger excess was not a step but an
// interruption, such as another thread's time on the core, and is not credited.
const maxCredit = 200 * time.Nanosecond

func newBurner(clock *machine.Clock, perOp time.Duration) burner {
	return burner{clock: clock, perOp: int64(clock.Ticks(perOp)),
		maxExcess: int64(clock.Ticks(maxCredit))}
}

// spend spins for n calls. The clock advances in steps, so a burn takes too long by part of a
// step; the next one is shorter by that much.
func (b *burner) spend(n int) {
	if b.perOp == 0 {
		return
	}
	b.burn(n)
}

func (b *burner) burn(n int) {
	b.debt += b.perOp * int64(n)
	if b.debt <= 0 {
		return
	}
	start := b.clock.Now()
	for {
		if spent := int64(b.clock.Now() - start); spent >= b.debt {
			b.debt = max(b.debt-spent, -b.maxExcess)
			return
		}
	}
}
