package client

import (
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
)

// This file has what the loops of a client have in common: a call from its issue to the
// verified response.

// issueCopy issues a call and appends a copy of its request to the ops to post. Fewer than
// config.InFlight calls must be in flight.
func (c *Client) issueCopy(index int, now uint64) {
	call := &c.calls[index]
	call.state = callInFlight
	call.started = now
	call.minVersion = c.newest(call.key)
	n := len(c.ops)
	c.ops = c.ops[:n+1]
	c.ops[n] = c.requests[index]
	c.inFlight++
	if c.eachCall {
		c.recordIssue(index, now)
	}
}

// post posts ops, rings the doorbell, and keeps those that the worker did not take.
func (c *Client) post() error {
	if c.flushEach {
		n, err := c.postEach(c.ops)
		c.ops = c.ops[:copy(c.ops, c.ops[n:])]
		return err
	}
	n, err := c.worker.Post(c.ops)
	if err != nil {
		return err
	}
	c.counts.posted += uint64(n)
	if n < len(c.ops) {
		c.counts.backPressure++
		n = copy(c.ops, c.ops[n:])
	} else {
		n = 0
	}
	c.ops = c.ops[:n]
	return c.worker.Flush()
}

// postEach posts ops with a doorbell for each, and returns how many the worker took.
func (c *Client) postEach(ops []transport.Op) (taken int, err error) {
	for taken < len(ops) && err == nil {
		var n int
		n, err = c.worker.Post(ops[taken : taken+1])
		if taken += n; err != nil || n == 0 {
			break
		}
		err = c.worker.Flush()
	}
	c.counts.posted += uint64(taken)
	if taken < len(ops) && err == nil {
		c.counts.backPressure++
	}
	return taken, err
}

// awaits reports whether an event is the response to a call in flight.
func (c *Client) awaits(e *transport.Event) bool {
	return e.Token < transport.Token(len(c.calls)) && c.calls[e.Token].state == callInFlight
}

// accept ends the calls that events answer. It clears the kind of the other events, so that
// complete skips them.
func (c *Client) accept(events []transport.Event, now uint64) error {
	ended := 0
	for i := range events {
		e := &events[i]
		if e.Kind == transport.EventResponse && e.Token < transport.Token(len(c.calls)) {
			call := &c.calls[e.Token]
			if call.state == callInFlight && call.flags&(callTraced|callReading) == 0 {
				call.state = callAnswered
				ended++
				continue
			}
		}
		if err := c.acceptRare(e, now); err != nil {
			return err
		}
		if e.Kind == transport.EventResponse {
			ended++
		}
	}
	c.inFlight -= ended
	return nil
}

// acceptRare accepts an event that is not the plain response to a call. It clears the event's kind
// if no call in flight has the event's token, or if it answers the read of a read-modify-write.
func (c *Client) acceptRare(e *transport.Event, now uint64) error {
	switch {
	case e.Kind != transport.EventResponse:
		return c.unexpected(e)
	case !c.awaits(e):
		c.counts.unknownToken++
		e.Kind = 0
		return nil
	}
	call := &c.calls[e.Token]
	if call.flags&callReading != 0 {
		c.modify(call, e)
		e.Kind = 0
		return nil
	}
	c.endTrace(call, now)
	call.state = callAnswered
	return nil
}

// modify appends the write of a read-modify-write whose read was answered to the ops to post.
func (c *Client) modify(call *call, e *transport.Event) {
	version, failure := kv.Check(e.Payload, call.key, call.minVersion, int(c.readSize),
		c.sumDue(1, e.Size))
	if failure != kv.FailureNone {
		c.counts.failures[failure]++
	} else {
		c.counts.bytes += uint64(len(e.Payload) - kv.HeaderSize)
		call.minVersion = version
	}
	call.flags &^= callReading
	c.nonce++
	c.counts.summed += uint64(call.written)
	index := int(e.Token)
	c.requests[index].Payload = kv.EncodePut(c.buffer(index), call.key, int(call.written), c.nonce)
	c.ops = append(c.ops, c.requests[index])
}

