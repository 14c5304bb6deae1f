package client

import (
	"fmt"
	"slices"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// callLoop decides which calls a client issues in a window, and when. A client has one of
// [repeatedLoop], [drawnLoop], [burstLoop] and [openLoop].
type callLoop interface {
	// begin begins the load: a closed loop issues all the calls that it keeps in flight.
	begin(now uint64) error
	// run runs n iterations, or fewer if the window ends.
	//
	// An iteration polls once and handles the events: it ends the calls that they answer, issues
	// others, posts those, and only then verifies the responses, so that the harness works while
	// the transport does. The clock is read once after a poll that found responses, and in an
	// open loop after every poll: that is when the calls that were answered ended, and when the
	// next ones started.
	run(s *loop.State, n int) error
	// takeBack withdraws the calls that the worker has not taken. They will be issued next.
	takeBack()
}

// Run runs one window. It calls atBegin when measuring begins and atEnd when it ends, and
// returns when no call is in flight any more or the drain's deadline has passed.
func (c *Client) Run(s *loop.State, atBegin, atEnd func()) error {
	if err := c.settle(s); err != nil {
		return err
	}
	for s.Now() == record.StateReady {
		if err := c.idle.Pause(); err != nil {
			return err
		}
	}
	err := c.enter(s, atBegin)
	if err == nil && c.window.Silent {
		stayOut(s)
	}
	for err == nil && s.Measuring() {
		err = c.loop.run(s, 1<<30)
	}
	c.leave(atEnd)
	if err != nil {
		return err
	}
	return c.Drain(s)
}

// settle waits for the calls that the last window gave up on. They count as in flight until they
// are answered: issuing others besides would exceed the room that the daemons have for requests.
// Then a trace begins again, or the requests become those of the window's ranks.
func (c *Client) settle(s *loop.State) error {
	if err := c.Drain(s); err != nil {
		return err
	}
	if c.inFlight > 0 {
		return c.unanswered("of the last window", 2*c.drainLimit)
	}
	if c.stream != nil {
		return c.rewind()
	}
	return c.aim()
}

// enter begins to measure.
func (c *Client) enter(s *loop.State, atBegin func()) error {
	c.entered = false
	if c.window.FirstCalls {
		if err := c.callFirst(s); err != nil {
			return err
		}
	}
	atBegin()
	c.counts = counts{}
	c.Gaps.Begin()
	start := c.clock.Now()
	c.counted = start
	c.slices.start(start)
	c.live.begin(start, c.schedule)
	c.entered, c.began = true, start
	if c.window.Silent {
		return nil
	}
	return c.loop.begin(start)
}

// leave ends measuring, if enter has begun it.
func (c *Client) leave(atEnd func()) {
	if !c.entered {
		return
	}
	now := c.clock.Now()
	// Without a processor in the window, the thread may read the same time at both of its ends.
	c.counts.window = max(now-c.began, c.clock.Ticks(time.Nanosecond)+1)
	c.counts.found = c.counts.polls - c.counts.empty
	c.count(now)
	if c.schedule != nil && !c.window.Silent {
		c.open.scheduled += c.schedule.overdue(now)
	}
	c.Gaps.Stop()
	c.live.end(now)
	atEnd()
	if c.stream != nil {
		c.stream.Stop()
	}
}

// stayOut waits for the end of a window without making calls.
func stayOut(s *loop.State) {
	for s.Measuring() {
		time.Sleep(time.Millisecond)
	}
}

// Load begins the load of a window that measures without run.
func (c *Client) Load(now uint64) error {
	if err := c.aim(); err != nil {
		return err
	}
	c.counts = counts{}
	return c.loop.begin(now)
}

// Iterate runs n iterations, or fewer if the window ends, and returns the operations so far.
func (c *Client) Iterate(s *loop.State, n int) (ops uint64, err error) {
	err = c.loop.run(s, n)
	return c.counts.ops, err
}

// Drain waits for the calls in flight, at most drainLimit, and counts the rest as lost.
func (c *Client) Drain(s *loop.State) error {
	c.loop.takeBack()
	if c.stages != nil {
		c.stages.abandon() // the latency of a call that ends after the window is dropped, too
	}
	deadline := c.clock.Now() + c.clock.Ticks(c.drainLimit)
	for c.inFlight > 0 && s.Now() != record.StateStopped && c.clock.Now() < deadline {
		if err := c.drainOnce(); err != nil {
			return err
		}
	}
	c.counts.lost = uint64(c.inFlight)
	return nil
}

// drainOnce withdraws the calls that the worker has not taken, polls once, and discards the
// responses.
func (c *Client) drainOnce() error {
	c.loop.takeBack()
	n, err := c.worker.Poll(c.events)
	if err != nil {
		return err
	}
	c.counts.polls++
	if n == 0 {
		c.counts.empty++
		return c.idle.Pause()
	}
	c.idle.Busy()
	now := c.clock.Now()
	for i := range c.events[:n] {
		if err := c.discard(&c.events[i], now); err != nil {
			return err
		}
	}
	c.live.publish(c.counts.ops, now)
	return nil
}

// discard ends the call that an event answers.
func (c *Client) discard(e *transport.Event, now uint64) error {
	switch {
	case e.Kind != transport.EventResponse:
		return c.unexpected(e)
	case !c.awaits(e):
		c.counts.unknownToken++
		return nil
	}
	c.counts.drained++
	c.inFlight--
	index := int(e.Token)
	c.free(index)
	if c.iterations != nil {
		c.iterations.complete(c.clock, uint32(index), now, false)
	}
	if !c.repeats {
		c.prepare(index)
	}
	return nil
}

// takeBack is [callLoop.takeBack] for the calls in ops.
func (c *Client) takeBack() {
	for i := len(c.ops) - 1; i >= 0; i-- {
		index := int(c.ops[i].Token)
		c.withdraw(index)
		c.order.putBack(index)
	}
	c.ops = c.ops[:0]
}

// withdraw frees a call that was issued and is not posted.
func (c *Client) withdraw(index int) {
	c.free(index)
	c.inFlight--
	if call := &c.calls[index]; call.op == workload.ReadModifyWrite {
		c.prepareRead(call, index)
	}
}

// free makes a call free without recording its latency, and drops its trace.
func (c *Client) free(index int) {
	call := &c.calls[index]
	call.state = callFree
	if call.flags&callTraced != 0 {
		call.flags &^= callTraced
		c.trace.End(0, 0)
	}
}

// firstTries bounds the calls that callFirst makes for each connection: requests are drawn, so some
// connections are called several times before another is called once.
const firstTries = 8

// callFirst makes the first call on each of the client's connections, one at a time, and notes how
// long it took.
func (c *Client) callFirst(s *loop.State) error {
	connections := int(c.route.ranks * c.route.daemons)
	called := make(map[transport.PeerID]bool, connections)
	for range firstTries * connections {
		if len(called) == connections || !s.Measuring() {
			break
		}
		start, answered := c.clock.Now(), c.counts.drained
		index := c.order.next()
		peer := c.requests[index].Peer
		c.issueCopy(index, start)
		if err := c.post(); err != nil {
			return err
		}
		if err := c.Drain(s); err != nil {
			return err
		}
		if c.inFlight > 0 {
			return c.unanswered("that were the first on a connection", c.drainLimit)
		}
		if c.counts.drained > answered && !called[peer] {
			called[peer] = true
			c.first = append(c.first, max(c.clock.Nanos(c.clock.Now()-start), 1))
		}
	}
	return nil
}

// unanswered returns an error that counts the calls without an answer.
func (c *Client) unanswered(which string, within time.Duration) error {
	first := slices.IndexFunc(c.calls, func(call call) bool { return call.state == callInFlight })
	err := fmt.Errorf("%d calls %s were not answered within %v: the transport lost them, "+
		"or the far side stalls", c.inFlight, which, within)
	return loop.Explain(c.worker, c.requests[first].Peer, err)
}

func (c *Client) unexpected(e *transport.Event) error {
	if e.Kind == transport.EventPeerLost {
		return &transport.OpError{
			Transport: c.config.Transport, Op: "call", Peer: e.Peer, Err: transport.ErrPeerDown,
		}
	}
	return fmt.Errorf("client: unexpected event of kind %d: %w", e.Kind, transport.ErrUnsupported)
}
