package rank

import (
	"encoding/binary"
	"fmt"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/fabric/pow2"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

const (
	// The number of events of one Poll is the number of messages that can arrive, within these
	// bounds.
	minPollBatch = 64
	maxPollBatch = 1024
)

// run runs one window. It calls atBegin when measuring begins and atEnd when it ends, and
// returns when no call is in flight any more or the drain's deadline has passed.
func (c *client) run(s *state, atBegin, atEnd func()) error {
	// Calls that the last window gave up on count as in flight until they are answered.
	// Issuing others besides would exceed the room that the daemons have for requests.
	if err := c.drain(s); err != nil {
		return err
	}
	if c.inFlight > 0 {
		return fmt.Errorf("%d calls of the last window were not answered within %v: the transport lost them, or the far side stalls", c.inFlight, 2*c.drainLimit)
	}
	for s.now() == record.StateReady {
		if err := c.idle.pause(); err != nil {
			return err
		}
	}
	atBegin()
	c.counts = clientCounts{}
	c.gaps.begin()
	start := c.clock.Now()
	c.counted = start
	c.slices.start(start)
	err := c.enter(start)
	for err == nil && s.measuring() {
		err = c.step(true)
	}
	now := c.clock.Now()
	c.counts.window = now - start
	c.count(now)
	if c.schedule != nil {
		c.open.scheduled += c.schedule.overdue(now)
	}
	c.gaps.stop()
	atEnd()
	if err != nil {
		return err
	}
	return c.drain(s)
}

// enter begins to measure: a closed loop issues all the calls that it keeps in flight.
func (c *client) enter(now uint64) error {
	if c.schedule != nil {
		c.schedule.begin(now)
		c.freed = now
		return nil
	}
	for range c.cfg.InFlight {
		c.issue(now)
	}
	return c.post()
}

// step is one iteration of the loop: it polls once and handles the events. While the window
// measures, a closed loop issues a prepared call for each response, and an open loop issues
// the calls that are due. Only after those are posted does it verify the responses and
// prepare the next calls, so that the harness works while the transport does.
//
// Each iteration that found responses reads the clock once. The reading ends the calls that the
// poll completed and starts the next ones, for all calls alike; only the recording is sampled.
func (c *client) step(measuring bool) error {
	began := uint64(0)
	if c.gaps.pass() {
		began = c.gaps.lookNow()
	}
	if len(c.ops) > 0 { // left over from back-pressure
		if err := c.post(); err != nil {
			return err
		}
	}
	n, err := c.worker.Poll(c.events)
	if err != nil {
		return err
	}
	c.counts.polls++
	paced := measuring && c.schedule != nil
	if n == 0 {
		c.counts.empty++
		if !paced {
			return c.idle.pause()
		}
	} else {
		c.idle.busy()
	}
	events := c.events[:n]
	now := c.clock.Now()
	c.gaps.look(now)
	if paced {
		c.count(now)
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
	if c.stager != nil {
		c.stager.beforePost(now)
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
				if c.iterations != nil {
					c.iterations.complete(c.clock, uint32(e.Token), now, false)
				}
			}
			if !c.replays {
				c.prepare(uint32(e.Token))
			}
		}
	}
	if n == 0 {
		return c.rest(now)
	}
	if c.stager != nil {
		c.stager.afterStep(c, n, now)
	}
	if began != 0 {
		c.counts.busyTimed++
		c.counts.busyTicks += c.clock.Now() - began
	}
	return nil
}

// count adds the calls in flight since the last time to their integral over the window.
func (c *client) count(now uint64) {
	c.counts.inFlight += uint64(c.inFlight) * (now - c.counted)
	c.counted = now
}

// forget drops the trace of a call that ends outside the window.
func (c *client) forget(index uint32) {
	s := &c.calls[index]
	if s.flags&callTraced != 0 {
		s.flags &^= callTraced
		c.trace.end(0, 0)
	}
}

