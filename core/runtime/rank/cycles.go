package rank

import (
	"transportbench/core/base/config"
	"transportbench/core/base/machine"
)

// cycles times whole iterations of a pattern: from the first call of one to the
// last response. With several calls in flight, iterations overlap.
type cycles struct {
	length int32    // operations of an iteration
	of     []uint32 // by slot: the place in open of its request's iteration
	drawn  uint32   // that of the iteration whose requests are being drawn
	// open has room for one iteration more than there are slots: each has a
	// request in one of them, but for the one that is being drawn. They end in
	// any order, since one call may take as long as many iterations.
	open  []cycle
	free  []uint32 // places in open; a stack
	times *timing
}

type cycle struct {
	started uint64 // ticks; 0 where it began in another window
	begun   bool
	left    int32 // operations without a response
}

// newCycles returns nil where there is no pattern.
func newCycles(cfg config.Config, slots int) *cycles {
	if len(cfg.Pattern) == 0 {
		return nil
	}
	c := &cycles{of: make([]uint32, slots), times: newTiming()}
	for _, part := range cfg.Pattern {
		c.length += int32(part.Count)
	}
	c.open = make([]cycle, slots+1)
	c.free = make([]uint32, 0, slots+1)
	for i := range c.open {
		c.free = append(c.free, uint32(slots-i))
	}
	c.next()
	return c
}

// begin forgets the times of the last window; what began in it is not timed.
func (c *cycles) begin() {
	c.times.reset()
	for i := range c.open {
		c.open[i].started = 0
	}
}

// draw assigns a slot's request; last says that it ends the iteration.
func (c *cycles) draw(slot uint32, last bool) {
	c.of[slot] = c.drawn
	if last {
		c.next()
	}
}

// next begins to draw another iteration.
func (c *cycles) next() {
	end := len(c.free) - 1
	c.drawn = c.free[end]
	c.free = c.free[:end]
	c.open[c.drawn] = cycle{left: c.length}
}

func (c *cycles) issue(slot uint32, now uint64) {
	if it := &c.open[c.of[slot]]; !it.begun {
		it.begun = true
		it.started = now
	}
}

// complete takes a response; in a drain it is not timed.
func (c *cycles) complete(clock *machine.Clock, slot uint32, now uint64, timed bool) {
	it := &c.open[c.of[slot]]
	if it.left--; it.left > 0 {
		return
	}
	c.free = append(c.free, c.of[slot])
	if it.started != 0 && timed {
		c.times.record(clock, now-it.started)
	}
}
