package sockets

import (
	"encoding/binary"

	"transportbench/core/fabric/dial"
	"transportbench/core/transport"
)

// A message is a header and its payload, one directly after the other in the stream. The header has
// the size of the payload and the number of the call, 32 bits each, little-endian. Bit 31 of the
// number is set in a reply.
const (
	headerSize = 8
	replyBit   = 1 << 31
)

const (
	// acceptEvery is how many polls pass between two looks at the listener.
	acceptEvery = 1024
	// minDirect is the size from which Post first offers a payload to the socket and copies only
	// the rest to the ring. A copy of this size costs about as much as a system call.
	minDirect = 32 << 10
)

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (n int, _ error) {
	for n < len(ops) {
		p := w.peers.Admit(&ops[n])
		if p == nil {
			return n, w.peers.Refusal(name, &ops[n])
		}
		taken, full, err := p.post(ops[n:])
		n += taken
		if taken > 0 && !p.isDirty {
			p.isDirty = true
			w.dirty = append(w.dirty, p)
		}
		if full {
			w.counters.full++
		}
		if full || err != nil {
			return n, err
		}
	}
	return n, nil
}

// post appends messages to the stream, up to the first that goes to another peer or is too large,
// and returns how many. full reports that there is no room for the next one.
func (p *peer) post(ops []transport.Op) (n int, full bool, err error) {
	o, ring, limit := &p.out, p.out.ring, p.w.settings.payload
	for n < len(ops) && ops[n].Peer == p.id && len(ops[n].Payload) <= limit {
		op := &ops[n]
		size := len(op.Payload)
		room := o.posted-o.sent+uint64(headerSize+size) <= uint64(ring.size())
		var number uint32
		switch op.Kind {
		case transport.OpCall:
			var ok bool
			if number, ok = p.calls.Next(); !ok || !room {
				return n, true, nil
			}
			p.calls.Begin(number, op.Token)
		case transport.OpReply:
			if !p.requests.Open(op.Token) {
				return n, false, p.Errors.NoCall
			}
			if !room {
				return n, true, nil
			}
			p.requests[op.Token] = false
			number = uint32(op.Token) | replyBit
		default:
			return n, false, p.Errors.Unsupported
		}
		n++
		b := ring.at(o.posted, headerSize+size)
		binary.LittleEndian.PutUint64(b, uint64(number)<<32|uint64(size))
		if size >= minDirect && p.State == dial.Up {
			p.postDirect(op.Payload)
			continue
		}
		o.posted += uint64(headerSize + size)
		if size > 0 {
			copy(b[headerSize:], op.Payload)
			p.w.counters.Copied(size)
		}
	}
	return n, false, nil
}

// postDirect appends a payload. The socket reads what it has room for from the caller's memory.
func (p *peer) postDirect(payload []byte) {
	o := &p.out
	o.posted += headerSize
	if payload = payload[p.w.engine.lend(&p.conn, payload):]; len(payload) > 0 {
		copy(o.ring.at(o.posted, len(payload)), payload)
		o.posted += uint64(len(payload))
		p.w.counters.Copied(len(payload))
	}
}

// Flush implements [transport.Worker]. An error of a connection is left to the next Poll.
func (w *worker) Flush() error {
	if w.peers.Closed() {
		return name.Error("flush", transport.ErrClosed)
	}
	if len(w.connector.Pending()) > 0 {
		w.connect()
	}
	if len(w.dirty) == 0 {
		return nil
	}
	for _, p := range w.dirty {
		p.isDirty = false
		if p.State == dial.Up {
			w.engine.send(&p.conn)
		}
	}
	w.engine.submit()
	w.dirty = w.dirty[:0]
	return nil
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.peers.Closed() {
		return 0, name.Error("poll", transport.ErrClosed)
	}
	for _, p := range w.delivered {
		p.in.released = p.in.read
		w.engine.release(&p.conn)
	}
	w.delivered = w.delivered[:0]
	w.polls++
	if len(w.connector.Pending()) > 0 {
		w.connect()
	} else if w.polls%acceptEvery == 0 {
		w.counters.Syscalls++
		if w.connector.Acceptor.Ready() {
			w.connect()
		}
	}
	w.engine.progress()
	if len(w.arrived) > 0 {
		n = w.deliver(events)
	}
	if last := len(w.failures) - 1; last >= 0 {
		err := w.failures[last]
		w.failures = w.failures[:last]
		return n, err
	}
	return n + w.lost.Report(events[n:]), nil
}

// found puts a connection into the list of those that Poll looks at.
func (w *worker) found(c *conn) {
	if !c.found {
		c.found = true
		w.arrived = append(w.arrived, w.byIndex[c.index])
	}
}

// deliver fills events from the connections to which something came. A connection with more
// messages than fit is the last one at the next Poll.
func (w *worker) deliver(events []transport.Event) (n int) {
	for i, p := range w.arrived {
		read := p.in.read
		var more bool
		var err error
		if p.State == dial.Up {
			n, more, err = p.deliver(events, n)
		}
		if p.in.read != read {
			w.delivered = append(w.delivered, p)
		}
		if more {
			left := copy(w.arrived, w.arrived[i+1:])
			w.arrived[left] = p
			w.arrived = w.arrived[:left+1]
			return n
		}
		p.found = false
		if err == nil {
			err = p.err
		}
		if err != nil {
			w.lose(p, err)
		}
	}
	w.arrived = w.arrived[:0]
	return n
}

// deliver hands out messages that have arrived as events from n on. more reports that there is
// another one and no room for it.
func (p *peer) deliver(events []transport.Event, n int) (_ int, more bool, err error) {
	in, ring, limit := &p.in, p.in.ring, p.w.settings.payload
	read, received := in.read, in.received
	for received-read >= headerSize {
		header := binary.LittleEndian.Uint64(ring.at(read, headerSize))
		size, number := int(uint32(header)), uint32(header>>32)
		call := number&replyBit == 0
		number &^= replyBit
		if size > limit || call && !p.requests.Available(number) ||
			!call && !p.calls.Waiting(number) {
			err = transport.ErrCorrupt
			break
		}
		if received-read < uint64(headerSize+size) {
			break
		}
		if n == len(events) {
			more = true
			break
		}
		e := &events[n]
		n++
		// Field by field: a literal is built on the stack with narrow stores and copied
		// with wide loads, which stall on them.
		e.Kind, e.Peer, e.Size, e.DeviceOffset = transport.EventRequest, p.id, size, 0
		e.Payload = ring.at(read+headerSize, size)
		read += uint64(headerSize + size)
		if call {
			p.requests[number] = true
			e.Token = transport.Token(number)
			continue
		}
		e.Kind, e.Token = transport.EventResponse, p.calls.End(number)
		p.calls.Release(number)
	}
	in.read = read
	return n, more, err
}
