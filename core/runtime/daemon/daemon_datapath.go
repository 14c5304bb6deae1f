package daemon

import (
	"errors"
	"fmt"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
)

// Run runs the loop of one window: poll, serve, scan, delegate, flush. It serves from the start
// until the state is stopped, and counts while it is measuring.
func (d *Daemon) Run(s *loop.State, atBegin, atEnd func()) error {
	for s.Now() == record.StateReady {
		if err := d.Step(); err != nil {
			return err
		}
	}
	atBegin()
	d.early = d.counts.requests
	d.counts, d.ended = counts{store: d.work()}, false
	if d.device != nil {
		d.device.begin()
	}
	if d.storage != nil {
		d.storage.begin()
	}
	d.loop.reset()
	d.Gaps.Begin()
	d.start = d.clock.Now()
	for {
		if now := s.Now(); now != record.StateMeasuring {
			if !d.ended {
				d.end(atEnd)
			}
			if now == record.StateStopped {
				return d.stopped()
			}
		}
		if err := d.Step(); err != nil {
			if !d.ended {
				d.end(atEnd)
			}
			return err
		}
	}
}

// end ends the window: later requests are served but not counted.
func (d *Daemon) end(atEnd func()) {
	d.ended = true
	// Without a processor in the window, the thread may read the same time at both of its ends.
	d.counts.window = max(d.clock.Now()-d.start, d.clock.Ticks(time.Nanosecond)+1)
	d.counts.store = d.work().Since(d.counts.store)
	d.atEnd = d.counts
	if d.storage != nil {
		d.storage.end()
	}
	d.loop.stop()
	d.Gaps.Stop()
	atEnd()
}

// work returns what the service has done with values so far.
func (d *Daemon) work() kv.Work {
	if d.store == nil {
		return d.Sink.Work()
	}
	return d.store.Work()
}

// stopped runs after the last request: it verifies values in device memory.
func (d *Daemon) stopped() error {
	if d.device == nil {
		return nil
	}
	return d.device.inspect()
}

// Step is one iteration of the loop.
func (d *Daemon) Step() error {
	d.counts.loops++
	d.Gaps.BeginIteration()
	if d.loop.sampler.Take() {
		d.loop.start()
	}
	n := 0
	// Responses waiting for room in the clients' links point into the events of the last Poll.
	if d.proxy == nil || d.proxy.out.empty() {
		var err error
		if n, err = d.worker.Poll(d.events); err != nil {
			return err
		}
	}
	if d.loop.timing {
		d.loop.stamp(phasePoll)
	}
	traced := -1
	if n > 0 {
		if d.tracer.trace != nil && d.tracer.trace.Word.Load() != 0 {
			traced = d.tracer.find(d.clock, d.events[:n])
		}
		served := 0
		if d.batch && traced < 0 {
			if d.service == loop.ServiceEcho {
				served = d.echo(n)
			} else if d.delegation == nil && d.storage == nil && d.device == nil {
				served = d.serveStored(n)
			}
		}
		if served < n {
			if err := d.handle(d.events[served:n], traced); err != nil {
				return err
			}
		}
	}
	found := n
	if d.storage != nil && d.storage.open() {
		m, err := d.complete()
		if err != nil {
			return err
		}
		found += m
	}
	if d.loop.timing {
		d.loop.stamp(phaseServe)
	}
	if d.proxy != nil {
		m, err := d.scan()
		if err != nil {
			return err
		}
		found += m
		if d.loop.timing {
			d.loop.stamp(phaseScan)
		}
	}
	if d.delegation != nil {
		m, err := d.pollSiblings()
		if err != nil {
			return err
		}
		found += m
		if d.loop.timing {
			d.loop.stamp(phaseDelegate)
		}
	}
	waiting := d.waiting()
	if waiting > 0 {
		if err := d.flushAll(); err != nil {
			return err
		}
	}
	if d.loop.timing {
		d.loop.stamp(phaseFlush)
		d.loop.finish(n > 0, found+waiting > 0)
	}
	if traced >= 0 && d.tracer.posted != 0 {
		d.tracer.publish(&d.events[traced])
	}
	if found == 0 && d.waiting() == waiting {
		if waiting == 0 {
			d.counts.empty++
		}
		// The client that must make room may need this core.
		if d.storage != nil && d.storage.open() {
			return d.idle.PauseUntil(d.storage.left())
		}
		return d.idle.Pause()
	}
	d.idle.Busy()
	return nil
}

