package amlib

import "transportbench/core/transport"

// Post implements [transport.Worker]. It copies into the shim's memory and does not call into C.
func (w *Worker) Post(ops []transport.Op) (int, error) {
	for i := range ops {
		op := &ops[i]
		p := w.Peers.Admit(op)
		if p == nil {
			return i, w.Peers.Refusal(w.name, op)
		}
		switch op.Kind {
		case transport.OpCall:
			if p.calls >= w.window || !w.queue.Enqueue(uint32(op.Peer), Call, uint64(op.Token),
				op.Payload) {
				return i, w.full()
			}
			p.calls++
		case transport.OpReply:
			if p.pendingReplies == 0 {
				return i, p.errors.NoCall
			}
			if !w.queue.Enqueue(uint32(op.Peer), Reply, uint64(op.Token), op.Payload) {
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
func (w *Worker) full() error {
	w.counts.full++
	w.send()
	return nil
}

func (w *Worker) send() {
	if w.queue.Unsent() {
		w.counts.crossings++
		w.queue.Flush()
	}
}

// Flush implements [transport.Worker].
func (w *Worker) Flush() error {
	if w.Peers.Closed() {
		return w.name.Error("flush", transport.ErrClosed)
	}
	w.send()
	return nil
}

// Poll implements [transport.Worker]. It calls into C unless enough has arrived already to
// fill events.
func (w *Worker) Poll(events []transport.Event) (int, error) {
	if w.Peers.Closed() {
		return 0, w.name.Error("poll", transport.ErrClosed)
	}
	if w.queue.Ready() < max(len(events), 1) {
		w.counts.crossings++
		w.queue.Progress()
		empty := w.queue.Ready() == 0 && w.lost.Len() == 0
		if w.gone.Load() != w.handled {
			w.cutGone(empty)
		}
		if empty {
			w.counts.empty++
			return 0, nil
		}
	}
	n := w.lost.Report(events)
	for ready := w.queue.Ready(); ready > 0 && n < len(events); ready-- {
		a := w.queue.Take()
		p := w.Peers.ByID[a.Peer]
		e := &events[n]
		switch {
		case a.Kind == Call && p.state == peerUp && p.pendingReplies < w.window:
			p.pendingReplies++
			e.Kind = transport.EventRequest
		case a.Kind == Reply && p.state == peerUp && p.calls > 0:
			p.calls--
			e.Kind = transport.EventResponse
		case a.Kind == Lost:
			if p.state == peerLost {
				continue
			}
			corrupt := p.state == peerUp && Reason(a.Token) == Corrupt
			w.end(p, peerLost)
			if corrupt { // the next Poll reports the loss
				w.lost.Add(p.ID)
				w.counts.polled += uint64(n)
				return n, p.errors.Corrupt
			}
			*e = transport.Event{Kind: transport.EventPeerLost, Peer: p.ID}
			n++
			continue
		case p.state == peerUp: // more calls than the window has, or a reply without a call
			w.cut(p)
			w.counts.polled += uint64(n)
			return n, p.errors.Corrupt
		default: // cut off: only its loss is still reported
			continue
		}
		e.Peer = p.ID
		e.Token = transport.Token(a.Token)
		e.Payload = a.Payload()
		e.Size = len(e.Payload)
		n++
	}
	w.counts.polled += uint64(n)
	return n, nil
}

// graceful is how many empty polls a worker makes before it reports a peer that is gone, and
// busyGraceful how many of any kind, if other peers keep it busy. What the peer sent before is
// polled first.
const (
	graceful     = 64
	busyGraceful = 64 * graceful
)

// cutGone reports the peers that are gone, after some more polls. It is called after each.
func (w *Worker) cutGone(empty bool) {
	if w.grace++; empty {
		w.grace += busyGraceful/graceful - 1
	}
	if w.grace < busyGraceful {
		return
	}
	w.grace = 0
	w.handled = w.gone.Load()
	for _, p := range w.Peers.ByID {
		if p != nil && p.state == peerUp && p.gone.Load() {
			w.cut(p)
		}
	}
}

// cut ends a connection, whose loss the shim will report.
func (w *Worker) cut(p *Peer) {
	w.end(p, peerCut)
	w.library.Cut(int(p.ID))
}

// end makes Post refuse the peer.
func (w *Worker) end(p *Peer, state peerState) {
	p.state = state
	w.Peers.Shut(p.ID)
}
