package tcpx

import (
	"errors"

	"transportbench/core/transport"
)

const (
	// directPeers is up to how many peers have their sockets read without asking
	// epoll first.
	directPeers = 2
	// restEvery is how many polls pass between two looks at the listener, and at the
	// sockets of a peer from which nothing is expected.
	restEvery = 64
)

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.closed {
		return 0, transport.NewOpError(name, "poll", transport.ErrClosed)
	}
	w.look()
	if count := len(w.peers); count > 0 {
		if w.turn++; w.turn >= count {
			w.turn = 0
		}
		for i := range count {
			at := w.turn + i
			if at >= count {
				at -= count
			}
			if p := w.peers[at]; p != nil && p.state == up {
				n = w.drive(p, events, n)
			}
		}
	}
	if len(w.failed) > 0 {
		err := w.failed[len(w.failed)-1]
		w.failed = w.failed[:len(w.failed)-1]
		return n, err
	}
	if len(w.broken) > 0 {
		p := w.broken[len(w.broken)-1]
		w.broken = w.broken[:len(w.broken)-1]
		return n, p.errors.corrupt
	}
	for n < len(events) && len(w.gone) > 0 {
		p := w.gone[len(w.gone)-1]
		w.gone = w.gone[:len(w.gone)-1]
		setEvent(&events[n], transport.EventPeerLost, p.id, 0, nil, 0)
		n++
	}
	return n, nil
}

// look finds out which peers have something to read, and goes on with connections.
func (w *worker) look() {
	w.polls++
	rest := w.polls%restEvery == 0
	if len(w.settling) > 0 {
		w.settle()
	}
	many := len(w.peers) > directPeers
	called := len(w.connecting) > 0 || rest && len(w.arrivals)+len(w.unclaimed) > 0
	if many || rest {
		for i := range readiness(w.epoll, w.ready) {
			if id := uint32(w.ready[i].Fd); id == noPeer {
				called = true
			} else if int(id) < len(w.peers) && w.peers[id] != nil {
				w.peers[id].readable = true
			}
		}
	}
	if called {
		w.connect()
	}
	if many && rest {
		if p := w.peers[int(w.polls/restEvery)%len(w.peers)]; p != nil {
			p.readable = true
		}
	}
}

// drive lets go of what the last Poll handed out, makes progress with one peer and
// hands out what has come.
func (w *worker) drive(p *peer, events []transport.Event, n int) int {
	p.released = p.read
	if len(w.peers) > directPeers && !p.readable && p.resting() {
		return n
	}
	p.readable = false
	if err := p.progress(); err != nil {
		w.lose(p, err)
		return n
	}
	n, err := p.deliver(events, n)
	if err != nil {
		w.lose(p, err)
	}
	return n
}

// resting says whether there is nothing to do for a peer that has sent nothing. Sends that
// wait to be acknowledged only are freed when their room is wanted.
func (p *peer) resting() bool {
	c := p.comm
	return c.err == nil && p.inboxEmpty() && c.receiveBegun == c.receiveConsumed && c.sendCut == c.sendPosted && c.idleLanes() &&
		p.cut == p.flushed && c.control.head == c.control.tail && c.receivePosted-c.receiveConsumed >= uint64(p.w.settings.receiveWindow)
}

func (p *peer) inboxEmpty() bool { return p.comm.inbox.empty() }

// progress moves bytes in both directions.
func (p *peer) progress() error {
	if err := p.comm.progress(); err != nil {
		return err
	}
	for p.comm.doneReceive() {
	}
	for p.comm.receiveConsumed < p.comm.receiveDone {
		number := p.comm.receiveConsumed
		total := p.comm.receives[number%requests].total
		err := p.comm.consumed(number)
		if err == errUnpacking {
			break
		}
		if err != nil {
			return err
		}
		p.totals[number%uint64(len(p.totals))] = total
	}
	p.postReceives()
	if p.cut < p.flushed {
		return p.pump()
	}
	p.comm.stall.waiting = false
	return nil
}

// postReceives posts as many receives as the window and the destination ring have
// room for. They are announced with whatever goes out next.
func (p *peer) postReceives() {
	c, s := p.comm, p.w.settings
	for c.receivePosted-c.receiveConsumed < uint64(s.receiveWindow) && c.receivePosted-p.released < uint64(s.slots) {
		at := int(c.receivePosted%uint64(s.slots)) * s.request
		if _, err := c.irecv(p.destination.slice(at, s.request), c.receivePosted); err != nil {
			return
		}
	}
}

// lose cuts a peer off. Poll tells it, and first the error, if the peer broke the protocol
// or this side's GPU or NIC has failed.
func (w *worker) lose(p *peer, err error) {
	if p.state == lost {
		return
	}
	p.state = lost
	if errors.Is(err, transport.ErrUnavailable) {
		w.failed = append(w.failed, opError("poll", p.id, err))
	}
	if errors.Is(err, transport.ErrCorrupt) || err == errTagMismatch || err == errTruncated {
		w.broken = append(w.broken, p)
	}
	w.gone = append(w.gone, p)
	if p.comm.err == nil {
		p.comm.err = err
	}
	_ = p.closeSockets()
	w.settling = append(w.settling, p)
	w.settle()
}

// settle gives back what lost peers held, when it is unpacked.
func (w *worker) settle() {
	left := w.settling[:0]
	for _, p := range w.settling {
		if !p.comm.settle(false) {
			left = append(left, p)
		}
	}
	w.settling = left
}
