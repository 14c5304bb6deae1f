package copyrpc

import (
	"encoding/binary"

	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// SendRequest.ID says what a request was.
const (
	batchID = iota
	wordID  // credit, or a ping
	positionID
	keepaliveID
	farewellID
)

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	w.refused = false
	for i := range ops {
		op := &ops[i]
		p := w.peers.Admit(op)
		if p == nil {
			return i, w.peers.Refusal(name, op)
		}
		// The caller of a reply promised its room; see cursor. Only with credit: read may it be
		// unknown.
		id, available := responseBit|uint32(op.Token), w.settings.ring
		switch {
		case op.Kind == transport.OpCall:
			var ok bool
			if id, ok = p.calls.Next(); !ok || p.calls.inFlight >= p.calls.maxInFlight {
				w.counts.noCredit++
				w.refused = true
				return i, nil
			}
			available = w.settings.callSpace
		case op.Kind != transport.OpReply:
			return i, p.errors.Unsupported
		case !p.requests.Open(op.Token):
			return i, p.errors.NoCall
		}
		at := p.cursor.message()
		next := at + messageSpace(len(op.Payload))
		if next <= p.room && len(op.Payload) < p.inPlaceFrom && p.openCount < maxMessages {
			p.cursor.next = next
			p.openCount++
			putMessage(p.sendRing[at&uint64(len(p.sendRing)-1):], id, op.Payload)
			w.countCopy(len(op.Payload))
		} else if !w.append(p, id, op.Payload, available) {
			w.refused = true
			return i, nil
		}
		if op.Kind == transport.OpCall {
			p.calls.Begin(id, op.Token)
			p.calls.inFlight++
		} else {
			p.requests[op.Token] = false
		}
		if !p.isDirty {
			p.isDirty = true
			w.dirty = append(w.dirty, p)
		}
	}
	return len(ops), nil
}

// inPlaceFrom is the least payload in bytes that is stored at the peer at once. A shorter one takes
// less time in the send ring: the device copies a batch with fewer stores to the peer's lines.
const inPlaceFrom = 1024

// append appends a message that may not fit before the end of the ring or into the batch, for which
// there may be no room, or with which the batch moves to the peer's ring. It returns false unless
// the message ends at most available bytes after the position that the peer has released.
func (w *worker) append(p *peer, id uint32, payload []byte, available uint64) bool {
	if p.openCount == maxMessages {
		return false // until the next Flush
	}
	size := w.settings.ring
	to := p.cursor.put(messageSpace(len(payload)), size)
	if to.end()-p.peerReleased > available {
		w.seekCredit(p)
		if to.end()-p.peerReleased > available {
			w.counts.ringFull++
			return false
		}
	}
	if to.closes {
		p.closeBatch()
	}
	if to.padding != 0 {
		p.closed[p.closedCount] = batch{start: to.start - to.padding, length: headerSize,
			span: uint32(to.padding), count: paddingCount}
		p.closedCount++
	}
	if !p.inPlace && len(payload) >= p.inPlaceFrom {
		from, n := p.cursor.start&(size-1), p.cursor.next-p.cursor.start
		copy(p.mapped[from:], p.sendRing[from:from+n])
		w.countCopy(int(n))
		p.inPlace = true
	}
	p.cursor = to.cursor
	p.openCount++
	ring := p.sendRing
	p.room = min((to.start|(size-1))+1, p.peerReleased+w.settings.callSpace)
	if p.inPlace {
		ring, p.room = p.mapped, 0
	}
	putMessage(ring[to.message&(size-1):], id, payload)
	w.countCopy(len(payload))
	return true
}

// countCopy counts the copy of a payload into a send ring.
func (w *worker) countCopy(bytes int) {
	if bytes > 0 {
		w.counts.copies++
		w.counts.copiedBytes += uint64(bytes)
	}
}

// openBatch describes the open batch, field by field: the loads that copy a literal from the stack
// would stall on its stores.
func (p *peer) openBatch(b *batch) {
	c := p.cursor
	b.start = c.start
	b.length = uint32(c.next - c.start)
	b.span = uint32(c.end() - c.start)
	b.count = p.openCount
	b.inPlace = p.inPlace
}

// startBatch moves the cursor behind the open batch.
func (p *peer) startBatch() {
	end := p.cursor.end()
	p.cursor = cursor{start: end, next: end}
	p.openCount, p.inPlace = 0, false
}

// closeBatch queues the open batch for its request.
func (p *peer) closeBatch() {
	p.openBatch(&p.closed[p.closedCount])
	p.closedCount++
	p.startBatch()
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.peers.Closed() {
		return name.Error("flush", transport.ErrClosed)
	}
	for _, p := range w.dirty {
		p.isDirty = false
		if p.state <= up && !w.writeOpen(p) {
			w.write(p)
		}
	}
	w.dirty = w.dirty[:0]
	return nil
}

// writeOpen is the common case of write: it posts the open batch if no batch is queued
// before it and the peer has a receive. It returns false if write has to take over.
func (w *worker) writeOpen(p *peer) bool {
	if p.closedCount > 0 || p.openCount == 0 || p.state != up ||
		p.sent-p.returned >= uint32(w.settings.batches) || w.settings.readsCredit {
		return false
	}
	var b batch
	p.openBatch(&b)
	if b.count != 1 || !w.writeLone(p, &b) {
		w.prepareBatch(p, &b, &w.requests[0])
		if n, _ := p.qp.PostSend(w.requests[:1]); n == 0 {
			return false
		}
	}
	p.startBatch()
	w.counts.doorbells++
	w.wrote(p, &b)
	p.tell(1)
	return true
}