// waiting returns the number of ops that are not posted yet.
func (d *Daemon) waiting() int {
	n := len(d.out.ops)
	if d.proxy != nil {
		n += len(d.proxy.out.ops)
	}
	if d.delegation != nil {
		n += len(d.delegation.out.ops)
	}
	return n
}

// handle handles the events of a poll: it routes requests and passes responses to the clients that
// wait for them. traced is the index of the event whose stages are recorded, or -1.
func (d *Daemon) handle(events []transport.Event, traced int) error {
	for i := range events {
		e := &events[i]
		switch {
		case e.Kind == transport.EventRequest:
			if d.out.full() {
				return fmt.Errorf(
					"serve: peers have more open requests than the %d that the run allows",
					cap(d.out.ops))
			}
			d.counts.incoming++
			if err := d.route(e, &d.out); err != nil {
				return err
			}
			if i == traced {
				d.tracer.serve(d.clock)
			}
		case e.Kind == transport.EventResponse && d.proxy != nil:
			if err := d.respond(e); err != nil {
				return err
			}
		case e.Kind == transport.EventPeerLost:
			if d.proxy != nil { // clients' calls to it have failed
				return &transport.OpError{Transport: d.cfg.Transport, Op: "call", Peer: e.Peer,
					Err: transport.ErrPeerDown}
			}
			continue // its own rank reports the reason
		default:
			return fmt.Errorf("daemon: unexpected event of kind %d: %w", e.Kind,
				transport.ErrUnsupported)
		}
		if err := d.flushIfImmediate(); err != nil {
			return err
		}
	}
	return nil
}

// echo replies to the echo requests with which the found events begin, and returns their number. It
// is serve without what echoes do not need.
func (d *Daemon) echo(found int) (n int) {
	events, waiting := d.events[:found], len(d.out.ops)
	replies := d.out.ops[:cap(d.out.ops)]
	for n < len(events) && waiting+n < len(replies) {
		e, reply := &events[n], &replies[waiting+n]
		if e.Kind != transport.EventRequest || !kv.IsEcho(e.Payload) {
			break
		}
		reply.Kind = transport.OpReply
		reply.Peer = e.Peer
		reply.Token = e.Token
		reply.Payload = e.Payload
		n++
	}
	d.out.ops = d.out.ops[:waiting+n]
	d.counts.incoming += uint64(n)
	d.counts.requests += uint64(n)
	d.counts.outcomes[kv.OutcomeGet] += uint64(n)
	return n
}

// serveStored serves the requests with which the found events begin from the store, and returns
// their number. Like echo, it leaves out what they do not need: here siblings, storage and the
// device.
func (d *Daemon) serveStored(found int) (n int) {
	events, waiting := d.events[:found], len(d.out.ops)
	replies, next := d.out.ops[:cap(d.out.ops)], d.next
	for n < len(events) && waiting+n < len(replies) {
		e, reply := &events[n], &replies[waiting+n]
		if e.Kind != transport.EventRequest {
			break
		}
		payload, outcome := d.store.Serve(e.Payload, &d.headers[next])
		if next++; next == len(d.headers) {
			next = 0
		}
		d.counts.outcomes[outcome]++
		reply.Kind = transport.OpReply
		reply.Peer = e.Peer
		reply.Token = e.Token
		reply.Payload = payload
		n++
	}
	d.next = next
	d.out.ops = d.out.ops[:waiting+n]
	d.counts.incoming += uint64(n)
	d.counts.requests += uint64(n)
	return n
}

