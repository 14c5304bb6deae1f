package rank

import (
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// run is the daemon's loop for one phase: poll, serve, scan, flush. It serves
// from the start until it is stopped, and counts while the stage is measuring.
func (d *daemon) run(s *state, atBegin, atEnd func()) error {
	for s.now() == record.StateReady {
		if err := d.turn(); err != nil {
			return err
		}
	}
	atBegin()
	d.counts, d.ended = daemonCounts{}, false
	if d.device != nil {
		d.device.begin()
	}
	d.loop.reset()
	d.start = d.clock.Now()
	for {
		if now := s.now(); now != record.StateMeasuring {
			if !d.ended {
				d.end(atEnd)
			}
			if now == record.StateStopped {
				return d.stopped()
			}
		}
		if err := d.turn(); err != nil {
			if !d.ended {
				d.end(atEnd)
			}
			return err
		}
	}
}

// end closes the window: what comes after is served and not counted.
func (d *daemon) end(atEnd func()) {
	d.ended = true
	d.counts.window = d.clock.Now() - d.start
	d.atEnd = d.counts
	d.loop.stop()
	atEnd()
}

// stopped is what is left to do when nobody calls any more.
func (d *daemon) stopped() error {
	if d.device == nil {
		return nil
	}
	return d.device.inspect()
}

// turn goes through the loop once.
func (d *daemon) turn() error {
	d.counts.loops++
	timed := d.loop.take()
	n := 0
	// Responses that clients had no room for lie in what the last poll returned.
	if d.proxy == nil || d.proxy.out.empty() {
		var err error
		if n, err = d.worker.Poll(d.events); err != nil {
			return err
		}
	}
	if timed {
		d.loop.stamp(phasePoll)
	}
	if n > 0 {
		if err := d.serve(d.events[:n]); err != nil {
			return err
		}
	}
	if timed {
		d.loop.stamp(phaseServe)
	}
	found := n
	if d.proxy != nil {
		m, err := d.scan()
		if err != nil {
			return err
		}
		found += m
		if timed {
			d.loop.stamp(phaseScan)
		}
	}
	waiting := d.waiting()
	if waiting > 0 {
		if err := d.flush(); err != nil {
			return err
		}
	}
	if timed {
		d.loop.stamp(phaseFlush)
		d.loop.finish(n > 0)
	}
	if found == 0 && d.waiting() == waiting {
		if waiting == 0 {
			d.counts.empty++
		}
		// The client that has to make room may need this core.
		return d.idle.pause()
	}
	d.idle.busy()
	return nil
}

// waiting is how many ops are to be posted.
func (d *daemon) waiting() int {
	n := len(d.out.ops)
	if d.proxy != nil {
		n += len(d.proxy.out.ops)
	}
	return n
}

// serve handles what peers have sent: it answers requests out of the store, and
// hands responses to the clients that wait for them.
func (d *daemon) serve(events []transport.Event) error {
	for i := range events {
		e := &events[i]
		switch {
		case e.Kind == transport.EventRequest:
			if d.out.full() {
				return fmt.Errorf("peers have more than the %d requests open that the run allows", cap(d.out.ops))
			}
			d.counts.incoming++
			d.answer(e, &d.out)
		case e.Kind == transport.EventResponse && d.proxy != nil:
			if err := d.respond(e); err != nil {
				return err
			}
		case e.Kind == transport.EventPeerLost:
			if d.proxy != nil { // the clients' calls to it have failed
				return &transport.OpError{Transport: d.cfg.Transport, Op: "call", Peer: e.Peer, Err: transport.ErrPeerDown}
			}
			continue // its own rank says why
		default:
			return fmt.Errorf("daemon was sent an event of kind %d: %w", e.Kind, transport.ErrUnsupported)
		}
		if err := d.flushIfImmediate(); err != nil {
			return err
		}
	}
	return nil
}

// answer serves a request and puts the reply aside. It points at an entry of
// the store, which the worker copies when it takes the reply, or at a header, of
// which there are as many as requests can be open.
func (d *daemon) answer(e *transport.Event, out *outbox) {
	header := &d.headers[d.next]
	if d.next++; d.next == len(d.headers) {
		d.next = 0
	}
	d.counts.requests++
	var payload []byte
	var outcome kv.Outcome
	if d.device != nil && len(e.Payload) < e.Size {
		if payload, outcome = d.device.serve(d.store, e, header); outcome == kv.OutcomePut {
			d.counts.left++
		}
	} else {
		payload, outcome = d.store.Serve(e.Payload, header)
	}
	switch outcome {
	case kv.OutcomeGet:
		d.counts.gets++
	case kv.OutcomePut:
		d.counts.puts++
	case kv.OutcomeLookup:
		d.counts.lookups++
	default:
		d.counts.rejected++
	}
	reply := out.add()
	reply.Kind = transport.OpReply
	reply.Peer = e.Peer
	reply.Token = e.Token
	reply.Payload = payload
}

func (d *daemon) flushIfImmediate() error {
	if d.cfg.Flush != config.FlushImmediate {
		return nil
	}
	return d.flush()
}

// flush posts what waits and rings the doorbells.
func (d *daemon) flush() error {
	if d.store.Resized() {
		d.refresh()
	}
	if err := d.flushOne(&d.out); err != nil {
		return err
	}
	if d.proxy == nil {
		return nil
	}
	if d.proxy.held = !d.out.empty(); !d.proxy.held {
		d.proxy.flushed(d.clock)
	}
	return d.flushOne(&d.proxy.out)
}

func (d *daemon) flushOne(out *outbox) error {
	if out.empty() {
		return nil
	}
	short, err := out.flush()
	d.counts.flushes++
	if short {
		d.counts.backPressure++
	}
	return err
}

// refresh brings the replies that are still to be sent up to the present length
// of the entries that they point at.
func (d *daemon) refresh() {
	d.out.refresh(d.store)
	if d.proxy != nil {
		d.proxy.out.refresh(d.store)
	}
	d.store.Settle()
}
