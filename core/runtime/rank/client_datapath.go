package rank

import (
	"fmt"
	"slices"
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
	if err := c.settle(s); err != nil {
		return err
	}
	for s.now() == record.StateReady {
		if err := c.idle.pause(); err != nil {
			return err
		}
	}
	err := c.enter(s, atBegin)
	if err == nil && c.silent {
		stayOut(s)
	}
	for err == nil && s.measuring() {
		err = c.step(true)
	}
	c.leave(atEnd)
	if err != nil {
		return err
	}
	return c.drain(s)
}

// settle waits for the calls that the last window gave up on. They count as in flight until they
// are answered: issuing others besides would exceed the room that the daemons have for requests.
func (c *client) settle(s *state) error {
	if err := c.drain(s); err != nil {
		return err
	}
	if c.inFlight > 0 {
		return c.unanswered("of the last window", 2*c.drainLimit)
	}
	return nil
}

// enter begins to measure.
func (c *client) enter(s *state, atBegin func()) error {
	c.entered = false
	if c.callsFirst {
		if err := c.callFirst(s); err != nil {
			return err
		}
	}
	atBegin()
	c.counts = clientCounts{}
	c.gaps.begin()
	start := c.clock.Now()
	c.counted = start
	c.slices.start(start)
	c.live.begin(start, c.schedule)
	c.entered, c.began = true, start
	if c.silent {
		return nil
	}
	return c.load(start)
}

// load begins the load: a closed loop issues all the calls that it keeps in flight.
func (c *client) load(now uint64) error {
	if c.schedule != nil {
		c.schedule.begin(now)
		c.freed = now
		return nil
	}
	c.issueMany(c.cfg.InFlight, now)
	return c.post()
}

// leave ends measuring, if enter has begun it.
func (c *client) leave(atEnd func()) {
	if !c.entered {
		return
	}
	now := c.clock.Now()
	// A thread that had no processor ends its window as it begins it, within one step of the clock.
	c.counts.window = max(now-c.began, c.clock.Ticks(time.Nanosecond)+1)
	c.counts.found = c.counts.polls - c.counts.empty
	c.count(now)
	if c.schedule != nil && !c.silent {
		c.open.scheduled += c.schedule.overdue(now)
	}
	c.gaps.stop()
	c.live.end(now)
	atEnd()
}

// stayOut waits for the end of a window without calling.
func stayOut(s *state) {
	for s.measuring() {
		time.Sleep(time.Millisecond)
	}
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
	if n == 0 {
		c.counts.empty++
		if !measuring || c.schedule == nil {
			return c.idle.pause()
		}
	} else {
		c.idle.busy()
	}
	events := c.events[:n]
	now := c.clock.Now()
	c.gaps.look(now)
	left, exchanged := len(c.ops), 0
	if c.alike && left == 0 && measuring {
		exchanged = c.exchange(events, now)
	}
	if exchanged < n || c.schedule != nil {
		if err := c.turnOver(events[exchanged:], now, measuring); err != nil {
			return err
		}
	}
	if c.stager != nil && c.stager.state != stagerIdle {
		if measuring {
			c.stager.beforePost(now)
		} else {
			c.stager.abandon() // the latency of a call that ends after the window is dropped, too
		}
	}
	if measuring && len(c.ops) > 0 {
		c.burner.spend(len(c.ops) - left)
		if err := c.post(); err != nil {
			return err
		}
	}
	done := 0
	if c.echoes && measuring {
		done = c.completeEchoes(events, done)
	}
	if done < n {
		c.completeAll(events, done, now, measuring)
	}
	if n == 0 {
		return c.rest(now)
	}
	c.live.publish(c.counts.ops, now)
	if c.stager != nil && !c.stager.waits(n) {
		c.stager.afterStep(c, now)
	}
	if began != 0 && measuring {
		spent := c.clock.Now() - began
		c.counts.busyTimed++
		c.counts.busyTicks += spent - min(spent, c.readCost)
		c.gaps.work(spent)
	}
	return nil
}

