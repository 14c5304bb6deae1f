package rank

import (
	"math"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
)

// pace is the schedule of an open-loop client: when each operation is due, in
// absolute ticks, whatever became of those before. A client that falls behind
// so catches up, and the wait counts as response time.
type pace struct {
	gap     float64 // mean, ticks
	poisson bool
	random  random
	at      float64 // ticks since the start; exact beyond any window
	start   uint64
	due     uint64 // absolute ticks
}

// newPace returns nil for a closed loop. number counts the clients of all ranks,
// which share the load evenly.
func newPace(cfg config.Config, clock *machine.Clock, number int) *pace {
	if cfg.Rate == 0 {
		return nil
	}
	perClient := float64(cfg.Rate) / float64(cfg.CallingRanks()*cfg.Clients)
	return &pace{
		gap: clock.Hertz() / perClient, poisson: cfg.Arrival == config.ArrivalPoisson,
		random: newRandom(cfg.Seed, uint64(number), drawGaps),
	}
}

// begin starts the schedule. Equal gaps begin at a random part of the first, so
// that clients do not call in step.
func (p *pace) begin(now uint64) {
	p.start, p.at = now, 0
	first := p.gap * p.random.unit()
	if p.poisson {
		first = p.draw()
	}
	p.at = first
	p.due = now + uint64(p.at)
}

// next moves on to the operation after the one that is due.
func (p *pace) next() {
	p.at += p.draw()
	p.due = p.start + uint64(p.at)
}

// overdue is how many operations are due at now and were not moved past; beyond
// the first it is what the mean gap makes of the time.
func (p *pace) overdue(now uint64) uint64 {
	if p.due > now {
		return 0
	}
	return 1 + uint64(float64(now-p.due)/p.gap)
}

func (p *pace) draw() float64 {
	if !p.poisson {
		return p.gap
	}
	return -math.Log(p.random.unit()) * p.gap
}
