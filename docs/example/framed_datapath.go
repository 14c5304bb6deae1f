package main

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// A frame is the token, the size of the payload and the kind, little-endian, and the payload. The
// reply handle of a request is its caller's token, which comes back in the reply, so a worker keeps
// no state for a request.
const (
	tokenAt    = 0
	sizeAt     = 8
	kindAt     = 12
	headerSize = 16
)

// buffer is the memory of a connection in one direction. bytes[begin:end] are in use.
type buffer struct {
	bytes      []byte
	begin, end int
}

func newBuffer(size int) buffer { return buffer{bytes: make([]byte, size)} }

// used returns the bytes in use.
func (b *buffer) used() []byte { return b.bytes[b.begin:b.end] }

// drop removes n bytes at the beginning.
func (b *buffer) drop(n int) { b.begin += n }

// room returns the memory behind the bytes in use, after it has moved these to the front if fewer
// than atLeast bytes would be left.
func (b *buffer) room(atLeast int) []byte {
	if b.begin == b.end || len(b.bytes)-b.end < atLeast {
		b.begin, b.end = 0, copy(b.bytes, b.used())
	}
	return b.bytes[b.end:]
}

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	for i := range ops {
		op := &ops[i]
		p := w.peers.Admit(op)
		if p == nil { // it is not connected or lost, or the payload is too large
			return i, w.peers.Refusal(name, op)
		}
		if op.Kind != transport.OpCall && op.Kind != transport.OpReply {
			return i, p.Errors.Unsupported
		}
		size := headerSize + len(op.Payload)
		frame := p.out.room(size)
		if len(frame) < size {
			w.counters.full++
			return i, nil
		}
		binary.LittleEndian.PutUint64(frame[tokenAt:], uint64(op.Token))
		binary.LittleEndian.PutUint32(frame[sizeAt:], uint32(len(op.Payload)))
		binary.LittleEndian.PutUint32(frame[kindAt:], uint32(op.Kind))
		copy(frame[headerSize:], op.Payload)
		w.counters.Copied(len(op.Payload))
		p.out.end += size
		if op.Kind == transport.OpCall {
			p.calls++
		}
	}
	return len(ops), nil
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.peers.Closed() {
		return name.Error("flush", transport.ErrClosed)
	}
	for _, p := range w.peers.ByID {
		if p != nil {
			w.send(p)
		}
	}
	return nil
}

// send sends what was posted, as far as the socket takes it.
func (w *worker) send(p *peer) {
	if p.State != dial.Up || p.broken || len(p.out.used()) == 0 {
		return
	}
	n, err := sock.SendBytes(p.fd, p.out.used())
	w.counters.moved(n)
	p.out.drop(n)
	if err != nil && err != unix.ENOBUFS { // what the peer sent before its end is still received
		p.broken = true
		_ = unix.Shutdown(p.fd, unix.SHUT_RDWR)
	}
}

// acceptEvery is the number of polls for each look at the listener once all peers are connected.
const acceptEvery = 1024

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.peers.Closed() {
		return 0, name.Error("poll", transport.ErrClosed)
	}
	if w.polls++; len(w.connector.Pending()) > 0 ||
		w.polls%acceptEvery == 0 && w.connector.Acceptor.Ready() {
		w.keepConnecting()
	}
	// Each Poll begins with another peer, so that one that sends all the time does not keep the
	// others waiting.
	peers := w.peers.ByID
	for i := range peers {
		p := peers[(w.first+i)%len(peers)]
		if p == nil || p.State != dial.Up {
			continue
		}
		if n == len(events) {
			break
		}
		w.send(p)
		w.receive(p)
		taken, err := p.deliver(events[n:], w.payload)
		n += taken
		if err == nil && n < len(events) {
			err = p.ended
		}
		if err != nil {
			w.lose(p, err)
		}
		if err == transport.ErrCorrupt {
			return n, p.Errors.Corrupt
		}
	}
	w.first++
	return n + w.lost.Report(events[n:]), nil
}

// receive appends what has come to the buffer. It moves what is there, so the payloads of the last
// Poll end here.
func (w *worker) receive(p *peer) {
	room := p.in.room(headerSize + w.payload)
	if p.ended != nil || len(room) == 0 {
		return
	}
	n, err := sock.ReceiveBytes(p.fd, room)
	w.counters.moved(n)
	p.in.end += n
	p.ended = err
}

// deliver turns frames into events. Its error is [transport.ErrCorrupt].
func (p *peer) deliver(events []transport.Event, limit int) (n int, err error) {
	for n < len(events) && len(p.in.used()) >= headerSize {
		frame := p.in.used()
		kind := transport.EventKind(binary.LittleEndian.Uint32(frame[kindAt:]))
		size := int(binary.LittleEndian.Uint32(frame[sizeAt:]))
		if size > limit || kind != transport.EventRequest && kind != transport.EventResponse ||
			kind == transport.EventResponse && p.calls == 0 {
			return n, transport.ErrCorrupt
		}
		if len(frame) < headerSize+size {
			break
		}
		if kind == transport.EventResponse {
			p.calls--
		}
		events[n] = transport.Event{
			Kind: kind, Peer: p.id, Size: size, Payload: frame[headerSize : headerSize+size],
			Token: transport.Token(binary.LittleEndian.Uint64(frame[tokenAt:])),
		}
		n++
		p.in.drop(headerSize + size)
	}
	return n, nil
}
