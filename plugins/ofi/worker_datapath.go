package ofi

import (
	"transportbench/core/transport"
	"transportbench/plugins/ofi/internal/fi"
)

// Post implements [transport.Worker]. It copies into the shim's memory and does not call into
// C.
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.closed {
		return 0, name.Error("post", transport.ErrClosed)
	}
	for i := range ops {
		op := &ops[i]
		if int(op.Peer) >= len(w.peers.ByID) || w.peers.ByID[op.Peer] == nil {
			return i, name.PeerError("post", op.Peer, transport.ErrPeerDown)
		}
		p := w.peers.ByID[op.Peer]
		switch {
		case p.state != peerUp:
			return i, p.errors.Down
		case len(op.Payload) > w.limit:
			return i, p.errors.TooLarge
		}
		switch op.Kind {
		case transport.OpCall:
			if p.calls >= w.window || !w.library.Enqueue(uint32(op.Peer), fi.Call, uint64(op.Token),
				op.Payload) {
				return i, w.full()
			}
			p.calls++
		case transport.OpReply:
			if p.pendingReplies == 0 {
				return i, p.errors.NoCall
			}
			if !w.library.Enqueue(uint32(op.Peer), fi.Reply, uint64(op.Token), op.Payload) {
				return i, w.full()
			}
			p.pendingReplies--
		default:
			return i, p.errors.Unsupported
		}
		w.counts.posted++
		w.counts.bytes += uint64(len(op.Payload))
	}
	return len(ops), nil
}

// full sends the queue because its slots may be the missing room.
func (w *worker) full() error {
	w.counts.full++
	w.send()
	return nil
}

func (w *worker) send() {
	if w.library.Unsent() {
		w.counts.crossings++
		w.library.Flush()
	}
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.closed {
		return name.Error("flush", transport.ErrClosed)
	}
	w.send()
	return nil
}

// Poll implements [transport.Worker]. It calls into C unless enough has arrived already to
// fill events.
func (w *worker) Poll(events []transport.Event) (int, error) {
	if w.closed {
		return 0, name.Error("poll", transport.ErrClosed)
	}
	if w.library.Ready() < max(len(events), 1) {
		w.counts.crossings++
		w.library.Progress()
		empty := w.library.Ready() == 0 && w.lost.Len() == 0
		if w.gone.Load() != w.handled {
			w.cutGone(empty)
		}
		if empty {
			w.counts.empty++
			return 0, nil
		}
	}
	n := w.lost.Report(events)
	for ready := w.library.Ready(); ready > 0 && n < len(events); ready-- {
		a := w.library.Take()
		p := w.peers.ByID[a.Peer]
		e := &events[n]
		switch {
		case a.Kind == fi.Call && p.state == peerUp && p.pendingReplies < w.window:
			p.pendingReplies++
			e.Kind = transport.EventRequest
		case a.Kind == fi.Reply && p.state == peerUp && p.calls > 0:
			p.calls--
			e.Kind = transport.EventResponse
		case a.Kind == fi.Lost:
			if p.state == peerLost {
				continue
			}
			corrupt := p.state == peerUp && fi.Reason(a.Token) == fi.Corrupt
			p.state = peerLost
			if corrupt { // the next Poll reports the loss
				w.lost.Add(p.id)
				w.counts.polled += uint64(n)
				return n, p.errors.Corrupt
			}
			*e = transport.Event{Kind: transport.EventPeerLost, Peer: p.id}
			n++
			continue
		case p.state == peerUp: // more calls than the window has, or a reply without a call
			p.state = peerCut
			w.library.Cut(int(p.id))
			w.counts.polled += uint64(n)
			return n, p.errors.Corrupt
		default: // cut off: only its loss is still reported
			continue
		}
		e.Peer = p.id
		e.Token = transport.Token(a.Token)
		e.Payload = a.Payload()
		e.Size = len(e.Payload)
		n++
	}
	w.counts.polled += uint64(n)
	return n, nil
}

// cutGone reports the peers whose presence has ended, after some more polls. It is called after
// each.
func (w *worker) cutGone(empty bool) {
	if w.grace++; empty {
		w.grace += busyGraceful/graceful - 1
	}
	if w.grace < busyGraceful {
		return
	}
	w.grace = 0
	w.handled = w.gone.Load()
	for _, p := range w.peers.ByID {
		if p != nil && p.state == peerUp && p.gone.Load() {
			p.state = peerCut
			w.library.Cut(int(p.id))
		}
	}
}
