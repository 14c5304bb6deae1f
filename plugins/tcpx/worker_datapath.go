package tcpx

import (
	"errors"
	"time"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

const (
	// directPeers is the most peers whose sockets are read without asking epoll first.
	directPeers = 2
	// inspectEvery is how many polls pass between two looks at the listeners, and at the
	// sockets of a peer from which nothing is expected.
	inspectEvery = 64
	// arrivalsEvery is the time between two looks at sockets that belong to no peer yet, in
	// nanoseconds: strangers may leave hundreds open, and each look is a system call for each.
	arrivalsEvery = int64(10 * time.Millisecond)
)

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	for i := range ops {
		op := &ops[i]
		p := w.peers.Admit(op)
		if p == nil {
			return i, w.peers.Refusal(name, op)
		}
		var taken bool
		switch op.Kind {
		case transport.OpCall:
			if op.DeviceSlot != 0 && !w.source.has(op) {
				return i, p.Errors.Unsupported
			}
			taken = p.postCall(op)
		case transport.OpReply:
			if !p.requests.Open(op.Token) {
				return i, p.Errors.NoCall
			}
			taken = p.postReply(op)
		default:
			return i, p.Errors.Unsupported
		}
		if !taken {
			w.counters.Full++
			return i, nil
		}
		if !p.isDirty {
			p.isDirty = true
			w.dirty = append(w.dirty, p)
		}
	}
	return len(ops), nil
}

// Flush implements [transport.Worker]. An error of a connection is left to the next Poll.
func (w *worker) Flush() error {
	if w.peers.Closed() {
		return name.Error("flush", transport.ErrClosed)
	}
	if len(w.connector.Pending()) > 0 {
		w.connect()
	}
	for _, p := range w.dirty {
		p.isDirty = false
		c := p.conn
		c.Out.MarkFlushed()
		if p.State != dial.Up || c.Send(false) != nil {
			continue
		}
		if c.Out.WaitsForCredit() && c.Receive() == nil { // the credit may be there
			_ = c.Send(false)
		}
	}
	w.dirty = w.dirty[:0]
	return nil
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.peers.Closed() {
		return 0, name.Error("poll", transport.ErrClosed)
	}
	w.findReadable()
	if count := len(w.peers.ByID); count > 0 {
		if w.first++; w.first >= count {
			w.first = 0
		}
		for i := range count {
			at := w.first + i
			if at >= count {
				at -= count
			}
			if p := w.peers.ByID[at]; p != nil && p.State == dial.Up {
				n = w.pollPeer(p, events, n)
			}
		}
	}
	if last := len(w.failures) - 1; last >= 0 {
		err := w.failures[last]
		w.failures = w.failures[:last]
		return n, err
	}
	return n + w.lost.Report(events[n:]), nil
}

// findReadable marks the peers that have something to read, and continues connecting.
func (w *worker) findReadable() {
	w.polls++
	inspect := w.polls%inspectEvery == 0
	if len(w.releasing) > 0 {
		w.releaseLost()
	}
	many := len(w.peers.ByID) > directPeers
	arrived := len(w.connector.Pending()) > 0 ||
		inspect && len(w.connector.Acceptor.Waiting)+len(w.connector.dataSockets) > 0 &&
			w.connector.Since() > arrivalsEvery
	if many || inspect {
		w.counters.Calls[sock.Others]++
		for i := range sock.Ready(w.epoll, w.ready) {
			if id := uint32(w.ready[i].Fd); id == noPeer {
				arrived = true
			} else if p := w.peers.Get(transport.PeerID(id)); p != nil {
				p.readable = true
			}
		}
	}
	if arrived {
		w.connect()
	}
	if many && inspect {
		if p := w.peers.ByID[int(w.polls/inspectEvery)%len(w.peers.ByID)]; p != nil {
			p.readable = true
		}
	}
}

// pollPeer takes back what the last Poll handed out, makes progress with one peer and
// delivers what has arrived.
func (w *worker) pollPeer(p *peer, events []transport.Event, n int) int {
	p.conn.In.ReleaseDelivered()
	if len(w.peers.ByID) > directPeers && !p.readable && p.conn.Idle() {
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

// lose ends a connection. Poll reports the loss, and before it the error if the peer broke
// the protocol or this side's GPU or NIC has failed.
func (w *worker) lose(p *peer, err error) {
	if p.State == dial.Lost {
		return
	}
	p.SetLost(err, p.conn.ControlFD())
	w.peers.Shut(p.id)
	if errors.Is(err, transport.ErrUnavailable) || errors.Is(err, transport.ErrCorrupt) {
		w.failures = append(w.failures, name.PeerError("poll", p.id, err))
	}
	w.lost.Add(p.id)
	p.conn.Fail(err)
	_ = p.closeSockets()
	w.releasing = append(w.releasing, p)
	w.releaseLost()
}

// releaseLost releases what lost peers held, once it is unpacked.
func (w *worker) releaseLost() {
	left := w.releasing[:0]
	for _, p := range w.releasing {
		if !p.conn.Release(false) {
			left = append(left, p)
		}
	}
	w.releasing = left
}
