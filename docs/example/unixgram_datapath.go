package main

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// A datagram is three little-endian words and the payload. The reply handle of
// a request is its caller's token, which comes back in the reply, so that
// nothing is kept for a request.
const (
	senderAt   = 0
	tokenAt    = 8
	kindAt     = 16
	headerSize = 24
)

// Kinds of datagrams. The first two are numbered as ops and events are.
const (
	kindCall  = uint64(transport.OpCall)
	kindReply = uint64(transport.OpReply)
	kindPing  = 16 // this one and those below are the probe's
	kindPong  = 17
	kindEnd   = 18
)

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.closed {
		return 0, transport.NewOpError(name, "post", transport.ErrClosed)
	}
	for i := range ops {
		op := &ops[i]
		p, call := w.peer(op.Peer), op.Kind == transport.OpCall
		switch {
		case p == nil:
			return i, opError("post", op.Peer, transport.ErrPeerDown)
		case p.lost:
			return i, p.errDown
		case !call && op.Kind != transport.OpReply:
			return i, p.errUnsupported
		case len(op.Payload) > maxPayload:
			return i, p.errTooLarge
		case call && p.inFlight == w.rank.limits.InFlight:
			return i, nil
		}
		switch w.send(p, uint64(op.Kind), op.Token, op.Payload) {
		case nil:
		case unix.EAGAIN, unix.ENOBUFS: // the peer's queue is full, or the send buffer
			return i, nil
		case unix.EMSGSIZE: // the send buffer is smaller than that, by the sysctl net.core.wmem_default
			return i, p.errTooLarge
		default: // ECONNREFUSED, or what else there is against this peer
			w.lose(p)
			return i, p.errDown
		}
		if call {
			p.inFlight++
		}
	}
	return len(ops), nil
}

// send sends one datagram, or returns the kernel's error number.
func (w *worker) send(p *peer, kind uint64, token transport.Token, payload []byte) error {
	datagram := w.out[:headerSize+len(payload)]
	binary.LittleEndian.PutUint64(datagram[tokenAt:], uint64(token))
	binary.LittleEndian.PutUint64(datagram[kindAt:], kind)
	copy(datagram[headerSize:], payload)
	return unix.Sendto(w.socket, datagram, 0, &p.name)
}

// Flush implements [transport.Worker]. Post has sent everything already.
func (w *worker) Flush() error {
	if w.closed {
		return transport.NewOpError(name, "flush", transport.ErrClosed)
	}
	return nil
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.closed {
		return 0, transport.NewOpError(name, "poll", transport.ErrClosed)
	}
	// Bounded by what is read, not by what is taken: a flood of datagrams that
	// are dropped must not keep it here.
	for reads := 0; reads < len(w.in) && n < len(events); reads++ {
		datagram := w.receive(w.in[n])
		if datagram == nil {
			w.rest()
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
	for n < len(events) && len(w.lost) > 0 {
		last := len(w.lost) - 1
		events[n] = transport.Event{Kind: transport.EventPeerLost, Peer: w.lost[last].id}
		w.lost = w.lost[:last]
		n++
	}
	return n, nil
}

// receive returns the next datagram, in buffer or where it was kept, or nil.
func (w *worker) receive(buffer []byte) (datagram []byte) {
	if len(w.arrived) > 0 {
		datagram, w.arrived = w.arrived[0], w.arrived[1:]
		return datagram
	}
	size, err := unix.Read(w.socket, buffer)
	if err != nil { // EAGAIN: there is nothing
		return nil
	}
	return buffer[:size]
}

// accept makes an event of a datagram, and says whether it did.
func (w *worker) accept(datagram []byte, e *transport.Event) (taken bool, err error) {
	p, kind, token := w.parse(datagram)
	switch {
	case p == nil, p.lost, kind >= kindPing && kind <= kindEnd: // left behind by a probe
		return false, nil
	case len(datagram) > headerSize+maxPayload,
		kind != kindCall && kind != kindReply,
		kind == kindReply && p.inFlight == 0:
		w.lose(p)
		return false, p.errCorrupt
	}
	if kind == kindReply {
		p.inFlight--
	}
	payload := datagram[headerSize:]
	*e = transport.Event{Kind: transport.EventKind(kind), Peer: p.id, Token: token, Payload: payload, Size: len(payload)}
	return true, nil
}

// parse takes the header off. It returns no peer for a datagram that comes from
// none, and keeps that datagram, for its sender may be connected later; this
// alone allocates, and before there is anything to measure.
func (w *worker) parse(datagram []byte) (p *peer, kind uint64, token transport.Token) {
	if len(datagram) < headerSize {
		return nil, 0, 0
	}
	p = w.senders[binary.LittleEndian.Uint64(datagram[senderAt:])]
	if p == nil && len(w.early) < w.rank.early {
		w.early = append(w.early, slices.Clone(datagram))
	}
	token = transport.Token(binary.LittleEndian.Uint64(datagram[tokenAt:]))
	return p, binary.LittleEndian.Uint64(datagram[kindAt:]), token
}

// lose marks a peer lost and has Poll tell it once.
func (w *worker) lose(p *peer) {
	p.lost = true
	w.lost = append(w.lost, p)
}

// The kernel is asked after one of the peers each time that so many polls have
// emptied the socket: often enough to tell within milliseconds, and seldom
// enough not to show.
const idlePolls = 256

// rest looks, now and then, whether the peers still have their sockets. To
// connect a spare one to theirs sends nothing and takes no room in their queue.
func (w *worker) rest() {
	if w.idle++; w.idle < idlePolls || len(w.peers) == 0 {
		return
	}
	w.idle = 0
	w.turn = (w.turn + 1) % len(w.peers)
	p := w.peers[w.turn]
	if p != nil && !p.lost && unix.Connect(w.asker, &p.name) == unix.ECONNREFUSED {
		w.lose(p)
	}
}
