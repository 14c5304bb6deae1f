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
// [replayedLoop], [drawnLoop] and [openLoop].
type callLoop interface {
	// begin begins the load: a closed loop issues all the calls that it keeps in flight.
	begin(now uint64) error
	// Run runs n iterations, or fewer if the window ends.
	//
	// An iteration polls once and handles the events: it ends the calls that they answer, issues
	// others, posts those, and only then verifies the responses, so that the harness works while
	// the transport does. If it finds responses it reads the clock once. The reading ends the calls
	// that the poll completed and starts the next ones, for all calls alike.
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
	if c.InFlight > 0 {
		return c.unanswered("of the last window", 2*c.DrainLimit)
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
	c.Counts = counts{}
	c.Gaps.Begin()
	start := c.Clock.Now()
	c.counted = start
	c.slices.start(start)
	c.Live.begin(start, c.schedule)
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
	now := c.Clock.Now()
	// A thread that had no processor ends its window as it begins it, within one step of the clock.
	c.Counts.window = max(now-c.began, c.Clock.Ticks(time.Nanosecond)+1)
	c.Counts.found = c.Counts.polls - c.Counts.empty
	c.count(now)
	if c.schedule != nil && !c.window.Silent {
		c.open.scheduled += c.schedule.overdue(now)
	}
	c.Gaps.Stop()
	c.Live.end(now)
	atEnd()
	if c.stream != nil {
		c.stream.Stop()
	}
}

// stayOut waits for the end of a window without calling.
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
	c.Counts = counts{}
	return c.loop.begin(now)
}

// Iterate runs n iterations, or fewer if the window ends, and returns the operations so far.
func (c *Client) Iterate(s *loop.State, n int) (ops uint64, err error) {
	err = c.loop.run(s, n)
	return c.Counts.Ops, err
}

// Drain waits for the calls in flight, at most drainLimit, and counts the rest as lost.
func (c *Client) Drain(s *loop.State) error {
	c.loop.takeBack()
	if c.Stages != nil {
		c.Stages.abandon() // the latency of a call that ends after the window is dropped, too
	}
	deadline := c.Clock.Now() + c.Clock.Ticks(c.DrainLimit)
	for c.InFlight > 0 && s.Now() != record.StateStopped && c.Clock.Now() < deadline {
		if err := c.DrainOnce(); err != nil {
			return err
		}
	}
	c.Counts.Lost = uint64(c.InFlight)
	return nil
}

// DrainOnce withdraws the calls that the worker has not taken, polls once, and discards the
// responses.
func (c *Client) DrainOnce() error {
	c.loop.takeBack()
	n, err := c.Worker.Poll(c.Events)
	if err != nil {
		return err
	}
	c.Counts.polls++
	if n == 0 {
		c.Counts.empty++
		return c.idle.Pause()
	}
	c.idle.Busy()
	now := c.Clock.Now()
	for i := range c.Events[:n] {
		if err := c.discard(&c.Events[i], now); err != nil {
			return err
		}
	}
	c.Live.publish(c.Counts.Ops, now)
	return nil
}

// discard ends the call that an event answers.
func (c *Client) discard(e *transport.Event, now uint64) error {
	switch {
	case e.Kind != transport.EventResponse:
		return c.unexpected(e)
	case !c.awaits(e):
		c.Counts.unknownToken++
		return nil
	}
	c.Counts.drained++
	c.InFlight--
	index := int(e.Token)
	c.free(index)
	if c.iterations != nil {
		c.iterations.complete(c.Clock, uint32(index), now, false)
	}
	if !c.replays {
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
	c.InFlight--
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
		start, answered := c.Clock.Now(), c.Counts.drained
		index := c.order.next()
		peer := c.Requests[index].Peer
		c.issueCopy(index, start)
		if err := c.post(); err != nil {
			return err
		}
		if err := c.Drain(s); err != nil {
			return err
		}
		if c.InFlight > 0 {
			return c.unanswered("that were the first on a connection", c.DrainLimit)
		}
		if c.Counts.drained > answered && !called[peer] {
			called[peer] = true
			c.first = append(c.first, max(c.Clock.Nanos(c.Clock.Now()-start), 1))
		}
	}
	return nil
}

// unanswered returns an error that counts the calls without an answer.
func (c *Client) unanswered(which string, within time.Duration) error {
	first := slices.IndexFunc(c.calls, func(call call) bool { return call.state == callInFlight })
	err := fmt.Errorf("%d calls %s were not answered within %v: the transport lost them, "+
		"or the far side stalls", c.InFlight, which, within)
	return loop.Explain(c.Worker, c.Requests[first].Peer, err)
}

func (c *Client) unexpected(e *transport.Event) error {
	if e.Kind == transport.EventPeerLost {
		return &transport.OpError{
			Transport: c.Config.Transport, Op: "call", Peer: e.Peer, Err: transport.ErrPeerDown,
		}
	}
	return fmt.Errorf("client: unexpected event of kind %d: %w", e.Kind, transport.ErrUnsupported)
}
