package tcpx

import "transportbench/core/transport"

// leastDirect is the bytes of a payload from which on Post tries to send it without
// copying it to the staging ring first: about what a system call costs.
const leastDirect = 32 << 10

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.closed {
		return 0, transport.NewOpError(name, "post", transport.ErrClosed)
	}
	for i := range ops {
		op := &ops[i]
		if int(op.Peer) >= len(w.peers) || w.peers[op.Peer] == nil {
			return i, opError("post", op.Peer, transport.ErrPeerDown)
		}
		p := w.peers[op.Peer]
		switch {
		case p.state == lost:
			return i, p.errors.down
		case len(op.Payload) > w.settings.payload:
			return i, p.errors.tooLarge
		}
		var taken bool
		switch op.Kind {
		case transport.OpCall:
			taken = p.call(op)
		case transport.OpReply:
			if op.Token >= transport.Token(len(p.owed)) || !p.owed[op.Token] {
				return i, p.errors.noCall
			}
			if taken = p.clear(len(op.Payload)) && p.append(recordReply, uint32(op.Token), op.Payload); taken {
				p.owed[op.Token] = false
			}
		default:
			return i, p.errors.unsupported
		}
		if !taken {
			w.counts.full++
			return i, nil
		}
		if !p.isDirty {
			p.isDirty = true
			w.dirty = append(w.dirty, p)
		}
	}
	return len(ops), nil
}

// call posts a call, if there is room for it.
func (p *peer) call(op *transport.Op) bool {
	t := &p.calls
	if len(t.free) == 0 {
		return false
	}
	number := t.free[len(t.free)-1]
	if !p.append(recordCall, number, op.Payload) {
		return false
	}
	t.free = t.free[:len(t.free)-1]
	t.tokens[number] = op.Token
	t.waiting[number] = true
	return true
}

// clear says whether a reply of so many bytes goes out with the next Flush, as far as
// the window and the peer's receives go. A call may wait for these, since its caller
// polls for the response; who replies may never poll again. A reply that takes more than
// a window goes when nothing else is under way, and needs its sender to poll.
func (p *peer) clear(size int) bool {
	c, s := p.comm, p.w.settings
	if len(c.helpers) > 0 {
		c.takeSent()
	}
	need := (p.posted - p.cut + uint64(size) + uint64(s.request) - 1) / uint64(s.request)
	if !c.idleLanes() {
		return false
	}
	if p.free() < need {
		p.freeSends()
	}
	return p.free() >= need || p.cut == p.posted && c.sendFreed == c.sendPosted && need > uint64(s.sendWindow)
}

// free is how many requests can be sent now.
func (p *peer) free() uint64 {
	c := p.comm
	return min(uint64(p.w.settings.sendWindow)-(c.sendPosted-c.sendFreed), c.creditCount-min(c.creditCount, c.sendPosted))
}

// append puts a message into the stream, if there is room for all of it.
func (p *peer) append(kind uint8, number uint32, payload []byte) bool {
	c, size := p.comm, uint64(len(payload))
	ring := uint64(len(p.staging) / 2)
	if p.posted+size-p.freed > ring/2 {
		p.freeSends()
	}
	if p.posted+size-p.freed > ring || c.control.room() < roomForChunks+recordSize {
		return false
	}
	c.control.put(record{kind: kind, size: uint32(size), offset: number, tag: p.said})
	p.said++
	p.w.counts.messages++
	if size >= leastDirect && p.state == up && !c.zeroCopy && c.settings.threads == 0 {
		p.direct(payload)
		return true
	}
	copy(p.staging[p.posted%ring:], payload)
	p.posted += size
	p.w.counts.staged += size
	return true
}

// direct sends what can be sent of a payload right from where it is, and copies what
// is left of it.
func (p *peer) direct(payload []byte) {
	p.borrowed, p.borrowedAt = payload, p.posted
	p.posted += uint64(len(payload))
	before := p.w.counts.sentBytes
	// An error stays with the comm, and the next Poll finds it.
	_ = p.pump()
	p.keep()
	p.borrowed = nil
	p.w.counts.direct += p.w.counts.sentBytes - before
}

