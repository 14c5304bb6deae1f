package main

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// A datagram is three little-endian words and the payload. The reply handle of a request is its
// caller's token, which comes back in the reply, so a worker keeps no state for a request.
const (
	senderAt   = 0
	tokenAt    = 8
	kindAt     = 16
	headerSize = 24
)

// The kinds of datagrams. The first two have the numbers of ops and events.
const (
	kindCall  = uint64(transport.OpCall)
	kindReply = uint64(transport.OpReply)
	kindPing  = 16 // of a probe
)

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.closed {
		return 0, name.Error("post", transport.ErrClosed)
	}
	for i := range ops {
		op := &ops[i]
		p, call := w.peers.Get(op.Peer), op.Kind == transport.OpCall
		switch {
		case p == nil:
			return i, name.PeerError("post", op.Peer, transport.ErrPeerDown)
		case p.lost:
			return i, p.errs.Down
		case !call && op.Kind != transport.OpReply:
			return i, p.errs.Unsupported
		case len(op.Payload) > maxPayload:
			return i, p.errs.TooLarge
		case call && p.inFlight == w.endpoint.limits.InFlight:
			return i, nil
		}
		switch w.send(p, uint64(op.Kind), uint64(op.Token), op.Payload) {
		case nil:
		case unix.EAGAIN, unix.ENOBUFS: // the peer's queue or the send buffer is full
			return i, nil
		case unix.EMSGSIZE: // larger than the send buffer; see the sysctl net.core.wmem_default
			return i, p.errs.TooLarge
		default: // ECONNREFUSED, or another error of this peer
			w.lose(p)
			return i, p.errs.Down
		}
		if call {
			p.inFlight++
		}
	}
	return len(ops), nil
}

// send sends one datagram. Its error is the kernel's error number.
func (w *worker) send(p *peer, kind, token uint64, payload []byte) error {
	datagram := w.out[:headerSize+len(payload)]
	binary.LittleEndian.PutUint64(datagram[tokenAt:], token)
	binary.LittleEndian.PutUint64(datagram[kindAt:], kind)
	copy(datagram[headerSize:], payload)
	return unix.Sendto(w.socket, datagram, 0, &p.name)
}

// Flush implements [transport.Worker]. Post has already sent everything.
func (w *worker) Flush() error {
	if w.closed {
		return name.Error("flush", transport.ErrClosed)
	}
	return nil
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.closed {
		return 0, name.Error("poll", transport.ErrClosed)
	}
	// The number of reads is bounded, not the number of events, so that a flood of datagrams that
	// are dropped does not keep Poll busy.
	for reads := 0; reads < len(w.in) && n < len(events); reads++ {
		datagram := w.receive(w.in[n])
		if datagram == nil {
			w.checkPeers()
			break
		}
		taken, err := w.accept(datagram, &events[n])
		if err != nil {
			return n, err
		}
		if taken {
			n++
		}
	}
	return n + w.lost.Report(events[n:]), nil
}

// receive returns the next datagram, which may be in buffer, or nil if there is none.
func (w *worker) receive(buffer []byte) (datagram []byte) {
	if len(w.claimed) > 0 {
		datagram, w.claimed = w.claimed[0], w.claimed[1:]
		return datagram
	}
	size, err := unix.Read(w.socket, buffer)
	if err != nil { // EAGAIN
		return nil
	}
	return buffer[:size]
}

// accept turns a datagram into an event. It returns false if there is no event in it.
func (w *worker) accept(datagram []byte, e *transport.Event) (taken bool, err error) {
	p, kind, token := w.parse(datagram)
	switch {
	case p == nil, p.lost, kind == kindPing: // left over from a probe
		return false, nil
	case len(datagram) > headerSize+maxPayload,
		kind != kindCall && kind != kindReply,
		kind == kindReply && p.inFlight == 0:
		w.lose(p)
		return false, p.errs.Corrupt
	}
	if kind == kindReply {
		p.inFlight--
	}
	payload := datagram[headerSize:]
	*e = transport.Event{
		Kind: transport.EventKind(kind), Peer: p.id, Token: transport.Token(token),
		Payload: payload, Size: len(payload),
	}
	return true, nil
}

// parse splits the header off. It keeps a datagram whose sender is not connected, because the
// sender may be connected later, and returns no peer for it. This is the only allocation here, and
// occurs before anything is measured.
func (w *worker) parse(datagram []byte) (p *peer, kind, token uint64) {
	if len(datagram) < headerSize {
		return nil, 0, 0
	}
	p = w.peers.Find(binary.LittleEndian.Uint64(datagram[senderAt:]))
	if p == nil && len(w.early) < w.endpoint.early {
		w.early = append(w.early, slices.Clone(datagram))
	}
	return p, binary.LittleEndian.Uint64(datagram[kindAt:]),
		binary.LittleEndian.Uint64(datagram[tokenAt:])
}

// lose marks a peer as lost, for Poll to report.
func (w *worker) lose(p *peer) {
	p.lost = true
	w.lost.Add(p.id)
}

// checkEvery is the number of empty polls for each check of a peer: few enough to notice a loss
// within milliseconds, and so many that the system call does not matter.
const checkEvery = 256

// checkPeers checks once in checkEvery calls whether a peer still has its socket. Connecting a
// second socket to it sends nothing and takes no room in the peer's queue.
func (w *worker) checkPeers() {
	if w.empty++; w.empty < checkEvery || len(w.peers.ByID) == 0 {
		return
	}
	w.empty = 0
	w.next = (w.next + 1) % len(w.peers.ByID)
	p := w.peers.ByID[w.next]
	if p != nil && !p.lost && unix.Connect(w.checker, &p.name) == unix.ECONNREFUSED {
		w.lose(p)
	}
}