// rest waits after an empty iteration of an open loop. With nothing in flight it sleeps until
// an operation is due; with calls in flight it waits as a closed loop does, but not past the
// time at which the next operation is due if a call is free for it.
func (c *client) rest(now uint64) error {
	if c.inFlight == c.cfg.InFlight {
		return c.idle.pause()
	}
	if c.schedule.due <= now {
		return nil
	}
	left := time.Duration(c.clock.Nanos(c.schedule.due - now))
	if c.inFlight > 0 {
		return c.idle.pauseUntil(left)
	}
	return c.idle.sleep(left)
}

// accept ends the call that an event completes. If no call in flight has the event's token, or
// the event is the response to the read of a read-modify-write, accept clears the event's kind
// so that the rest of step skips it.
func (c *client) accept(e *transport.Event, now uint64, measuring bool) error {
	if e.Kind != transport.EventResponse {
		return c.unexpected(e)
	}
	if e.Token >= transport.Token(len(c.calls)) || !c.calls[e.Token].busy {
		c.counts.unknownToken++
		e.Kind = 0
		return nil
	}
	s := &c.calls[e.Token]
	if s.flags&callReading != 0 && measuring {
		c.modify(s, e)
		e.Kind = 0
		return nil
	}
	if s.flags&callTraced != 0 && measuring {
		c.endTrace(s, now)
	}
	s.busy = false
	c.inFlight--
	return nil
}

// endTrace records a request's stages. It runs before the next call is issued, because that
// call may use the trace.
func (c *client) endTrace(s *call, now uint64) {
	s.flags &^= callTraced
	if stages, ok := c.trace.end(s.started, now); ok {
		for i, spent := range stages {
			c.mesh.stages[i].record(c.clock, spent)
		}
	}
}

// modify posts the write of a read-modify-write whose read was answered.
func (c *client) modify(s *call, e *transport.Event) {
	version, failure := kv.Check(e.Payload, s.key, s.minVersion, int(c.readSize), c.sumDue(1, e.Size))
	if failure != kv.FailureNone {
		c.counts.failures[failure]++
	} else {
		c.counts.bytes += uint64(len(e.Payload) - kv.HeaderSize)
		s.minVersion = version
	}
	s.flags &^= callReading
	c.nonce++
	c.counts.summed += uint64(s.written)
	s.requestSize = uint32(len(kv.EncodePut(s.buffer, s.key, int(s.written), c.nonce)))
	c.add(s, uint32(e.Token))
}

// complete verifies and counts one response. It does not branch on the operation: operations
// come in random order, so such a branch is mispredicted every other time.
func (c *client) complete(e *transport.Event, now uint64) {
	s := &c.calls[e.Token]
	c.counts.ops++
	c.counts.byOp[s.op]++
	if failure := c.check(s, e.Payload); failure != kv.FailureNone {
		c.counts.wrong++
		c.counts.failures[failure]++
	} else {
		c.counts.bytes += uint64(len(e.Payload)-kv.HeaderSize) + uint64(s.written)
	}
	if c.sampler.take() {
		c.record(uint32(e.Token), now)
	}
	if c.iterations != nil {
		c.iterations.complete(c.clock, uint32(e.Token), now, true)
	}
}

// check verifies a response.
func (c *client) check(s *call, response []byte) kv.Failure {
	switch c.service {
	case serviceEcho:
		return kv.CheckEcho(response, s.buffer[:s.requestSize], c.sumDue(1, len(response)))
	case serviceSink:
		return kv.CheckSink(response, s.buffer[:s.requestSize])
	}
	version, failure := kv.Check(response, s.key, s.minVersion, int(s.wantSize), c.sumDue(s.reads, len(response)))
	if failure == kv.FailureNone {
		if seen := &c.seen[s.key&c.seenMask]; seen.key != s.key || int32(version-seen.version) > 0 {
			seen.key, seen.version = s.key, version
		}
	}
	return failure
}

