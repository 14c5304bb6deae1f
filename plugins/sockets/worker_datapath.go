package sockets

import (
	"encoding/binary"

	"transportbench/core/transport"
)

// A message is a header and its payload, one directly after the other in the stream. The header has the
// size of the payload and the number of the call, 32 bits each, little-endian. Bit 31 of the number is
// set in a reply.
const (
	headerSize = 8
	replyBit   = 1 << 31
)

const (
	// acceptEvery is how many polls pass between two looks at the listener.
	acceptEvery = 1024
	// leastDirect is the size from which Post offers a payload to the socket before it copies it to the
	// ring: the copy then costs about what a system call costs.
	leastDirect = 32 << 10
)

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.closed {
		return 0, name.Error("post", transport.ErrClosed)
	}
	for i := range ops {
		op := &ops[i]
		p := w.peers.Get(op.Peer)
		switch {
		case p == nil:
			return i, name.PeerError("post", op.Peer, transport.ErrPeerDown)
		case p.state == lost:
			return i, p.errors.Down
		case len(op.Payload) > w.settings.payload:
			return i, p.errors.TooLarge
		}
		var taken bool
		switch op.Kind {
		case transport.OpCall:
			taken = p.postCall(op)
		case transport.OpReply:
			if op.Token >= transport.Token(len(p.pendingReplies)) || !p.pendingReplies[op.Token] {
				return i, p.errors.NoCall
			}
			if taken = p.post(uint32(op.Token)|replyBit, op.Payload); taken {
				p.pendingReplies[op.Token] = false
			}
		default:
			return i, p.errors.Unsupported
		}
		if !taken {
			w.counters.full++
			return i, nil
		}
		if !p.isDirty {
			p.isDirty = true
			w.dirty = append(w.dirty, p)
		}
	}
	return len(ops), nil
}

// postCall posts a call if there is room for it.
func (p *peer) postCall(op *transport.Op) bool {
	t := &p.calls
	last := len(t.free) - 1
	if last < 0 {
		return false
	}
	number := t.free[last]
	if !p.post(number, op.Payload) {
		return false
	}
	t.free = t.free[:last]
	t.tokens[number] = op.Token
	t.waiting[number] = true
	return true
}

// post appends a message to the stream if there is room for all of it.
func (p *peer) post(number uint32, payload []byte) bool {
	o := &p.out
	need := uint64(headerSize + len(payload))
	if o.posted-o.freed+need > uint64(o.ring.size()) {
		return false
	}
	b := o.ring.at(o.posted, headerSize+len(payload))
	binary.LittleEndian.PutUint64(b, uint64(number)<<32|uint64(len(payload)))
	if len(payload) >= leastDirect && p.state == up {
		p.postDirect(payload)
		return true
	}
	o.posted += need
	if len(payload) > 0 {
		copy(b[headerSize:], payload)
		p.w.counters.Copied(len(payload))
	}
	return true
}

// postDirect appends a payload, of which the socket takes what it can from where it is.
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
	if w.closed {
		return name.Error("flush", transport.ErrClosed)
	}
	if len(w.connecting) > 0 {
		w.connect()
	}
	if len(w.dirty) == 0 {
		return nil
	}
	for _, p := range w.dirty {
		p.isDirty = false
		if p.state == up {
			w.engine.send(&p.conn)
		}
	}
	w.engine.submit()
	w.dirty = w.dirty[:0]
	return nil
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (n int, err error) {
	if w.closed {
		return 0, name.Error("poll", transport.ErrClosed)
	}
	for _, p := range w.delivered {
		p.in.released = p.in.read
		w.engine.release(&p.conn)
	}
	w.delivered = w.delivered[:0]
	w.polls++
	if len(w.connecting) > 0 {
		w.connect()
	} else if w.polls%acceptEvery == 0 {
		w.counters.Syscalls++
		if w.acceptor.Ready() {
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

// deliver fills events from the connections to which something came. A connection with more messages
// than fit is the last one at the next Poll.
func (w *worker) deliver(events []transport.Event) (n int) {
	for i, p := range w.arrived {
		read := p.in.read
		var more bool
		var err error
		if p.state == up {
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

// deliver hands out messages that have arrived as events from n on. more reports that there is another
// one and no room for it.
func (p *peer) deliver(events []transport.Event, n int) (_ int, more bool, err error) {
	in := &p.in
	for {
		arrived := in.received - in.read
		if arrived < headerSize {
			return n, false, nil
		}
		header := binary.LittleEndian.Uint64(in.ring.at(in.read, headerSize))
		size, number := int(uint32(header)), uint32(header>>32)
		call := number&replyBit == 0
		number &^= replyBit
		if size > p.w.settings.payload || int(number) >= len(p.pendingReplies) ||
			call && p.pendingReplies[number] || !call && !p.calls.waiting[number] {
			return n, false, transport.ErrCorrupt
		}
		if arrived < uint64(headerSize+size) {
			return n, false, nil
		}
		if n == len(events) {
			return n, true, nil
		}
		e := &events[n]
		n++
		// Field by field: a literal is built on the stack with narrow stores and copied
		// with wide loads, which stall on them.
		e.Kind, e.Peer, e.Size, e.DeviceOffset = transport.EventRequest, p.id, size, 0
		e.Payload = in.ring.at(in.read+headerSize, size)
		in.read += uint64(headerSize + size)
		if call {
			p.pendingReplies[number] = true
			e.Token = transport.Token(number)
			continue
		}
		e.Kind, e.Token = transport.EventResponse, p.calls.tokens[number]
		p.calls.waiting[number] = false
		p.calls.free = append(p.calls.free, number)
	}
}