// keep copies what was not sent of a borrowed payload to the staging ring, and lets
// requests go on from there.
func (p *peer) keep() {
	c := p.comm
	for i := range c.lanes {
		l := &c.lanes[i]
		for k := range l.count {
			t := &l.tasks[(l.first+k)%laneTasks]
			p.stage(t.request, t.offset+t.done, t.offset+t.size)
		}
	}
	// Requests that are cut in part or not at all have bytes without a task.
	for number := c.sendCut; number < c.sendPosted; number++ {
		r := &c.sends[number%requests]
		p.stage(r, r.assigned, r.size)
	}
	ring := uint64(len(p.staging) / 2)
	for number := c.sendFreed; number < c.sendPosted; number++ {
		r := &c.sends[number%requests]
		if len(r.source[1]) == 0 {
			continue
		}
		r.source = vector{p.staging[r.at%ring:][:r.size]}
	}
	p.copyBorrowed(max(p.cut, p.borrowedAt), p.posted)
}

// stage copies the bytes of a request from one offset to another, as far as they are
// borrowed.
func (p *peer) stage(r *sendRequest, from, to int) {
	if len(r.source[1]) > 0 {
		p.copyBorrowed(max(r.at+uint64(from), p.borrowedAt), r.at+uint64(to))
	}
}

// copyBorrowed copies the borrowed payload from one position of the stream to another.
func (p *peer) copyBorrowed(from, to uint64) {
	if from >= to {
		return
	}
	ring := uint64(len(p.staging) / 2)
	copy(p.staging[from%ring:], p.borrowed[from-p.borrowedAt:to-p.borrowedAt])
	p.w.counts.staged += to - from
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.closed {
		return transport.NewOpError(name, "flush", transport.ErrClosed)
	}
	if len(w.connecting) > 0 {
		w.connect()
	}
	for _, p := range w.dirty {
		p.isDirty = false
		p.flushed = p.posted
		if p.state == up {
			p.flush()
		}
	}
	w.dirty = w.dirty[:0]
	return nil
}

// flush sends what was posted. An error stays with the comm, and the next Poll finds it.
func (p *peer) flush() {
	c := p.comm
	if p.pump() != nil {
		return
	}
	if c.sendActive < c.sendPosted && c.progress() != nil { // the credit may be there
		return
	}
	_, _ = c.control.flush()
}

// pump makes requests of the stream, as far as the window goes, and sends. A request
// that is not full ends with a message.
func (p *peer) pump() error {
	c, s := p.comm, p.w.settings
	if c.err != nil {
		return c.err
	}
	c.stall.waiting = false
	for p.posted-p.cut >= uint64(s.request) || p.cut < p.flushed {
		if c.sendPosted-c.sendFreed >= uint64(s.sendWindow) && !s.noWindow {
			if p.freeSends(); c.sendPosted-c.sendFreed >= uint64(s.sendWindow) {
				c.stall.waiting = true
				c.stall.begin(c, clock())
				break
			}
		}
		size := uint64(s.request)
		if p.posted-p.cut < size {
			size = p.flushed - p.cut
		}
		tag := c.sendPosted
		if s.oneTag {
			tag = theOneTag
		}
		number, err := c.isend(p.source(size), tag)
		if err != nil {
			c.err = err
			return err
		}
		c.sends[number%requests].at = p.cut
		p.cut += size
	}
	if err := c.progressSends(); err != nil {
		c.err = err
		return err
	}
	return nil
}

// source is the memory of the stream's next bytes: staged, then borrowed.
func (p *peer) source(size uint64) (v vector) {
	ring := uint64(len(p.staging) / 2)
	staged := size
	if p.borrowed != nil {
		end := max(p.cut, p.borrowedAt)
		staged = min(size, end-p.cut)
		if from := p.cut + staged - p.borrowedAt; staged < size {
			v[1] = p.borrowed[from : from+size-staged]
		}
	}
	v[0] = p.staging[p.cut%ring:][:staged]
	return v
}

// freeSends frees requests that are acknowledged, and their part of the staging ring.
func (p *peer) freeSends() {
	c := p.comm
	for c.sendFreed < c.sendPosted {
		size := c.sends[c.sendFreed%requests].size
		if !c.freeSend() {
			return
		}
		p.freed += uint64(size)
	}
}