// sumDue counts read, 1 for a response with a value and 0 for others, and reports whether to
// verify a response of size bytes in full. Responses without a value do not count, because with a
// pattern the ones that are due could all be without.
func (c *client) sumDue(read uint8, size int) bool {
	if c.verify -= uint32(read); c.verify != 0 {
		return false
	}
	c.verify = uint32(c.cfg.VerifyEvery)
	c.counts.sums++
	c.counts.summed += uint64(max(size-kv.HeaderSize, 0))
	return true
}

func (c *client) record(index uint32, now uint64) {
	s := &c.calls[index]
	ticks := now - s.started
	ns := c.clock.Nanos(ticks)
	c.byOp[s.op].Record(ns)
	c.counts.samples++
	c.counts.latencySum += ticks
	c.slices.record(now, c.counts.ops)
	c.live.record(c.counts.ops, ns)
	if c.open != nil {
		c.open.response.record(c.clock, now-c.open.intended[index])
		c.open.lag.record(c.clock, c.open.late[index])
	}
	if c.mesh != nil {
		c.recordMesh(s, ticks)
	}
}

func (c *client) recordMesh(s *call, ticks uint64) {
	if s.flags&callRemote == 0 {
		c.mesh.local.record(c.clock, ticks)
		return
	}
	c.mesh.remote.record(c.clock, ticks)
}

// post posts the waiting ops and keeps those that the worker did not take, in order.
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
	c.counts.posted += uint64(n)
	if n < len(c.ops) {
		c.counts.backPressure++
		copy(c.ops, c.ops[n:])
	}
	c.ops = c.ops[:len(c.ops)-n]
}