// completeEchoes verifies and counts the responses among events. Those that are correct take a
// short path, unless a verification in full or a latency is due.
func completeEchoes(c *Client, events []transport.Event, now uint64) {
	for done := 0; done < len(events); done++ {
		first, plain := done, min(len(events), done+int(c.verify)-1, done+int(c.sampler.Left)-1)
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
		c.sampler.Left -= uint32(ops)
		c.counts.ops += ops
		c.counts.byOp[workload.Read] += ops
		c.counts.bytes += 2 * uint64(bytes) // forth and back
		if done == len(events) {
			return
		}
		c.completeOne(&events[done], now)
	}
}

// completeStore is completeEchoes for the responses of a store. Its short path also has the
// verifications in full and the wrong responses.
func completeStore(c *Client, events []transport.Event, now uint64) {
	for {
		plain := min(len(events), int(c.sampler.Left)-1)
		ops, bytes, verify := uint64(0), uint64(0), c.verify
		sums, summed := uint64(0), uint64(0)
		for i := range events[:plain] {
			e := &events[i]
			if e.Kind != transport.EventResponse {
				continue
			}
			call := &c.calls[e.Token]
			call.state = callFree
			ops++
			c.counts.byOp[call.op]++
			verify -= uint32(call.reads)
			version, failure := kv.Check(e.Payload, call.key, call.minVersion, int(call.wantSize),
				verify == 0)
			if verify == 0 {
				verify = uint32(c.config.VerifyEvery)
				sums++
				summed += uint64(max(len(e.Payload)-kv.HeaderSize, 0))
			}
			if failure != kv.FailureNone {
				c.counts.wrong++
				c.counts.failures[failure]++
				continue
			}
			bytes += uint64(len(e.Payload)-kv.HeaderSize) + uint64(call.written)
			c.see(call.key, version)
		}
		c.verify = verify
		c.sampler.Left -= uint32(ops)
		c.counts.ops += ops
		c.counts.sums += sums
		c.counts.summed += summed
		c.counts.bytes += bytes
		if plain == len(events) {
			return
		}
		c.completeOne(&events[plain], now)
		events = events[plain+1:]
	}
}

// completeEach is completeEchoes without a short path: for a sink, and with recorders of each call.
func completeEach(c *Client, events []transport.Event, now uint64) {
	for i := range events {
		c.completeOne(&events[i], now)
	}
}

// completeOne verifies, counts and records one response. It does not branch on the operation:
// operations come in random order, so such a branch is mispredicted every other time.
func (c *Client) completeOne(e *transport.Event, now uint64) {
	if e.Kind != transport.EventResponse {
		return
	}
	call := &c.calls[e.Token]
	call.state = callFree
	c.counts.ops++
	c.counts.byOp[call.op]++
	if c.peers != nil {
		c.peers.ops[c.peers.of[e.Token]]++
	}
	if failure := c.check(call, e); failure != kv.FailureNone {
		c.counts.wrong++
		c.counts.failures[failure]++
	} else {
		c.counts.bytes += uint64(len(e.Payload)-kv.HeaderSize) + uint64(call.written)
	}
	if c.sampler.Take() {
		c.record(int(e.Token), now)
	}
	if c.iterations != nil {
		c.iterations.complete(c.clock, uint32(e.Token), now, true)
	}
}

// check verifies a response.
func (c *Client) check(call *call, e *transport.Event) kv.Failure {
	switch c.service {
	case loop.ServiceEcho:
		return kv.CheckEcho(e.Payload, c.requests[e.Token].Payload, c.sumDue(1, len(e.Payload)))
	case loop.ServiceSink:
		return kv.CheckSink(e.Payload, c.requests[e.Token].Payload)
	}
	version, failure := kv.Check(e.Payload, call.key, call.minVersion, int(call.wantSize),
		c.sumDue(call.reads, len(e.Payload)))
	if failure == kv.FailureNone {
		c.see(call.key, version)
	}
	return failure
}

