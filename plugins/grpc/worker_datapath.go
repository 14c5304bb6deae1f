package grpc

import (
	"errors"
	"time"

	"transportbench/core/transport"
)

// Post implements [transport.Worker]. It copies the messages into slots, and allocates only when a
// slot carries a longer message than ever before.
func (w *worker) Post(ops []transport.Op) (int, error) {
	for i := range ops {
		op := &ops[i]
		p := w.peers.Admit(op)
		if p == nil {
			return i, w.peers.Refusal(name, op)
		}
		taken := false
		switch op.Kind {
		case transport.OpCall:
			taken = p.calls < w.settings.inFlight && p.postCall(op)
		case transport.OpReply:
			var known bool
			if taken, known = p.postReply(op); !known {
				return i, p.errors.NoCall
			}
		default:
			return i, p.errors.Unsupported
		}
		if !taken {
			w.counts.full++
			return i, nil
		}
		if !p.dirty {
			p.dirty = true
			w.dirty = append(w.dirty, p)
		}
		w.counts.posted++
		w.counts.bytes += uint64(len(op.Payload))
	}
	return len(ops), nil
}

// postCall returns false if there is no room.
func (p *peer) postCall(op *transport.Op) bool {
	if p.out != nil {
		if !p.out.post(kindCall, uint64(op.Token), op.Payload) {
			return false
		}
	} else if !p.callers.post(uint64(op.Token), op.Payload) {
		return false
	}
	p.calls++
	return true
}

// postReply reports whether there is room, and whether there is such a request.
func (p *peer) postReply(op *transport.Op) (taken, known bool) {
	if p.out == nil {
		known = p.requests.reply(uint64(op.Token), op.Payload)
		return known, known
	}
	if p.open == 0 {
		return false, false
	}
	if !p.out.post(kindReply, uint64(op.Token), op.Payload) {
		return false, true
	}
	p.open--
	return true, true
}

// Flush implements [transport.Worker]. It sends what grpc-go takes without waiting for the peer,
// which may lock and allocate, and wakes the goroutines that send the rest.
func (w *worker) Flush() error {
	if w.peers.Closed() {
		return name.Error("flush", transport.ErrClosed)
	}
	for _, p := range w.dirty {
		p.dirty = false
		if p.out != nil {
			w.counts.wakes += uint64(p.out.flush())
		} else {
			w.counts.wakes += uint64(p.flushCalls() + p.requests.flush())
		}
	}
	w.dirty = w.dirty[:0]
	return nil
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (int, error) {
	if w.peers.Closed() {
		return 0, name.Error("poll", transport.ErrClosed)
	}
	for _, m := range w.held {
		m.release()
	}
	w.held = w.held[:0]
	n := w.lost.Report(events)
	for n < len(events) {
		m := w.inbox.pop()
		if m == nil {
			break
		}
		e := &events[n]
		if p := m.peer; p.state == peerLost || !p.receive(m, e) {
			lost, corrupt := m.kind == kindLost && p.state != peerLost,
				errors.Is(p.cause(), errFrame)
			m.release()
			if !lost {
				continue
			}
			p.state = peerLost
			w.peers.Shut(p.id)
			if corrupt { // the next Poll reports the loss
				w.lost.Add(p.id)
				return n, p.errors.Corrupt
			}
			*e = transport.Event{Kind: transport.EventPeerLost, Peer: p.id}
			n++
			continue
		}
		e.Peer, e.Payload, e.Size = m.peer.id, m.bytes, len(m.bytes)
		w.held = append(w.held, m)
		w.counts.polled++
		w.counts.copies += m.copies
		w.counts.copied += m.copies * uint64(len(m.bytes))
		n++
	}
	return n, nil
}

// receive sets the kind and the token of an event, and returns false if m is none: the loss of the
// peer, or a message that it may not send.
func (p *peer) receive(m *message, e *transport.Event) bool {
	unary := p.out == nil
	switch {
	case m.kind == kindLost:
		return false
	case m.kind == kindCall && unary:
		p.waiting[kindCall-1].Add(-1)
		handle, ok := p.requests.open(m.answer)
		if !ok {
			p.fail(errFrame)
			return false
		}
		e.Kind, e.Token = transport.EventRequest, transport.Token(handle)
	case m.kind == kindCall:
		p.waiting[kindCall-1].Add(-1)
		if p.open == p.worker.settings.inFlight {
			p.fail(errFrame)
			return false
		}
		p.open++
		e.Kind, e.Token = transport.EventRequest, transport.Token(m.token)
	case unary:
		number := uint32(m.token)
		p.calls--
		e.Kind, e.Token = transport.EventResponse, transport.Token(p.callers.list[number].token)
		p.callers.free = append(p.callers.free, number)
	default:
		p.waiting[kindReply-1].Add(-1)
		if p.calls == 0 {
			p.fail(errFrame)
			return false
		}
		p.calls--
		e.Kind, e.Token = transport.EventResponse, transport.Token(m.token)
	}
	return true
}

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.peers.Closed() {
		return name.Error("wait", transport.ErrClosed)
	}
	if w.lost.Len() == 0 {
		w.counts.parked++
		w.inbox.wait(max(timeout, 0))
	}
	return nil
}

// Wake implements [transport.Waiter].
func (w *worker) Wake() { w.inbox.notify() }
