package client

import (
	"math"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/runtime/loop"
)

// schedule has the intended start of each operation of an open-loop client, in absolute ticks.
// It does not depend on when earlier operations complete: a client that falls behind catches
// up, and the delay counts as response time.
type schedule struct {
	gap     float64 // mean, ticks
	poisson bool
	random  loop.Random
	at      float64 // ticks since start; float64 is exact for longer than any window
	start   uint64
	Due     uint64 // absolute ticks: the next operation
}

// newSchedule returns nil for a closed loop. The clients of all ranks share the load evenly;
// number is the client's among them and seeds the gaps.
func newSchedule(cfg config.Config, clock *machine.Clock, number int) *schedule {
	if cfg.Rate == 0 {
		return nil
	}
	perClient := float64(cfg.Rate) / float64(cfg.TotalClients())
	return &schedule{
		gap: clock.Hertz() / perClient, poisson: cfg.Arrival == config.ArrivalPoisson,
		random: loop.NewRandom(cfg.Seed, uint64(number), loop.DrawGaps),
	}
}

// begin starts the schedule at now. With equal gaps, the first one is cut at random, so that
// clients do not call in step.
func (s *schedule) begin(now uint64) {
	s.start = now
	if s.poisson {
		s.at = s.draw()
	} else {
		s.at = s.gap * s.random.Unit()
	}
	s.Due = now + uint64(s.at)
}

// next moves to the next operation.
func (s *schedule) next() {
	s.at += s.draw()
	s.Due = s.start + uint64(s.at)
}

// overdue returns how many operations that next has not passed are due at now. It knows the
// first exactly and computes the others from the mean gap.
func (s *schedule) overdue(now uint64) uint64 {
	if s.Due > now {
		return 0
	}
	return 1 + uint64(float64(now-s.Due)/s.gap)
}

func (s *schedule) draw() float64 {
	if !s.poisson {
		return s.gap
	}
	return -math.Log(s.random.Unit()) * s.gap
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
