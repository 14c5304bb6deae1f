package copyrpc

import (
	"transportbench/core/fabric/rdma"
	"transportbench/core/transport"
)

// What completions of requests say in their ID.
const (
	batchID = iota
	creditID
	positionID
	keepaliveID
	farewellID
)

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
		if p.state > up {
			return i, p.errors.down
		}
		if len(op.Payload) > w.settings.payload {
			return i, p.errors.tooLarge
		}
		var taken bool
		switch op.Kind {
		case transport.OpCall:
			taken = w.call(p, op)
		case transport.OpReply:
			if op.Token >= transport.Token(len(p.owed)) || !p.owed[op.Token] {
				return i, p.errors.noCall
			}
			// Room for it was promised; see room.go.
			if taken = w.append(p, responseBit|uint32(op.Token), op.Payload, w.settings.ring); taken {
				p.owed[op.Token] = false
			}
		default:
			return i, p.errors.unsupported
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

// call posts a call, if its response can be promised room and there is room for
// itself.
func (w *worker) call(p *peer, op *transport.Op) bool {
	t := &p.calls
	if t.inFlight >= t.limit || len(t.free) == 0 {
		w.counts.noCredit++
		return false
	}
	id := t.free[len(t.free)-1]
	if !w.append(p, id, op.Payload, w.settings.callLimit) {
		return false
	}
	t.free = t.free[:len(t.free)-1]
	t.tokens[id] = op.Token
	t.waiting[id] = true
	t.inFlight++
	return true
}

// append copies a message into the send ring, if it ends at most limit after what
// the peer has let go.
func (w *worker) append(p *peer, id uint32, payload []byte, limit uint64) bool {
	size := w.settings.ring
	space := messageSpace(len(payload))
	at, ok := p.cursor.fits(space, size)
	if end := roundUp(at + space); !ok || end-p.freed > limit {
		return w.appendElsewhere(p, id, payload, limit)
	}
	p.cursor.next = at + space
	p.count++
	putMessage(p.ring[at&(size-1):], id, payload)
	return true
}

// appendElsewhere is append where the message does not fit before the ring's end, or
// there may be no room.
func (w *worker) appendElsewhere(p *peer, id uint32, payload []byte, limit uint64) bool {
	size := w.settings.ring
	to := p.cursor.put(messageSpace(len(payload)), size)
	if to.end()-p.freed > limit {
		w.look(p)
		if to.end()-p.freed > limit {
			w.counts.ringFull++
			return false
		}
	}
	if to.closes {
		p.seal()
	}
	if to.filler != 0 {
		p.closed[p.batches] = batch{start: to.start - to.filler, length: headerSize, span: uint32(to.filler), count: fillerCount}
		p.batches++
	}
	p.cursor = to.cursor
	p.count++
	putMessage(p.ring[to.message&(size-1):], id, payload)
	return true
}

// seal closes the open batch.
func (p *peer) seal() {
	b := &p.closed[p.batches]
	b.start = p.cursor.start
	b.length = uint32(p.cursor.next - p.cursor.start)
	b.span = uint32(p.cursor.end() - p.cursor.start)
	b.count = p.count
	p.batches++
	p.count = 0
	p.cursor.start = p.cursor.end()
	p.cursor.next = p.cursor.start
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.closed {
		return transport.NewOpError(name, "flush", transport.ErrClosed)
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

// writeOpen asks the device to write the open batch, where nothing waits before it and
// nothing is to be waited for. It says no where write has to see to it.
func (w *worker) writeOpen(p *peer) bool {
	if p.batches > 0 || p.count == 0 || p.state != up || p.sent-p.returned >= uint32(w.settings.batches) || w.settings.fetches {
		return false
	}
	end := p.cursor.end()
	b := batch{start: p.cursor.start, length: uint32(p.cursor.next - p.cursor.start), span: uint32(end - p.cursor.start), count: p.count}
	w.prepare(p, &b, &w.requests[0])
	if n, _ := p.qp.PostSend(w.requests[:1]); n == 0 {
		return false
	}
	p.count = 0
	p.cursor = cursor{start: end, next: end}
	p.written = end
	p.sent++
	p.told, p.toldOf = p.released, p.taken
	w.counts.doorbells++
	w.counts.batches++
	w.counts.messages += uint64(b.count)
	if b.length <= uint32(w.settings.inline) {
		w.counts.inline++
	}
	return true
}

// write asks the device to write what was flushed, with one doorbell. Where that has
// to wait, Poll tries again.
func (w *worker) write(p *peer) {
	if p.sealable() {
		p.seal()
	}
	n := 0
	if p.state == up {
		room := w.room(p)
		for n < p.batches && uint32(n) < room {
			w.prepare(p, &p.closed[n], &w.requests[n])
			n++
		}
	}
	if n > 0 {
		posted, err := p.qp.PostSend(w.requests[:n])
		if posted < n && err != rdma.ErrQueueFull {
			w.lose(p)
			return
		}
		w.counts.doorbells++
		w.posted(p, posted)
	}
	if (p.batches > 0 || p.count > 0) && !p.isStuck {
		p.isStuck = true
		w.stuck = append(w.stuck, p)
		w.counts.held++
	}
	// In time, so that what is fetched comes before there is nothing left.
	if w.settings.fetches && (p.cursor.start-p.freed > w.settings.callLimit*3/4 || p.sent-p.returned > uint32(w.settings.batches)/2) {
		w.fetch(p)
	}
}

// sealable says whether the open batch is to be closed now. Behind one that waits it
// stays open, so that what is posted meanwhile is one batch, and there are no more
// than closedBatches: one that waits, one up to the ring's end, the filler, one behind.
func (p *peer) sealable() bool {
	return p.count > 0 && (p.batches == 0 || p.closed[p.batches-1].count == fillerCount)
}

// room is how many batches the peer has receives for.
func (w *worker) room(p *peer) uint32 {
	if room := uint32(w.settings.batches) - (p.sent - p.returned); room >= uint32(p.batches) {
		return room
	}
	w.look(p)
	return uint32(w.settings.batches) - (p.sent - p.returned)
}

// prepare makes the request of a batch. The header goes with what this side has let
// go by now.
func (w *worker) prepare(p *peer, b *batch, r *rdma.SendRequest) {
	offset := b.start & (w.settings.ring - 1)
	putHeader(p.ring[offset:], uint32(p.released/unit), p.taken, b.count, b.length)
	r.ID = batchID
	r.Opcode = rdma.WriteWithImmediate
	r.Local = p.local + offset
	r.LocalKey = w.region.LocalKey
	r.Length = b.length
	r.Remote = p.remote + offset
	r.RemoteKey = p.key
	r.Immediate = b.span / unit
	r.Flags = 0
	if int(b.length) <= w.settings.inline {
		r.Flags = rdma.Inline
	}
	r.Flags |= w.signal(p)
}

// signal asks for a completion with every so many requests.
func (w *worker) signal(p *peer) rdma.SendFlags {
	if p.unsigned++; p.unsigned < w.settings.signal {
		return 0
	}
	p.unsigned = 0
	return rdma.Signaled
}

// posted books the first n closed batches as written.
func (w *worker) posted(p *peer, n int) {
	for i := range n {
		b := &p.closed[i]
		p.written = b.start + uint64(b.span)
		if b.count == fillerCount {
			w.counts.fillers++
			continue
		}
		w.counts.batches++
		w.counts.messages += uint64(b.count)
		if w.requests[i].Flags&rdma.Inline != 0 {
			w.counts.inline++
		}
	}
	if n > 0 {
		p.sent += uint32(n)
		p.told, p.toldOf = p.released, p.taken
	}
	if p.batches -= n; p.batches > 0 {
		copy(p.closed[:], p.closed[n:n+p.batches])
	}
}

// retry writes what had to wait. A peer that was posted to since is written by Flush.
func (w *worker) retry() {
	waiting := w.stuck
	w.stuck = w.stuck[:0]
	for _, p := range waiting {
		p.isStuck = false
		if p.state > up {
			continue
		}
		if p.isDirty && p.batches == 0 {
			continue
		}
		w.write(p)
	}
}
