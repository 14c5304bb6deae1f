package tcpx

import (
	"transportbench/core/fabric/dial"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

// The messages of one direction are a stream of bytes, cut into requests. Their kinds,
// numbers and sizes travel over the control socket, and so do small messages themselves. A full
// request is cut as soon as there is enough; a shorter one ends with a message and is cut at a
// Flush.

// outStream is the stream to a peer. Positions count its bytes from the beginning:
// freed <= cut <= flushed <= posted, but full requests are cut before they are flushed.
type outStream struct {
	// staging is a ring that is mapped twice in a row. Byte i of the stream is at i modulo
	// its size, unless Post sent it straight from the payload.
	staging  []byte
	posted   uint64
	flushed  uint64
	cut      uint64 // handed to the window as requests
	freed    uint64 // acknowledged
	messages uint64
	copies   deviceCopies
}

func (o *outStream) size() uint64 { return uint64(len(o.staging) / 2) }

// at returns size bytes of the staging ring from a position on.
func (o *outStream) at(position, size uint64) []byte { return o.staging[position%o.size():][:size] }

// leastDirect is the size from which Post sends a payload without copying it to the
// staging ring first: the copy then costs about what a system call costs.
const leastDirect = 32 << 10

// post appends a message to the stream if there is room for all of it.
func (p *peer) post(kind uint8, number uint32, payload []byte) bool {
	o, c, size := &p.out, p.conn, uint64(len(payload))
	if size > 0 && size <= uint64(c.inline) {
		if c.control.room() < roomForChunks+recordSize+len(payload) {
			return false
		}
		c.control.put(record{kind: kind, size: uint32(size), offset: number, total: uint32(size),
			tag: o.messages}, payload...)
		o.messages++
		c.counters.messages++
		c.counters.inlineSent++
		c.counters.inlineSentBytes += size
		return true
	}
	if !p.announce(kind, number, len(payload)) {
		return false
	}
	if size >= leastDirect && p.State == dial.Up && !c.zeroCopy && c.settings.threads == 0 {
		p.postDirect(payload)
		return true
	}
	copy(o.at(o.posted, size), payload)
	o.posted += size
	c.counters.staged += size
	if size > 0 {
		c.counters.stagings++
	}
	return true
}

// announce announces a message that is not inline if there is room for all of it.
func (p *peer) announce(kind uint8, number uint32, bytes int) bool {
	o, c, size := &p.out, p.conn, uint64(bytes)
	if o.posted+size-o.freed > o.size()/2 {
		p.freeSends()
	}
	if o.posted+size-o.freed > o.size() || c.control.room() < roomForChunks+recordSize {
		return false
	}
	c.control.put(record{kind: kind, size: uint32(size), offset: number, tag: o.messages})
	o.messages++
	c.counters.messages++
	return true
}

// postDirect sends what the sockets take of a payload straight from where it is, and
// copies the rest to the staging ring.
func (p *peer) postDirect(payload []byte) {
	o, c := &p.out, p.conn
	c.borrowed, c.borrowedAt = payload, o.posted
	o.posted += uint64(len(payload))
	before := c.counters.sentBytes
	_ = p.send(true) // the next Poll finds the error
	// Chunks that were not sent in full, and then everything that is no chunk yet.
	for i := range c.lanes {
		l := &c.lanes[i]
		for k := range l.taskCount {
			t := &l.tasks[(l.firstTask+k)%laneTasks]
			p.copyToStaging(t.request.at+uint64(t.offset+t.done),
				t.request.at+uint64(t.offset+t.size))
		}
	}
	unassigned := o.cut
	if c.sendCut < c.sendPosted {
		r := &c.sends[c.sendCut%requests]
		unassigned = r.at + uint64(r.assigned)
	}
	p.copyToStaging(unassigned, o.posted)
	c.borrowed = nil
	c.counters.direct += c.counters.sentBytes - before
}

// copyToStaging copies the stream from one position to another to the staging ring, as far as it
// is borrowed.
func (p *peer) copyToStaging(from, to uint64) {
	c := p.conn
	if from = max(from, c.borrowedAt); from < to {
		copy(p.out.at(from, to-from), c.borrowed[from-c.borrowedAt:to-c.borrowedAt])
		c.counters.staged += to - from
		c.counters.stagings++
	}
}

// send hands the stream to the window as requests, as far as the window allows, and sends.
// Post, Flush and Poll call it, and bytes of messages leave nowhere else.
func (p *peer) send(hold bool) error {
	o, c, request := &p.out, p.conn, uint64(p.w.settings.request)
	c.stall.windowFull = false
	staged := p.copyOut()
	for c.err == nil && (o.posted-o.cut >= request || o.cut < o.flushed) {
		if !p.windowOpen() {
			c.stall.waitForWindow(c)
			break
		}
		size := request
		if o.posted-o.cut < size {
			size = o.flushed - o.cut
		}
		if o.cut+size > staged {
			break // the GPU still copies a part of the request
		}
		if err := c.postSend(o.at(o.cut, size), o.cut, c.sendPosted); err != nil {
			return c.fail(err)
		}
		o.cut += size
	}
	return c.pumpOut(hold)
}

// windowOpen reports whether the send window has room; it frees sends to find some.
func (p *peer) windowOpen() bool {
	c, window := p.conn, uint64(p.w.settings.sendWindow)
	if c.sendPosted-c.sendFreed >= window {
		p.freeSends()
	}
	return c.sendPosted-c.sendFreed < window
}

// freeSends frees sends that are acknowledged, and their part of the staging ring.
func (p *peer) freeSends() {
	c := p.conn
	for c.sendFreed < c.sendPosted {
		size := c.sends[c.sendFreed%requests].size
		if !c.freeSend() {
			return
		}
		p.out.freed += uint64(size)
	}
}

// canReply reports whether a reply of size bytes can leave with the next Flush. A call may
// wait for the window or the peer's receives, because its caller polls for the response; the
// thread that replies may never poll again. A reply that takes more than a window is accepted
// when nothing else is under way, and its sender must poll.
func (p *peer) canReply(size int) bool {
	o, c, s := &p.out, p.conn, p.w.settings
	if size <= c.inline {
		return !c.control.full
	}
	if !o.copies.none() {
		return false // it would be sent after the copies, by a later Poll
	}
	if len(c.helpers) > 0 {
		c.takeSent()
	}
	need := (o.posted - o.cut + uint64(size) + uint64(s.request) - 1) / uint64(s.request)
	if !c.idleLanes() {
		return false
	}
	if c.freeRequests() < need {
		p.freeSends()
	}
	return c.freeRequests() >= need || o.cut == o.posted && c.sendFreed == c.sendPosted &&
		need > uint64(s.sendWindow)
}

// freeRequests returns how many requests can be sent now.
func (c *conn) freeRequests() uint64 {
	return min(uint64(c.settings.sendWindow)-(c.sendPosted-c.sendFreed),
		c.credited-min(c.credited, c.sendPosted))
}

// canSend reports whether there is something to send and room for it. A Post may have
// freed sends and left the stream waiting.
func (p *peer) canSend() bool {
	c := p.conn
	return p.out.cut < p.out.flushed && c.sendPosted-c.sendFreed <
		uint64(p.w.settings.sendWindow) ||
		c.sendCut < min(c.sendPosted, c.credited) && c.chooseLane() >= 0 &&
			c.control.room() >= roomForCredits+recordSize
}

// inStream is the stream from a peer. Receive n is unpacked to slot n modulo len(sizes) of the
// destination ring. What follows a full request is in the next slot, and so directly behind it:
// a message is contiguous.
type inStream struct {
	destination bounce.Buffer
	request     int    // bytes of a slot
	sizes       []int  // by slot: bytes of the request that was consumed
	read        uint64 // the receive in which the next message begins
	offset      int    // and where in it
	released    uint64 // receives before this one may be overwritten
}

// at returns size bytes of the destination ring from an offset of a receive on.
func (in *inStream) at(number uint64, offset, size int) bounce.Buffer {
	return in.destination.Slice(int(number%uint64(len(in.sizes)))*in.request+offset, size)
}

// size returns the bytes of a receive that was consumed.
func (in *inStream) size(number uint64) int { return in.sizes[number%uint64(len(in.sizes))] }

// arrived reports whether the next size bytes of the stream are in receives before consumed.
func (in *inStream) arrived(size int, consumed uint64) (bool, error) {
	if size == 0 {
		return true, nil
	}
	left := in.offset + size
	end := in.read + uint64((left+in.request-1)/in.request)
	if consumed < end {
		return false, nil
	}
	for n := in.read; n < end; n++ {
		// A message continues only behind a full request.
		if in.size(n) < min(left, in.request) {
			return false, errProtocol
		}
		left -= in.request
	}
	return true, nil
}

// skip moves behind a message of size bytes that has arrived.
func (in *inStream) skip(size int, consumed uint64) {
	in.offset += size
	for in.read < consumed && in.offset >= in.size(in.read) {
		in.offset -= in.size(in.read)
		in.read++
	}
}

// receive consumes what was unpacked and posts new receives in its place.
func (p *peer) receive() error {
	c := p.conn
	for {
		number, size, ok, err := c.consume()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		p.in.sizes[number%uint64(len(p.in.sizes))] = size
	}
	p.postReceives()
	return nil
}

// postReceives posts as many receives as the window and the destination ring allow. Their
// credits leave with whatever is sent next.
func (p *peer) postReceives() {
	c, s := p.conn, p.w.settings
	for c.receivePosted-c.receiveConsumed < uint64(s.receiveWindow) &&
		c.receivePosted-p.in.released < uint64(s.slots) {
		if c.postReceive(p.in.at(c.receivePosted, 0, s.request), c.receivePosted) != nil {
			return // the next Poll finds the error
		}
	}
}

// headArrived reports whether the oldest announced message has arrived.
func (p *peer) headArrived() (bool, error) {
	m := p.conn.announced.Head()
	if m.inline() {
		return true, nil
	}
	return p.in.arrived(int(m.size), p.conn.receiveConsumed)
}

// deliver hands out messages that have arrived.
func (p *peer) deliver(events []transport.Event, n int) (int, error) {
	announced, in := &p.conn.announced, &p.in
	for n < len(events) && !announced.Empty() {
		m := announced.Head()
		number, size, inline := m.offset, int(m.size), m.inline()
		call := m.kind == recordCall
		if size > p.w.settings.payload || call && !p.requests.Available(number) ||
			!call && !p.calls.Waiting(number) {
			return n, errProtocol
		}
		if arrived, err := p.headArrived(); !arrived {
			return n, err
		}
		e := &events[n]
		n++
		// Field by field: a literal is built on the stack with narrow stores and copied
		// with wide loads, which stall on them.
		e.Kind, e.Peer, e.Size, e.Payload, e.DeviceOffset = transport.EventRequest, p.id,
			size, nil, 0
		switch {
		case inline:
			e.Payload = p.conn.inlined.of(announced.First(), size)
		case in.destination.Host != nil:
			e.Payload = in.at(in.read, in.offset, size).Host
			in.skip(size, p.conn.receiveConsumed)
		default:
			if p.conn.headers != nil {
				e.Payload = p.conn.headers.of(announced.First(), size)
			}
			e.DeviceOffset = in.read*uint64(in.request) + uint64(in.offset)
			in.skip(size, p.conn.receiveConsumed)
		}
		announced.Pop()
		if call {
			p.requests[number] = true
			e.Token = transport.Token(number)
			continue
		}
		e.Kind, e.Token = transport.EventResponse, p.calls.End(number)
		p.calls.Release(number)
	}
	return n, nil
}