// serve executes a request and adds the reply to out, or leaves both to the storage if that delays
// the request. The reply's payload is not a copy: it is an entry of the store, the request itself
// (of an echo), or one of the daemon's headers, of which there are as many as requests can be open.
// The worker copies it when it takes the reply.
func (d *Daemon) serve(e *transport.Event, out *outbox) {
	if d.storage != nil && d.delay(e, out) {
		return
	}
	d.counts.requests++
	reply := out.add()
	reply.Kind = transport.OpReply
	reply.Peer = e.Peer
	reply.Token = e.Token
	if d.service == loop.ServiceEcho && kv.IsEcho(e.Payload) {
		d.counts.outcomes[kv.OutcomeGet]++
		reply.Payload = e.Payload
		return
	}
	payload, outcome := d.execute(e)
	d.counts.outcomes[outcome]++
	reply.Payload = payload
}

// execute returns the response to a request that is not an echo.
func (d *Daemon) execute(e *transport.Event) (response []byte, outcome kv.Outcome) {
	header := &d.headers[d.next]
	if d.next++; d.next == len(d.headers) {
		d.next = 0
	}
	if d.device != nil && len(e.Payload) < e.Size {
		if d.service == loop.ServiceSink {
			response, outcome = d.Sink.ServeHead(e.Payload, e.Size, header)
		} else {
			response, outcome = d.store.ServeHead(e.Payload, e.Size, header)
		}
		if outcome == kv.OutcomePut {
			d.device.add(e)
			d.counts.left++
		}
		return response, outcome
	}
	switch d.service {
	case loop.ServiceStore:
		return d.store.Serve(e.Payload, header)
	case loop.ServiceSink:
		return d.Sink.Serve(e.Payload, header)
	}
	return kv.RejectEcho(header)
}

func (d *Daemon) flushIfImmediate() error {
	if d.cfg.Flush != config.FlushImmediate {
		return nil
	}
	return d.flushAll()
}

// flushAll flushes the daemon's ops and those of its proxy and to its siblings.
func (d *Daemon) flushAll() error {
	err := d.flush(&d.out)
	if err == nil && d.proxy != nil {
		err = d.flushProxy()
	}
	if err == nil && d.delegation != nil {
		err = d.flush(&d.delegation.out)
	}
	return err
}

// flushProxy flushes the calls that a proxy forwards, after the daemon's own ops.
func (d *Daemon) flushProxy() error {
	if d.proxy.held = !d.out.empty(); !d.proxy.held {
		d.proxy.flushed(d.clock)
	}
	return d.flush(&d.proxy.out)
}

// flush posts the ops of out and rings the doorbell.
func (d *Daemon) flush(out *outbox) error {
	if out.empty() {
		return nil
	}
	if d.store != nil && d.store.Resized() {
		d.refresh()
	}
	if d.tracer.served != 0 {
		d.tracer.post(d.clock)
	}
	d.counts.flushes++
	if n, err := out.worker.Post(out.ops); err != nil || n < len(out.ops) {
		return d.flushShort(out, n, err)
	}
	out.ops, out.copied, out.posted = out.ops[:0], 0, false
	return out.worker.Flush()
}

// flushShort is flush after a Post that took n ops and not all. It drops replies to a lost peer
// and fails for calls to one. What the worker does not take, for lack of room, stays.
func (d *Daemon) flushShort(out *outbox, n int, err error) error {
	for {
		out.posted = out.posted || n > 0
		if err != nil {
			if !errors.Is(err, transport.ErrPeerDown) || out.ops[n].Kind != transport.OpReply {
				return err
			}
			n++
		}
		out.drop(n)
		if err == nil || out.empty() {
			break
		}
		n, err = out.worker.Post(out.ops)
	}
	if !out.empty() {
		d.counts.backPressure++
		if out.kept != nil {
			out.keep()
		}
	}
	if !out.posted {
		return nil
	}
	out.posted = false
	return out.worker.Flush()
}

// refresh updates replies that are not posted yet after a PUT changed the length of an entry.
func (d *Daemon) refresh() {
	d.out.refresh(d.store)
	if d.proxy != nil {
		d.proxy.out.refresh(d.store)
	}
	if d.delegation != nil {
		d.delegation.out.refresh(d.store)
	}
	d.store.Settle()
}