// exchange ends the calls that events complete and issues the next replayed calls for them. It
// returns the number of events that it handled: all, until one is not the plain response to a call,
// the next call is still in flight, or the calls start again. Nothing waits to be posted.
func (c *client) exchange(events []transport.Event, now uint64) (n int) {
	calls, first := c.calls, c.cursor
	for n < len(events) {
		e, next := &events[n], first+n
		if e.Kind != transport.EventResponse || e.Token >= transport.Token(len(calls)) ||
			next >= len(calls) {
			break
		}
		ended, issued := &calls[e.Token], &calls[next]
		if ended.state != callInFlight || issued.state != callFree {
			break
		}
		ended.state = callAnswered
		issued.state = callInFlight
		issued.started = now
		if c.service == serviceStore {
			issued.minVersion = c.newest(issued.key)
		}
		n++
	}
	c.ops = c.requests[first : first+n]
	if c.cursor = first + n; c.cursor == len(calls) {
		c.cursor = 0
	}
	return n
}

// turnOver ends the calls that events complete. While measuring, a closed loop issues as many, and
// an open loop those that are due.
func (c *client) turnOver(events []transport.Event, now uint64, measuring bool) error {
	paced := measuring && c.schedule != nil
	if paced {
		c.count(now)
	}
	full := c.inFlight == c.cfg.InFlight
	ended, err := c.accept(events, now, measuring)
	if err != nil || !measuring {
		return err
	}
	if !paced {
		c.issueMany(ended, now)
		return nil
	}
	if full {
		c.freed = now
	}
	c.issueDue(now)
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

// accept ends the calls that events complete, and returns their number. It clears the kind of other
// events, so that the rest of step skips them.
func (c *client) accept(events []transport.Event, now uint64, measuring bool) (ended int,
	err error) {
	for i := range events {
		e := &events[i]
		if e.Kind == transport.EventResponse && e.Token < transport.Token(len(c.calls)) {
			if s := &c.calls[e.Token]; s.state == callInFlight &&
				s.flags&(callTraced|callReading) == 0 {
				s.state = callAnswered
				ended++
				continue
			}
		}
		if err := c.acceptRare(e, now, measuring); err != nil {
			return ended, err
		}
		if e.Kind == transport.EventResponse {
			ended++
		}
	}
	c.inFlight -= ended
	return ended, nil
}

// acceptRare accepts an event that is not the plain response to a call. It clears the event's kind
// if no call in flight has the event's token, or if it answers the read of a read-modify-write.
func (c *client) acceptRare(e *transport.Event, now uint64, measuring bool) error {
	if e.Kind != transport.EventResponse {
		return c.unexpected(e)
	}
	if e.Token >= transport.Token(len(c.calls)) || c.calls[e.Token].state != callInFlight {
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
	s.state = callAnswered
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
	version, failure := kv.Check(e.Payload, s.key, s.minVersion, int(c.readSize),
		c.sumDue(1, e.Size))
	if failure != kv.FailureNone {
		c.counts.failures[failure]++
	} else {
		c.counts.bytes += uint64(len(e.Payload) - kv.HeaderSize)
		s.minVersion = version
	}
	s.flags &^= callReading
	c.nonce++
	c.counts.summed += uint64(s.written)
	index := int(e.Token)
	c.requests[index].Payload = kv.EncodePut(c.buffer(index), s.key, int(s.written), c.nonce)
	c.add(index)
}

// completeAll verifies and counts the responses among events from done on, unless they arrive while
// draining, and prepares the calls of all that are not replayed again.
func (c *client) completeAll(events []transport.Event, done int, now uint64, measuring bool) {
	if !measuring {
		c.discard(events, now)
	} else if c.service == serviceStore && c.iterations == nil && c.peers == nil &&
		c.sampler.left > uint32(len(events)) {
		c.completeStore(events) // no latency is due to be recorded
	} else {
		for done < len(events) {
			if e := &events[done]; e.Kind == transport.EventResponse {
				c.completeOne(e, now)
			}
			if done++; c.echoes {
				done = c.completeEchoes(events, done)
			}
		}
	}
	if !c.replays {
		c.prepareAll(events)
	}
}

// completeStore is completeOne for all responses of a store, when only counts are recorded.
func (c *client) completeStore(events []transport.Event) {
	ops, bytes, verify := uint64(0), uint64(0), c.verify
	sums, summed := uint64(0), uint64(0)
	for i := range events {
		e := &events[i]
		if e.Kind != transport.EventResponse {
			continue
		}
		s := &c.calls[e.Token]
		s.state = callFree
		ops++
		c.counts.byOp[s.op]++
		verify -= uint32(s.reads)
		version, failure := kv.Check(e.Payload, s.key, s.minVersion, int(s.wantSize), verify == 0)
		if verify == 0 {
			verify = uint32(c.cfg.VerifyEvery)
			sums++
			summed += uint64(max(len(e.Payload)-kv.HeaderSize, 0))
		}
		if failure != kv.FailureNone {
			c.counts.wrong++
			c.counts.failures[failure]++
			continue
		}
		bytes += uint64(len(e.Payload)-kv.HeaderSize) + uint64(s.written)
		c.see(s.key, version)
	}
	c.verify = verify
	c.sampler.left -= uint32(ops)
	c.counts.ops += ops
	c.counts.sums += sums
	c.counts.summed += summed
	c.counts.bytes += bytes
}

// completeEchoes is completeOne for events from done on, as long as they are the responses of short
// echoes, nothing is wrong with them, and neither a verification in full nor a latency is due. It
// returns the index of the event after those.
func (c *client) completeEchoes(events []transport.Event, done int) int {
	first, plain := done, min(len(events), done+int(c.verify)-1, done+int(c.sampler.left)-1)
	bytes := 0
	for done < plain {
		e := &events[done]
		if e.Kind != transport.EventResponse {
			break
		}
		request := c.requests[e.Token].Payload
		if !kv.SameEcho(e.Payload, request) {
			break
		}
		c.calls[e.Token].state = callFree
		bytes += len(request) - kv.HeaderSize
		done++
	}
	ops := uint64(done - first)
	c.verify -= uint32(ops)
	c.sampler.left -= uint32(ops)
	c.counts.ops += ops
	c.counts.byOp[workload.Read] += ops
	c.counts.bytes += 2 * uint64(bytes) // forth and back
	return done
}

// discard ends the calls of responses that arrive while draining.
func (c *client) discard(events []transport.Event, now uint64) {
	for i := range events {
		e := &events[i]
		if e.Kind != transport.EventResponse {
			continue
		}
		c.counts.drained++
		c.forget(uint32(e.Token))
		c.calls[e.Token].state = callFree
		if c.iterations != nil {
			c.iterations.complete(c.clock, uint32(e.Token), now, false)
		}
	}
}

// prepareAll prepares the calls of the responses among events again.
func (c *client) prepareAll(events []transport.Event) {
	for i := range events {
		if e := &events[i]; e.Kind == transport.EventResponse {
			c.prepare(uint32(e.Token))
		}
	}
}

// completeOne does not branch on the operation: operations come in random order, so such a branch
// is mispredicted every other time.
func (c *client) completeOne(e *transport.Event, now uint64) {
	s := &c.calls[e.Token]
	s.state = callFree
	c.counts.ops++
	c.counts.byOp[s.op]++
	if c.peers != nil {
		c.peers.ops[c.peers.of[e.Token]]++
	}
	if failure := c.check(s, e); failure != kv.FailureNone {
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
func (c *client) check(s *call, e *transport.Event) kv.Failure {
	switch c.service {
	case serviceEcho:
		return kv.CheckEcho(e.Payload, c.requests[e.Token].Payload, c.sumDue(1, len(e.Payload)))
	case serviceSink:
		return kv.CheckSink(e.Payload, c.requests[e.Token].Payload)
	}
	version, failure := kv.Check(e.Payload, s.key, s.minVersion, int(s.wantSize),
		c.sumDue(s.reads, len(e.Payload)))
	if failure == kv.FailureNone {
		c.see(s.key, version)
	}
	return failure
}

// see notes the version of a key in a response.
func (c *client) see(key uint64, version uint32) {
	if seen := &c.seen[key&c.seenMask]; seen.key != key || int32(version-seen.version) > 0 {
		seen.key, seen.version = key, version
	}
}

// sumDue counts read, 1 for a response with a value and 0 for others, and reports whether to
// verify a response of size bytes in full. Responses without a value do not count, because with a
// pattern the ones that are due could all be without.
func (c *client) sumDue(read uint8, size int) bool {
	if c.verify -= uint32(read); c.verify != 0 {
		return false
	}
	c.sum(size)
	return true
}

// sum counts a verification in full.
//
//go:noinline
func (c *client) sum(size int) {
	c.verify = uint32(c.cfg.VerifyEvery)
	c.counts.sums++
	c.counts.summed += uint64(max(size-kv.HeaderSize, 0))
}

func (c *client) record(index uint32, now uint64) {
	s := &c.calls[index]
	ticks := now - s.started
	ns := c.clock.Nanos(ticks)
	c.byOp[s.op].Record(ns)
	c.counts.samples++
	c.counts.latencySum += ticks
	c.slices.record(now, c.counts.ops)
	c.live.record(ns)
	if c.open != nil {
		c.open.response.record(c.clock, now-c.open.intended[index])
		c.open.lag.record(c.clock, c.open.late[index])
	}
	if c.mesh != nil {
		c.recordMesh(s, ticks)
	}
	if c.peers != nil {
		c.peers.times[c.peers.of[index]].record(c.clock, ticks)
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
	if n == len(c.ops) {
		c.ops = c.ops[:0]
		return
	}
	c.counts.backPressure++
	if c.ops = c.ops[n:]; !c.replays {
		c.ops = append(c.loose[:0], c.ops...)
	}
}

// drain waits for the calls in flight, at most drainLimit, and counts the rest as lost.
func (c *client) drain(s *state) error {
	// Ops that were not posted yet are not in flight: prepare their calls again.
	for i := len(c.ops) - 1; i >= 0; i-- {
		index := int(c.ops[i].Token)
		s := &c.calls[index]
		s.state = callFree
		c.forget(uint32(index))
		c.inFlight--
		if s.op == workload.ReadModifyWrite {
			c.prepareRead(s, index)
		}
		if c.replays {
			c.cursor = index
		} else {
			c.prepared.pushFront(uint32(index))
		}
	}
	c.ops = c.loose[:0]
	deadline := c.clock.Now() + c.clock.Ticks(c.drainLimit)
	for c.inFlight > 0 && s.now() != record.StateStopped && c.clock.Now() < deadline {
		if err := c.step(false); err != nil {
			return err
		}
	}
	c.counts.lost = uint64(c.inFlight)
	return nil
}

// unanswered returns the error of calls that have no answer.
func (c *client) unanswered(which string, within time.Duration) error {
	first := slices.IndexFunc(c.calls, func(call call) bool { return call.state == callInFlight })
	err := fmt.Errorf(
		"%d calls %s were not answered within %v: the transport lost them, or the far side stalls",
		c.inFlight, which, within)
	return explain(c.worker, c.requests[first].Peer, err)
}

func (c *client) unexpected(e *transport.Event) error {
	if e.Kind == transport.EventPeerLost {
		return &transport.OpError{Transport: c.cfg.Transport, Op: "call", Peer: e.Peer,
			Err: transport.ErrPeerDown}
	}
	return fmt.Errorf("client: unexpected event of kind %d: %w", e.Kind, transport.ErrUnsupported)
}

// buffer returns the memory for the request of a call.
func (c *client) buffer(index int) []byte {
	at := index * c.stride
	return c.buffers[at : at+c.stride : at+c.stride]
}

// prepare draws and encodes the next request of a call, and queues the call unless it is replayed.
func (c *client) prepare(index uint32) {
	s, request := &c.calls[index], &c.requests[index]
	r := &c.request
	c.generator.Next(r)
	s.flags = 0
	key := r.Key
	if !c.route.single() {
		var owner uint64
		if key, owner, request.Peer = c.route.choose(key); c.route.remote(owner) {
			s.flags = callRemote
		}
		if c.peers != nil {
			c.peers.of[index] = c.peers.groups[owner]
		}
	}
	s.key = key
	s.written = uint32(r.Size)
	s.op = r.Op
	s.reads, s.wantSize = 0, 0
	if c.service != serviceStore {
		c.prepareAlike(s, int(index))
	} else {
		c.prepareStore(s, int(index))
	}
	if !c.replays {
		c.prepared.push(index)
	}
}

// prepareAlike encodes a request of a service with one operation.
func (c *client) prepareAlike(s *call, index int) {
	c.nonce++
	if c.service == serviceEcho {
		s.op = workload.Read
		c.requests[index].Payload = kv.EncodeEcho(c.buffer(index), s.key, int(s.written), c.nonce)
	} else {
		s.op = workload.Write
		c.requests[index].Payload = kv.EncodePut(c.buffer(index), s.key, int(s.written), c.nonce)
	}
}

// prepareStore encodes a request of the store.
func (c *client) prepareStore(s *call, index int) {
	switch s.op {
	case workload.Read:
		s.reads, s.wantSize = 1, c.readSize
		c.requests[index].Payload = kv.EncodeGet(c.buffer(index), s.key)
	case workload.Lookup:
		c.requests[index].Payload = kv.EncodeLookup(c.buffer(index), s.key)
	case workload.ReadModifyWrite:
		c.prepareRead(s, index)
	default:
		c.nonce++
		c.counts.summed += uint64(s.written)
		c.requests[index].Payload = kv.EncodePut(c.buffer(index), s.key, int(s.written), c.nonce)
	}
}

// prepareRead encodes the read of a read-modify-write.
func (c *client) prepareRead(s *call, index int) {
	s.flags |= callReading
	c.requests[index].Payload = kv.EncodeGet(c.buffer(index), s.key)
}

// issueMany issues n calls. Consecutive calls that are replayed need no copies of their ops.
func (c *client) issueMany(n int, now uint64) {
	for c.alike && n > 0 {
		first := c.cursor
		last := first
		for last < min(first+n, len(c.calls)) && c.calls[last].state == callFree {
			s := &c.calls[last]
			s.state = callInFlight
			s.started = now
			if c.service == serviceStore {
				s.minVersion = c.newest(s.key)
			}
			last++
		}
		c.addReplayed(first, last-first)
		c.inFlight += last - first
		n -= last - first
		if c.cursor = last; last < len(c.calls) {
			break
		}
		c.cursor = 0
	}
	for range n {
		c.issue(now)
	}
}

// newest returns the newest version of a key that the client has seen, or 0.
func (c *client) newest(key uint64) uint32 {
	if seen := &c.seen[key&c.seenMask]; seen.key == key {
		return seen.version
	}
	return 0
}

// issue moves a prepared call to the ops to post and returns its index. The caller ensures that
// fewer than Config.InFlight calls are in flight, so that one is prepared.
func (c *client) issue(now uint64) (index int) {
	index = c.next()
	s := &c.calls[index]
	s.state = callInFlight
	s.minVersion = c.newest(s.key)
	c.add(index)
	c.inFlight++
	s.started = now
	if c.trace != nil && c.traced.take() && s.flags&(callRemote|callReading) == callRemote &&
		c.trace.word.Load() == 0 {
		s.flags |= callTraced
		c.trace.begin(firstWord(c.requests[index].Payload))
	}
	if c.iterations != nil {
		c.iterations.issue(uint32(index), now)
	}
	return index
}

// next returns the call to issue. Replaying skips calls that are still in flight after a whole
// pass.
func (c *client) next() (index int) {
	if !c.replays {
		return int(c.prepared.pop())
	}
	for {
		index = c.cursor
		if c.cursor++; c.cursor == len(c.calls) {
			c.cursor = 0
		}
		if c.calls[index].state == callFree {
			return index
		}
	}
}

// upcoming returns the call that is issued after ahead others; ok is false if that is not known.
func (c *client) upcoming(ahead int) (index int, ok bool) {
	if !c.replays {
		n := c.prepared.len()
		if n == 0 {
			return 0, false
		}
		return int(c.prepared.ring[(c.prepared.head+uint32(min(ahead, n-1)))&c.prepared.mask]), true
	}
	index = (c.cursor + ahead) % len(c.calls)
	return index, c.calls[index].state == callFree
}

// add appends a call's request to the ops to post.
func (c *client) add(index int) {
	if c.replays {
		c.addReplayed(index, 1)
		return
	}
	c.ops = append(c.ops, c.requests[index])
}

// addReplayed appends the requests of n calls from first on to the ops to post.
func (c *client) addReplayed(first, n int) {
	waiting := len(c.ops)
	switch {
	case n == 0:
	case waiting == 0:
		c.ops = c.requests[first : first+n]
	case waiting+n <= cap(c.ops) && c.follows(first, &c.ops[waiting-1]):
		c.ops = c.ops[:waiting+n]
	default:
		c.ops = append(append(c.loose[:0], c.ops...), c.requests[first:first+n]...)
	}
}

// follows reports whether the request of a call comes right after last in requests.
func (c *client) follows(first int, last *transport.Op) bool {
	return first > 0 && last == &c.requests[first-1] ||
		first < c.cfg.InFlight && last == &c.requests[len(c.calls)+first-1]
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