// see notes the version of a key in a response.
func (c *Client) see(key uint64, version uint32) {
	if seen := &c.seen[key&c.seenMask]; seen.key != key || int32(version-seen.version) > 0 {
		seen.key, seen.version = key, version
	}
}

// newest returns the newest version of a key that the client has seen, or 0.
func (c *Client) newest(key uint64) uint32 {
	if seen := &c.seen[key&c.seenMask]; seen.key == key {
		return seen.version
	}
	return 0
}

// sumDue counts read, 1 for a response with a value and 0 for others, and reports whether to
// verify a response of size bytes in full. Responses without a value do not count, because with a
// pattern the ones that are due could all be without.
func (c *Client) sumDue(read uint8, size int) bool {
	if c.verify -= uint32(read); c.verify != 0 {
		return false
	}
	c.sum(size)
	return true
}

// sum counts a response that is verified in full.
//
//go:noinline
func (c *Client) sum(size int) {
	c.verify = uint32(c.config.VerifyEvery)
	c.counts.sums++
	c.counts.summed += uint64(max(size-kv.HeaderSize, 0))
}

// drawAgain draws new requests for the calls that events have ended.
func (c *Client) drawAgain(events []transport.Event) {
	for i := range events {
		if e := &events[i]; e.Kind == transport.EventResponse {
			c.prepare(int(e.Token))
		}
	}
}

// recordBusy records the time of an iteration that began at began and found responses. It stands
// for those since the last one that was timed: [loop.GapWatch] looks at the clock more often while
// iterations are slow.
func (c *Client) recordBusy(began uint64) {
	n, spent := &c.counts, c.clock.Now()-began
	found := n.polls - n.empty
	n.busyTicks += (spent - min(spent, c.readCost)) * (found - n.busyTimed)
	n.busyTimed = found
	c.Gaps.Work(spent)
}

// count adds the calls in flight since the last time to their integral over the window. An open
// loop calls it before their number changes; a closed loop keeps that number.
func (c *Client) count(now uint64) {
	c.counts.inFlight += uint64(c.inFlight) * (now - c.counted)
	c.counted = now
}

// recordIssue tells the recorders of each call that one is issued.
func (c *Client) recordIssue(index int, now uint64) {
	call := &c.calls[index]
	if c.trace != nil && c.traced.Take() &&
		call.flags&(callRemote|callReading) == callRemote && c.trace.Word.Load() == 0 {
		call.flags |= callTraced
		c.trace.Begin(loop.FirstWord(c.requests[index].Payload))
	}
	if c.iterations != nil && c.iterations.issue(uint32(index), now) && c.config.Handoff != "" {
		c.maxIssued = 0
	}
}

// endTrace records the stages of a traced request. It runs before the next call is issued, because
// that call may use the trace.
func (c *Client) endTrace(call *call, now uint64) {
	call.flags &^= callTraced
	if stages, ok := c.trace.End(call.started, now); ok {
		for i, spent := range stages {
			c.mesh.stages[i].Record(c.clock, spent)
		}
	}
}

// record records the latency of a sampled call.
func (c *Client) record(index int, now uint64) {
	call := &c.calls[index]
	ticks := now - call.started
	ns := c.clock.Nanos(ticks)
	c.byOp[call.op].Record(ns)
	c.counts.samples++
	c.counts.latencySum += ticks
	c.slices.record(now, c.counts.ops)
	c.live.record(ns)
	if c.open != nil {
		c.open.response[c.slices.at].Record(c.clock, now-c.open.intended[index])
		c.open.lag.Record(c.clock, c.open.late[index])
	}
	if c.mesh != nil {
		c.recordMesh(call, ticks)
	}
	if c.peers != nil {
		c.peers.times[c.peers.of[index]].Record(c.clock, ticks)
	}
}

func (c *Client) recordMesh(call *call, ticks uint64) {
	if call.flags&callRemote == 0 {
		c.mesh.local.Record(c.clock, ticks)
		return
	}
	c.mesh.remote.Record(c.clock, ticks)
}
