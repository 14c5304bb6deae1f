package client

import (
	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/runtime/loop"
)

// iterations times whole iterations, from the first call to the last response, and to the first
// one. With several calls in flight, iterations overlap and end in any order.
type iterations struct {
	length  int32    // operations of an iteration
	of      []uint32 // by call: the index in open of its iteration, or noIteration
	current uint32   // the index of the iteration that is being issued
	issued  int32    // operations of it
	// open has room for one iteration more than there are calls: each open iteration has a
	// call, except the current one.
	open          []iteration
	free          []uint32 // indices in open; a stack
	times, firsts *loop.Timing
}

// noIteration is that of a call which is not issued.
const noIteration = ^uint32(0)

type iteration struct {
	started  uint64 // ticks; 0 if it began in an earlier window
	begun    bool
	answered bool  // it had a response
	left     int32 // operations without a response
}

// newIterations returns nil if the load has no iterations.
func newIterations(cfg config.Config, calls int) *iterations {
	length := cfg.Iteration()
	if length == 0 {
		return nil
	}
	c := &iterations{
		length: int32(length), of: make([]uint32, calls),
		times: loop.NewTiming(), firsts: loop.NewTiming(),
		open: make([]iteration, calls+1), free: make([]uint32, 0, calls+1),
	}
	for i := range c.open {
		c.free = append(c.free, uint32(calls-i))
	}
	for i := range c.of {
		c.of[i] = noIteration
	}
	c.next()
	return c
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
	c.open[c.current] = iteration{left: c.length}
}

// issue assigns a call to the current iteration. A call that was put back keeps its iteration.
func (c *iterations) issue(call uint32, now uint64) {
	last := false
	if c.of[call] == noIteration {
		c.of[call] = c.current
		c.issued++
		last = c.issued == c.length
	}
	if it := &c.open[c.of[call]]; !it.begun {
		it.begun = true
		it.started = now
	}
	if last {
		c.next()
	}
}

// complete counts a response. timed is false while draining.
func (c *iterations) complete(clock *machine.Clock, call uint32, now uint64, timed bool) {
	index := c.of[call]
	c.of[call] = noIteration
	it := &c.open[index]
	timed = timed && it.started != 0
	if timed && !it.answered {
		c.firsts.Record(clock, now-it.started)
	}
	it.answered = true
	if it.left--; it.left > 0 {
		return
	}
	c.free = append(c.free, index)
	if timed {
		c.times.Record(clock, now-it.started)
	}
}
