package erpc

import (
	"transportbench/core/transport"
)

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.closed {
		return 0, transport.NewOpError(name, "post", transport.ErrClosed)
	}
	if len(ops) == 0 {
		return 0, nil
	}
	now := w.clock()
	for i := range ops {
		op := &ops[i]
		if int(op.Peer) >= len(w.peers) || w.peers[op.Peer] == nil {
			return i, opError("post", op.Peer, transport.ErrPeerDown)
		}
		p := w.peers[op.Peer]
		if p.state == lost {
			return i, p.errors.down
		}
		if len(op.Payload) > w.settings.payload {
			return i, p.errors.tooLarge
		}
		switch op.Kind {
		case transport.OpCall:
			if !w.call(p, op, now) {
				w.counts.backlogFull++
				return i, nil
			}
		case transport.OpReply:
			if !w.reply(p, op, now) {
				return i, p.errors.noCall
			}
		default:
			return i, p.errors.unsupported
		}
	}
	return len(ops), nil
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.closed {
		return transport.NewOpError(name, "flush", transport.ErrClosed)
	}
	return w.flush("flush")
}

// flush sends what is in the port's batch.
func (w *worker) flush(op string) error {
	if !w.pending {
		return nil
	}
	w.pending = false
	if err := w.port.Flush(); err != nil {
		return transport.NewOpError(name, op, err)
	}
	return nil
}

// Poll implements [transport.Worker]. Packets of one Receive may last for several
// polls; only when all of them are used up comes the next, so that what is handed out
// stays where it is until then.
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.closed {
		return 0, transport.NewOpError(name, "poll", transport.ErrClosed)
	}
	now := w.clock()
	if away := now - w.polled - w.settings.rto/scansPerTimeout; away > 0 {
		w.forgive(away, now)
	}
	w.polled = now
	if len(w.told) > 0 {
		w.clear()
	}
	if w.next == w.received {
		w.next = 0
		if w.received, err = w.port.Receive(w.packets); err != nil {
			err = transport.NewOpError(name, "poll", err)
		}
	}
	for w.next < w.received && n < len(events) {
		packet := &w.packets[w.next]
		w.next++
		if w.accept(packet, &events[n], now) {
			n++
		}
	}
	if w.wheel.count > 0 {
		w.turnWheel(now)
	}
	if now >= w.scanAt {
		w.scan(now)
	}
	if err := w.flush("poll"); err != nil {
		return n, err
	}
	if len(w.gone) > 0 {
		n += w.tellLost(events[n:])
	}
	if len(w.broken) > 0 {
		p := w.broken[len(w.broken)-1]
		w.broken = w.broken[:len(w.broken)-1]
		return n, p.errors.corrupt
	}
	return n, err
}
