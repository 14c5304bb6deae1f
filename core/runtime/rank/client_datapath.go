package rank

import (
	"fmt"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

const (
	// pollBatch is how many events a loop takes at a time, at least.
	pollBatch = 64
	mostPoll  = 1024
)

// run is the client's loop for one phase; atBegin is called when its window
// begins and atEnd when it ends. It returns when the stage has moved on and
// nothing is in flight any more, or the drain's deadline has passed.
func (c *client) run(s *state, atBegin, atEnd func()) error {
	// A call that the last phase gave up on may still be answered. With it in
	// flight there would be more of them than the daemons make room for.
	if err := c.drain(s); err != nil {
		return err
	}
	if c.inFlight > 0 {
		return fmt.Errorf("%d calls of the last window were not answered within %v: the transport lost them, or the far side stands still", c.inFlight, 2*c.drainLimit)
	}
	for s.now() == record.StateReady {
		if err := c.idle.pause(); err != nil {
			return err
		}
	}
	atBegin()
	c.counts = clientCounts{}
	start := c.clock.Now()
	c.series.start(start)
	err := c.enter(start)
	for err == nil && s.measuring() {
		err = c.turn(true)
	}
	now := c.clock.Now()
	c.counts.window = now - start
	if c.pace != nil {
		c.open.scheduled += c.pace.overdue(now)
	}
	atEnd()
	if err != nil {
		return err
	}
	return c.drain(s)
}

// enter begins the window: a closed loop issues all that it keeps in flight.
func (c *client) enter(now uint64) error {
	if c.pace != nil {
		c.pace.begin(now)
		c.freed = now
		return nil
	}
	for range c.cfg.InFlight {
		c.issue(now)
	}
	return c.post()
}

// turn polls once and handles what came. Unless the window is over, each
// response lets a call go that was prepared before, or in an open loop those go
// that are due, and only when they are on their way is the response verified
// and the next call prepared: the harness works while the transport does.
func (c *client) turn(measuring bool) error {
	if len(c.ops) > 0 { // left by back-pressure
		if err := c.post(); err != nil {
			return err
		}
	}
	n, err := c.worker.Poll(c.events)
	if err != nil {
		return err
	}
	c.counts.polls++
	paced := measuring && c.pace != nil
	if n == 0 {
		c.counts.empty++
		if !paced {
			return c.idle.pause()
		}
	} else {
		c.idle.busy()
	}
	events := c.events[:n]
	// One stamp ends the calls that this poll completed and starts the next.
	var now uint64
	if paced || c.cycle != nil || uint32(n) >= c.sampler.left || c.timed > 0 && c.anyTimed(events) {
		now = c.clock.Now()
	}
	full, left := c.inFlight == c.cfg.InFlight, len(c.ops)
	for i := range events {
		if err := c.accept(&events[i], now, measuring); err != nil {
			return err
		}
		if measuring && !paced && events[i].Kind == transport.EventResponse {
			c.issue(now)
		}
	}
	if paced {
		if full {
			c.freed = now
		}
		c.issueDue(now)
	}
	if measuring && len(c.ops) > 0 {
		c.burner.spend(len(c.ops) - left)
		if err := c.post(); err != nil {
			return err
		}
	}
	for i := range events {
		if e := &events[i]; e.Kind == transport.EventResponse {
			if measuring {
				c.complete(e, now)
			} else {
				c.counts.drained++
				c.forget(uint32(e.Token))
				if c.cycle != nil {
					c.cycle.complete(c.clock, uint32(e.Token), now, false)
				}
			}
			c.prepare(uint32(e.Token))
		}
	}
	if n == 0 {
		return c.rest(now)
	}
	return nil
}

// forget drops what was to be recorded of a call that ends outside of the
// window.
func (c *client) forget(index uint32) {
	s := &c.slots[index]
	if s.started != 0 {
		c.timed--
		s.started = 0
	}
	if s.flags&slotTraced != 0 {
		s.flags &^= slotTraced
		c.trace.end(0, 0)
	}
}

// rest waits in an open loop, in a turn that found nothing: with nothing in
// flight asleep until an operation is due, and with calls in flight as a closed
// loop does, but for no longer than that where there are free ones.
func (c *client) rest(now uint64) error {
	if c.inFlight == c.cfg.InFlight {
		return c.idle.pause()
	}
	if c.pace.due <= now {
		return nil
	}
	left := time.Duration(c.clock.Nanos(c.pace.due - now))
	if c.inFlight > 0 {
		return c.idle.pauseUntil(left)
	}
	return c.idle.sleep(left)
}

func (c *client) anyTimed(events []transport.Event) bool {
	for i := range events {
		if t := events[i].Token; t < transport.Token(len(c.slots)) && c.slots[t].started != 0 {
			return true
		}
	}
	return false
}

// accept checks that an event ends a call in flight. One that does not is
// counted and loses its kind, as does one that ends the first half of a
// read-modify-write.
func (c *client) accept(e *transport.Event, now uint64, measuring bool) error {
	if e.Kind != transport.EventResponse {
		return c.unexpected(e)
	}
	if e.Token >= transport.Token(len(c.slots)) || !c.slots[e.Token].busy {
		c.counts.unknownToken++
		e.Kind = 0
		return nil
	}
	s := &c.slots[e.Token]
	if s.flags&slotReading != 0 && measuring {
		c.modify(s, e)
		e.Kind = 0
		return nil
	}
	if s.flags&slotTraced != 0 && measuring {
		c.endTrace(s, now)
	}
	s.busy = false
	c.inFlight--
	return nil
}

// endTrace takes a request's stages, before the next one is issued and may be
// traced.
func (c *client) endTrace(s *slot, now uint64) {
	s.flags &^= slotTraced
	if stages, ok := c.trace.end(s.started, now); ok {
		for i, spent := range stages {
			c.mesh.stages[i].record(c.clock, spent)
		}
	}
}

// modify goes on with a read-modify-write whose read has its response: the
// write goes out in the same slot.
func (c *client) modify(s *slot, e *transport.Event) {
	version, failure := kv.Check(e.Payload, s.key, s.minVersion, int(c.readSize), c.sumDue(1))
	if failure != kv.FailureNone {
		c.counts.failures[failure]++
	} else {
		c.counts.bytes += uint64(len(e.Payload) - kv.HeaderSize)
		s.minVersion = version
	}
	s.flags &^= slotReading
	c.nonce++
	s.requestSize = uint32(len(kv.EncodePut(s.buffer, s.key, int(s.written), c.nonce)))
	c.add(s, uint32(e.Token))
}

// complete verifies and counts one response. What operations have in common is
// done without asking which it is: they come in random order, and each branch
// on them is mispredicted every other time.
func (c *client) complete(e *transport.Event, now uint64) {
	s := &c.slots[e.Token]
	c.counts.ops++
	c.counts.byOp[s.op]++
	version, failure := kv.Check(e.Payload, s.key, s.minVersion, int(s.wantSize), c.sumDue(s.reads))
	if failure != kv.FailureNone {
		c.counts.wrong++
		c.counts.failures[failure]++
	} else {
		c.counts.bytes += uint64(len(e.Payload)-kv.HeaderSize) + uint64(s.written)
		if seen := &c.seen[s.key&c.seenMask]; seen.key != s.key || int32(version-seen.version) > 0 {
			seen.key, seen.version = s.key, version
		}
	}
	if s.started != 0 {
		c.record(uint32(e.Token), now)
	}
	if c.cycle != nil {
		c.cycle.complete(c.clock, uint32(e.Token), now, true)
	}
}

// sumDue counts what was read, 1 for a value and 0 for none, and says whether the
// checksum is to be verified. Responses without a value are not counted: in a
// pattern the ones that are due could all be of their kind.
func (c *client) sumDue(read uint8) bool {
	if c.verify -= uint32(read); c.verify != 0 {
		return false
	}
	c.verify = uint32(c.cfg.VerifyEvery)
	c.counts.sums++
	return true
}

func (c *client) record(index uint32, now uint64) {
	s := &c.slots[index]
	c.timed--
	ticks := now - s.started
	ticks -= min(ticks, c.readCost)
	ns := c.clock.Nanos(ticks)
	c.byOp[s.op].Record(ns)
	c.counts.samples++
	c.counts.latencySum += ticks
	c.series.record(now, c.counts.ops)
	c.live.record(c.counts.ops, ns)
	if c.open != nil {
		c.open.response.record(c.clock, now-c.open.intended[index])
	}
	if c.mesh != nil {
		c.recordMesh(s, ticks)
	}
}

func (c *client) recordMesh(s *slot, ticks uint64) {
	if s.flags&slotRemote == 0 {
		c.mesh.local.record(c.clock, ticks)
		return
	}
	c.mesh.remote.record(c.clock, ticks)
}

// post offers what is waiting and keeps what was not taken, in order.
func (c *client) post() error {
	if c.cfg.Flush == config.FlushImmediate {
		return c.postEach()
	}
	n, err := c.worker.Post(c.ops)
	if err != nil {
		return err
	}
	c.posted(n)
	return c.worker.Flush()
}

func (c *client) postEach() error {
	taken := 0
	for taken < len(c.ops) {
		n, err := c.worker.Post(c.ops[taken : taken+1])
		if err == nil {
			err = c.worker.Flush()
		}
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		taken++
	}
	c.posted(taken)
	return nil
}

func (c *client) posted(n int) {
	if n < len(c.ops) {
		c.counts.backPressure++
		copy(c.ops, c.ops[n:])
	}
	c.ops = c.ops[:len(c.ops)-n]
}

// drain waits for what is in flight, for a bounded time. Calls that never got
// an answer are counted as lost.
func (c *client) drain(s *state) error {
	// What was not posted yet is not in flight.
	for i := len(c.ops) - 1; i >= 0; i-- {
		index := uint32(c.ops[i].Token)
		s := &c.slots[index]
		s.busy = false
		c.forget(index)
		c.inFlight--
		if s.op == workload.ReadModifyWrite {
			c.prepareRead(s)
		}
		c.prepared.unshift(index)
	}
	c.ops = c.ops[:0]
	deadline := c.clock.Now() + c.clock.Ticks(c.drainLimit)
	for c.inFlight > 0 && s.now() != record.StateStopped && c.clock.Now() < deadline {
		if err := c.turn(false); err != nil {
			return err
		}
	}
	c.counts.lost = uint64(c.inFlight)
	return nil
}

func (c *client) unexpected(e *transport.Event) error {
	if e.Kind == transport.EventPeerLost {
		return &transport.OpError{Transport: c.cfg.Transport, Op: "call", Peer: e.Peer, Err: transport.ErrPeerDown}
	}
	return fmt.Errorf("client was sent an event of kind %d: %w", e.Kind, transport.ErrUnsupported)
}
