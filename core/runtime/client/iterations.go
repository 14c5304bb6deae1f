package client

import (
	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/runtime/loop"
)

// iterations times whole iterations, from the first call to the last response, and to the end of
// their first part: the first response of any call, or all of the first layer of a hand-off. With
// several calls in flight, iterations overlap and end in any order.
type iterations struct {
	length int32 // operations of an iteration
	first  int32 // responses that end its first part
	among  int32 // the first operations of it, whose responses count towards first
	// of has, by call, twice the index in open of its iteration, plus 1 in the first part; or
	// noIteration.
	of      []uint32
	current uint32 // the index of the iteration that is being issued
	issued  int32  // operations of it
	// open has room for one iteration more than there are calls: each open iteration has a
	// call, except the current one.
	open          []iteration
	free          []uint32 // indices in open; a stack
	times, firsts *loop.Timing
}

// noIteration marks a call that is not issued.
const noIteration = ^uint32(0)

type iteration struct {
	started uint64 // ticks; 0 if it began in an earlier window
	begun   bool
	first   int32 // responses until its first part ends
	left    int32 // operations without a response
}

// newIterations returns nil if the load has no iterations. done is the number of operations that
// the first iteration lacks; if it lacks any, it is not timed.
func newIterations(cfg config.Config, calls, done int) *iterations {
	length := cfg.Iteration()
	if length == 0 {
		return nil
	}
	c := &iterations{
		length: int32(length), first: int32(cfg.FirstPart()), among: int32(length),
		of:    make([]uint32, calls),
		times: loop.NewTiming(), firsts: loop.NewTiming(),
		open: make([]iteration, calls+1), free: make([]uint32, 0, calls+1),
	}
	if cfg.Handoff != "" {
		c.among = c.first
	}
	c.restart()
	if done > 0 {
		c.issued = int32(done)
		c.open[c.current] = iteration{begun: true, left: c.length - c.issued, first: c.first}
	}
	return c
}

// restart drops all iterations, while no call is in flight.
func (c *iterations) restart() {
	c.free = c.free[:0]
	for i := range c.open {
		c.free = append(c.free, uint32(len(c.of)-i))
	}
	for i := range c.of {
		c.of[i] = noIteration
	}
	c.next()
}

// begin resets the times before a window. Iterations already open are not timed.
func (c *iterations) begin() {
	c.times.Reset()
	c.firsts.Reset()
	for i := range c.open {
		c.open[i].started = 0
	}
}

// next opens another iteration.
func (c *iterations) next() {
	end := len(c.free) - 1
	c.current, c.issued = c.free[end], 0
	c.free = c.free[:end]
	c.open[c.current] = iteration{left: c.length, first: c.first}
}

// issue assigns a call to the current iteration, and reports whether it is the last one of it. A
// call that was put back keeps its iteration.
func (c *iterations) issue(call uint32, now uint64) (last bool) {
	if c.of[call] == noIteration {
		c.of[call] = c.current << 1
		if c.issued < c.among {
			c.of[call]++
		}
		c.issued++
		last = c.issued == c.length
	}
	if it := &c.open[c.of[call]>>1]; !it.begun {
		it.begun = true
		it.started = now
	}
	if last {
		c.next()
	}
	return last
}

// complete counts a response. timed is false while draining.
func (c *iterations) complete(clock *machine.Clock, call uint32, now uint64, timed bool) {
	of := c.of[call]
	c.of[call] = noIteration
	it := &c.open[of>>1]
	timed = timed && it.started != 0
	if it.first -= int32(of & 1); it.first == 0 && of&1 != 0 && timed {
		c.firsts.Record(clock, now-it.started)
	}
	if it.left--; it.left > 0 {
		return
	}
	c.free = append(c.free, of>>1)
	if timed {
		c.times.Record(clock, now-it.started)
	}
}