// drain waits for the calls in flight, at most drainLimit, and counts the rest as lost.
func (c *client) drain(s *state) error {
	// Ops that were not posted yet are not in flight: prepare their calls again.
	for i := len(c.ops) - 1; i >= 0; i-- {
		index := uint32(c.ops[i].Token)
		s := &c.calls[index]
		s.busy = false
		c.forget(index)
		c.inFlight--
		if s.op == workload.ReadModifyWrite {
			c.prepareRead(s)
		}
		if c.replays {
			c.cursor = index
		} else {
			c.prepared.pushFront(index)
		}
	}
	c.ops = c.ops[:0]
	deadline := c.clock.Now() + c.clock.Ticks(c.drainLimit)
	for c.inFlight > 0 && s.now() != record.StateStopped && c.clock.Now() < deadline {
		if err := c.step(false); err != nil {
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
	return fmt.Errorf("client: unexpected event of kind %d: %w", e.Kind, transport.ErrUnsupported)
}

// prepare draws and encodes the next request of a call, and queues the call unless it is replayed.
func (c *client) prepare(index uint32) {
	s := &c.calls[index]
	r := &c.request
	c.generator.Next(r)
	s.flags = 0
	key := r.Key
	if !c.route.single() {
		var remote bool
		if key, s.peer, remote = c.route.choose(key); remote {
			s.flags = callRemote
		}
	}
	s.key = key
	s.written = uint32(r.Size)
	s.op = r.Op
	s.reads, s.wantSize = 0, 0
	if c.service != serviceStore {
		c.prepareAlike(s)
	} else {
		c.prepareStore(s)
	}
	if !c.replays {
		c.prepared.push(index)
	}
}

// prepareAlike encodes a request of a service with one operation.
func (c *client) prepareAlike(s *call) {
	c.nonce++
	if c.service == serviceEcho {
		s.op = workload.Read
		s.requestSize = uint32(len(kv.EncodeEcho(s.buffer, s.key, int(s.written), c.nonce)))
	} else {
		s.op = workload.Write
		s.requestSize = uint32(len(kv.EncodePut(s.buffer, s.key, int(s.written), c.nonce)))
	}
}

// prepareStore encodes a request of the store.
func (c *client) prepareStore(s *call) {
	switch s.op {
	case workload.Read:
		s.reads, s.wantSize = 1, c.readSize
		s.requestSize = uint32(len(kv.EncodeGet(s.buffer, s.key)))
	case workload.Lookup:
		s.requestSize = uint32(len(kv.EncodeLookup(s.buffer, s.key)))
	case workload.ReadModifyWrite:
		c.prepareRead(s)
	default:
		c.nonce++
		c.counts.summed += uint64(s.written)
		s.requestSize = uint32(len(kv.EncodePut(s.buffer, s.key, int(s.written), c.nonce)))
	}
}

// prepareRead encodes the read of a read-modify-write.
func (c *client) prepareRead(s *call) {
	s.flags |= callReading
	s.requestSize = uint32(len(kv.EncodeGet(s.buffer, s.key)))
}

// issue moves a prepared call to the ops to post and returns its index. The caller ensures that
// fewer than Config.InFlight calls are in flight, so that one is prepared.
func (c *client) issue(now uint64) (index uint32) {
	index = c.next()
	s := &c.calls[index]
	s.busy = true
	s.minVersion = 0
	if seen := &c.seen[s.key&c.seenMask]; seen.key == s.key {
		s.minVersion = seen.version
	}
	c.add(s, index)
	c.inFlight++
	s.started = now
	if c.trace != nil && c.traced.take() && s.flags&(callRemote|callReading) == callRemote && c.trace.word.Load() == 0 {
		s.flags |= callTraced
		c.trace.begin(binary.LittleEndian.Uint64(s.buffer))
	}
	if c.iterations != nil {
		c.iterations.issue(index, now)
	}
	return index
}

// next returns the call to issue. Replaying skips calls that are still in flight after a whole pass.
func (c *client) next() (index uint32) {
	if !c.replays {
		return c.prepared.pop()
	}
	for {
		index = c.cursor
		if c.cursor++; c.cursor == uint32(len(c.calls)) {
			c.cursor = 0
		}
		if !c.calls[index].busy {
			return index
		}
	}
}

// upcoming returns the call that is issued after ahead others, or nil if that is not known.
func (c *client) upcoming(ahead uint32) *call {
	if !c.replays {
		if n := uint32(c.prepared.len()); n > 0 {
			return &c.calls[c.prepared.ring[(c.prepared.head+min(ahead, n-1))&c.prepared.mask]]
		}
		return nil
	}
	if s := &c.calls[(c.cursor+ahead)%uint32(len(c.calls))]; !s.busy {
		return s
	}
	return nil
}

// add appends a call's request to the ops to post. It sets field by field: a literal is built
// on the stack with narrow stores and copied with wide loads, which stall on them.
func (c *client) add(s *call, index uint32) {
	c.ops = c.ops[:len(c.ops)+1]
	op := &c.ops[len(c.ops)-1]
	op.Kind = transport.OpCall
	op.Peer = s.peer
	op.Token = transport.Token(index)
	op.Payload = s.buffer[:s.requestSize]
}

// issueDue issues the operations that are due while calls are free.
func (c *client) issueDue(now uint64) {
	for c.schedule.due <= now && c.inFlight < c.cfg.InFlight {
		due := c.schedule.due
		c.schedule.next()
		c.open.scheduled++
		index := c.issue(now)
		c.open.intended[index] = due
		c.open.late[index] = now - max(due, c.freed)
	}
}

// queue is a ring of call indices.
type queue struct {
	ring       []uint32
	mask       uint32
	head, tail uint32 // free running
}

func newQueue(room int) queue {
	size := pow2.Ceil(room)
	return queue{ring: make([]uint32, size), mask: uint32(size - 1)}
}

func (q *queue) len() int { return int(q.tail - q.head) }

func (q *queue) push(index uint32) {
	q.ring[q.tail&q.mask] = index
	q.tail++
}

// pushFront puts an index before all others.
func (q *queue) pushFront(index uint32) {
	q.head--
	q.ring[q.head&q.mask] = index
}

// pop removes the first index; the queue must not be empty.
func (q *queue) pop() uint32 {
	index := q.ring[q.head&q.mask]
	q.head++
	return index
}