// writeLone writes a batch of one short message with one header; see packLone. It returns false if
// the batch has to be written as others are: a request that is due to be signaled goes through
// PostSend.
func (w *worker) writeLone(p *peer, b *batch) bool {
	if b.length > p.maxLoneBatch || p.unsignaled+1 >= w.settings.signalInterval {
		return false
	}
	offset := b.start&(w.settings.ring-1) + headerSize
	header := p.sendRing[offset:]
	message := binary.LittleEndian.Uint64(header)
	binary.LittleEndian.PutUint64(header, packLone(message, uint32(p.released/unit), p.consumed))
	if !p.writer.WriteInline(batchID, p.localRing+offset, b.length-headerSize,
		p.remoteRing+offset, p.remoteKey, loneMessage+b.span/unit) {
		binary.LittleEndian.PutUint64(header, message)
		return false
	}
	p.unsignaled++
	return true
}

// write posts the flushed batches with one doorbell. Poll retries those that have to wait.
func (w *worker) write(p *peer) {
	if p.mayClose() {
		p.closeBatch()
	}
	n := 0
	if p.state == up {
		receives := w.peerReceives(p)
		for n < p.closedCount && uint32(n) < receives {
			w.prepareBatch(p, &p.closed[n], &w.requests[n])
			n++
		}
	}
	if n > 0 {
		posted, err := p.qp.PostSend(w.requests[:n])
		if posted < n && err != rdma.ErrQueueFull {
			w.losePeer(p)
			return
		}
		w.counts.doorbells++
		w.batchesPosted(p, posted)
	}
	if (p.closedCount > 0 || p.openCount > 0) && !p.isBlocked {
		p.isBlocked = true
		w.blocked = append(w.blocked, p)
		w.counts.blocked++
	}
	// Early, so that the position arrives before the credit runs out.
	if w.settings.readsCredit && (p.cursor.start-p.peerReleased > w.settings.callSpace*3/4 ||
		p.sent-p.returned > uint32(w.settings.batches)/2) {
		w.readPosition(p)
	}
}

// mayClose reports whether to close the open batch now. Behind a batch that waits it stays
// open, so that messages posted meanwhile join it. That bounds closed at maxClosed: one
// batch that waits, one up to the end of the ring, the padding, one behind it.
func (p *peer) mayClose() bool {
	return p.openCount > 0 && (p.closedCount == 0 ||
		p.closed[p.closedCount-1].count == paddingCount)
}

// peerReceives returns for how many batches the peer has receives.
func (w *worker) peerReceives(p *peer) uint32 {
	if n := uint32(w.settings.batches) - (p.sent - p.returned); n >= uint32(p.closedCount) {
		return n
	}
	w.seekCredit(p)
	return uint32(w.settings.batches) - (p.sent - p.returned)
}

// prepareBatch makes the request of a batch. The header reports what this side has
// released by now.
func (w *worker) prepareBatch(p *peer, b *batch, r *rdma.SendRequest) {
	offset := b.start & (w.settings.ring - 1)
	ring := p.sendRing
	r.Flags = 0
	if b.inPlace {
		ring = p.mapped
		r.Flags = rdma.InPlace
	} else if int(b.length) <= w.settings.inline {
		r.Flags = rdma.Inline
	}
	putHeader(ring[offset:], uint32(p.released/unit), p.consumed, b.count)
	r.ID = batchID
	r.Opcode = rdma.WriteWithImmediate
	r.Local = p.localRing + offset
	r.LocalKey = w.region.LocalKey
	r.Length = b.length
	r.Remote = p.remoteRing + offset
	r.RemoteKey = p.remoteKey
	r.Immediate = b.span / unit
	r.Flags |= w.signal(p)
}

// signal returns Signaled for every signalInterval-th request. A refused request counts, too, so up
// to 2*(signalInterval-1) in a row are unsignaled: fewer than send-depth, see resolve.
func (w *worker) signal(p *peer) rdma.SendFlags {
	if p.unsignaled++; p.unsignaled < w.settings.signalInterval {
		return 0
	}
	p.unsignaled = 0
	return rdma.Signaled
}

// batchesPosted records that the first n closed batches are written.
func (w *worker) batchesPosted(p *peer, n int) {
	for i := range n {
		w.wrote(p, &p.closed[i])
	}
	if n > 0 {
		p.tell(n)
	}
	if p.closedCount -= n; p.closedCount > 0 {
		copy(p.closed[:], p.closed[n:n+p.closedCount])
	}
}

// wrote records that a batch is written.
func (w *worker) wrote(p *peer, b *batch) {
	p.written = b.start + uint64(b.span)
	if b.count == paddingCount {
		w.counts.padding++
		return
	}
	w.counts.batches++
	w.counts.messages += uint64(b.count)
	w.counts.sizes.Add(uint32(b.count))
	if int(b.length) <= w.settings.inline {
		w.counts.inline++
	}
}

// tell records that so many batches consume receives of the peer, and that their headers have told
// it what this side has released and consumed.
func (p *peer) tell(batches int) {
	p.sent += uint32(batches)
	p.toldReleased, p.toldConsumed = p.released, p.consumed
}

// retry writes the batches that had to wait.
func (w *worker) retry() {
	blocked := w.blocked
	w.blocked = w.blocked[:0]
	for _, p := range blocked {
		p.isBlocked = false
		if p.state > up || p.isDirty && p.closedCount == 0 { // the next Flush writes the open batch
			continue
		}
		w.write(p)
	}
}
