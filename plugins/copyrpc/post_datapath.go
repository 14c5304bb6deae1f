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
	for i := range ops {
		op := &ops[i]
		p := w.peers.Admit(op)
		if p == nil {
			return i, w.peers.Refusal(name, op)
		}
		var taken bool
		switch op.Kind {
		case transport.OpCall:
			taken = w.call(p, op)
		case transport.OpReply:
			if !p.requests.Open(op.Token) {
				return i, p.errors.NoCall
			}
			// The caller promised the room; see cursor. Only with credit: read may it be unknown.
			if taken = w.append(p, responseBit|uint32(op.Token), op.Payload,
				w.settings.ring); taken {
				p.requests[op.Token] = false
			}
		default:
			return i, p.errors.Unsupported
		}
		if w.refused = !taken; w.refused {
			return i, nil
		}
		if !p.isDirty {
			p.isDirty = true
			w.dirty = append(w.dirty, p)
		}
	}
	return len(ops), nil
}

// call appends a call if its response can be promised room and the ring has room for the
// call itself.
func (w *worker) call(p *peer, op *transport.Op) bool {
	t := &p.calls
	id, ok := t.Next()
	if !ok || t.inFlight >= t.maxInFlight {
		w.counts.noCredit++
		return false
	}
	if !w.append(p, id, op.Payload, w.settings.callSpace) {
		return false
	}
	t.Begin(id, op.Token)
	t.inFlight++
	return true
}

// append copies a message into the send ring if it ends at most available bytes after the
// position that the peer has released.
func (w *worker) append(p *peer, id uint32, payload []byte, available uint64) bool {
	size := w.settings.ring
	space := messageSpace(len(payload))
	at, ok := p.cursor.fits(space, size)
	if end := roundUp(at + space); !ok || end-p.peerReleased > available ||
		p.openCount == maxMessages {
		return w.appendSlow(p, id, payload, available)
	}
	p.cursor.next = at + space
	p.openCount++
	putMessage(p.sendRing[at&(size-1):], id, payload)
	w.countCopy(len(payload))
	return true
}

// appendSlow is append for a message that does not fit before the end of the ring or into the
// batch, or for which there may be no room.
func (w *worker) appendSlow(p *peer, id uint32, payload []byte, available uint64) bool {
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
	p.cursor = to.cursor
	p.openCount++
	putMessage(p.sendRing[to.message&(size-1):], id, payload)
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

// openBatch returns the open batch.
func (p *peer) openBatch() batch {
	c := p.cursor
	return batch{start: c.start, length: uint32(c.next - c.start), span: uint32(c.end() - c.start),
		count: p.openCount}
}

// startBatch moves the cursor behind the open batch.
func (p *peer) startBatch() {
	end := p.cursor.end()
	p.cursor = cursor{start: end, next: end}
	p.openCount = 0
}

// closeBatch queues the open batch for its request.
func (p *peer) closeBatch() {
	p.closed[p.closedCount] = p.openBatch()
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
	b := p.openBatch()
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
	putHeader(p.sendRing[offset:], uint32(p.released/unit), p.consumed, b.count)
	r.ID = batchID
	r.Opcode = rdma.WriteWithImmediate
	r.Local = p.localRing + offset
	r.LocalKey = w.region.LocalKey
	r.Length = b.length
	r.Remote = p.remoteRing + offset
	r.RemoteKey = p.remoteKey
	r.Immediate = b.span / unit
	r.Flags = 0
	if int(b.length) <= w.settings.inline {
		r.Flags = rdma.Inline
	}
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
