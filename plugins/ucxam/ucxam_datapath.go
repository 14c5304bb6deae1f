package ucxam

import (
	"transportbench/core/transport"
	"transportbench/plugins/ucxam/internal/ucp"
)

// Post implements [transport.Worker]. It copies into memory of the library's and
// makes no call.
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.closed {
		return 0, opFailed("post", transport.ErrClosed)
	}
	for i := range ops {
		op := &ops[i]
		if int(op.Peer) >= len(w.peers) || w.peers[op.Peer] == nil {
			return i, opError("post", op.Peer, transport.ErrPeerDown)
		}
		p := w.peers[op.Peer]
		switch {
		case p.state != peerUp:
			return i, p.errors.down
		case len(op.Payload) > w.limit:
			return i, p.errors.tooLarge
		}
		switch op.Kind {
		case transport.OpCall:
			if p.calls >= w.window || !w.ucp.Stage(uint32(op.Peer), ucp.Call, uint64(op.Token), op.Payload) {
				return i, w.full()
			}
			p.calls++
		case transport.OpReply:
			if p.owed == 0 {
				return i, p.errors.noCall
			}
			if !w.ucp.Stage(uint32(op.Peer), ucp.Reply, uint64(op.Token), op.Payload) {
				return i, w.full()
			}
			p.owed--
		default:
			return i, p.errors.unsupported
		}
		w.counts.posted++
	}
	return len(ops), nil
}

// full has what is staged sent: its room may be what is missing.
func (w *worker) full() error {
	w.counts.full++
	w.send()
	return nil
}

func (w *worker) send() {
	if w.ucp.Unsent() {
		w.counts.crossings++
		w.ucp.Flush()
	}
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.closed {
		return opFailed("flush", transport.ErrClosed)
	}
	w.send()
	return nil
}

// Poll implements [transport.Worker]. It crosses into C unless more has arrived
// already than events can take.
func (w *worker) Poll(events []transport.Event) (int, error) {
	if w.closed {
		return 0, opFailed("poll", transport.ErrClosed)
	}
	if w.ucp.Ready() < max(len(events), 1) {
		w.counts.crossings++
		w.ucp.Progress()
		if w.ucp.Ready() == 0 && len(w.gone) == 0 {
			w.counts.empty++
			return 0, nil
		}
	}
	n := 0
	if len(w.gone) > 0 {
		n = w.tellGone(events)
	}
	for ready := w.ucp.Ready(); ready > 0 && n < len(events); ready-- {
		a := w.ucp.Take()
		p := w.peers[a.Peer]
		e := &events[n]
		switch {
		case a.Kind == ucp.Call && p.state == peerUp && p.owed < w.window:
			p.owed++
			e.Kind = transport.EventRequest
		case a.Kind == ucp.Reply && p.state == peerUp && p.calls > 0:
			p.calls--
			e.Kind = transport.EventResponse
		case a.Kind == ucp.Lost:
			if err := w.lost(p, ucp.Reason(a.Token)); err != nil {
				w.counts.polled += uint64(n)
				return n, err
			}
			n += w.tell(p, e)
			continue
		case p.state == peerUp: // more calls than the window has, or a reply to none
			p.state = peerCut
			w.ucp.Cut(int(p.id))
			w.counts.polled += uint64(n)
			return n, p.errors.corrupt
		default: // cut off; only its loss is still told
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

// lost takes the news of a lost peer. The error says that it broke the
// protocol; its loss is told by the next Poll then.
func (w *worker) lost(p *peer, why ucp.Reason) error {
	if p.state != peerUp || why != ucp.Corrupt {
		return nil
	}
	p.state = peerCut
	w.gone = append(w.gone, p)
	return p.errors.corrupt
}

// tell makes the event of a loss, once, and returns how many it made.
func (w *worker) tell(p *peer, e *transport.Event) int {
	if p.state == peerGone {
		return 0
	}
	p.state = peerGone
	*e = transport.Event{Kind: transport.EventPeerLost, Peer: p.id}
	return 1
}

// tellGone makes the events of losses whose error was returned before.
func (w *worker) tellGone(events []transport.Event) (n int) {
	for n < len(events) && len(w.gone) > 0 {
		last := len(w.gone) - 1
		n += w.tell(w.gone[last], &events[n])
		w.gone = w.gone[:last]
	}
	return n
}
