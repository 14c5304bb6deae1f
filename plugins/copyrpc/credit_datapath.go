package copyrpc

import "transportbench/core/fabric/rdma"

// packCredit returns the word in which credit travels by itself: released units and
// consumed receives, both counted from the start of the connection.
func packCredit(released uint64, consumed uint32) uint64 {
	return uint64(uint32(released/unit)) | uint64(consumed)<<32
}

// restore takes credit that the peer returns. It ignores credit older than what is known
// and returns false if the peer returns more than was used.
func (p *peer) restore(units, receives uint32) bool {
	if n := units - uint32(p.peerReleased/unit); int32(n) > 0 {
		released := p.peerReleased + uint64(n)*unit
		if released > p.written {
			return false
		}
		p.peerReleased = released
	}
	if n := receives - p.returned; int32(n) > 0 {
		if n > p.sent-p.returned {
			return false
		}
		p.returned = receives
	}
	return true
}

// seekCredit is called when credit is short: it reads the word that the peer writes, or
// with credit: read posts a READ of the peer's position.
func (w *worker) seekCredit(p *peer) {
	if w.settings.readsCredit {
		w.readPosition(p)
		return
	}
	w.restoreFrom(p, p.credit)
}

// restoreFrom takes credit from a word. A word that is being written is ignored: the next
// look finds it. So is the last one, whose 32-bit counts look like new ones once the connection has
// moved 64 GiB.
func (w *worker) restoreFrom(p *peer, d doubleWord) {
	word, whole := d.load()
	if !whole || word == p.lastCredit {
		return
	}
	p.lastCredit = word
	if !p.restore(uint32(word), uint32(word>>32)) {
		w.cutOff(p)
	}
}

// takeCredit takes the credit of all peers before it is too old for restoreFrom.
func (w *worker) takeCredit() {
	for _, p := range w.byCookie {
		if p.state == up && !w.settings.readsCredit {
			w.restoreFrom(p, p.credit)
		}
	}
}

// readPosition posts an RDMA READ of the peer's position.
func (w *worker) readPosition(p *peer) {
	if p.readPending || p.state != up {
		return
	}
	r := &w.requests[0]
	r.ID = positionID
	r.Opcode = rdma.Read
	r.Flags = rdma.Signaled
	r.Local = p.localControl + fetchedOffset
	r.LocalKey = w.region.LocalKey
	r.Length = doubleWordSize
	r.Remote = p.remoteControl + positionOffset
	r.RemoteKey = p.remoteKey
	if n, _ := p.qp.PostSend(w.requests[:1]); n == 1 {
		p.readPending = true
		w.counts.doorbells++
		w.counts.reads++
	}
}

// releaseHeld releases the payloads of the last Poll.
func (w *worker) releaseHeld() {
	for _, p := range w.held {
		p.isHeld = false
		p.released = p.parsed &^ (unit - 1)
		if len(p.calls.answered) > 0 {
			p.calls.ReleaseAll(p.calls.answered)
			p.calls.answered = p.calls.answered[:0]
		}
		if w.settings.readsCredit {
			p.position.store(packCredit(p.released, p.consumed)) // for the peer's READ
		} else {
			w.owe(p)
		}
	}
	w.held = w.held[:0]
}

// owe makes the next Poll send credit to a peer that may need it.
func (w *worker) owe(p *peer) {
	if !p.isOwing && w.creditDue(p) {
		p.isOwing = true
		w.owing = append(w.owing, p)
	}
}

// creditArrived takes the credit of a WRITE that the peer has given notice of. The notice has
// consumed a receive, of which a peer uses no more than there are.
func (w *worker) creditArrived(p *peer) {
	if p.state > up {
		return
	}
	if p.consumed-p.toldConsumed > uint32(w.settings.batches) {
		w.cutOff(p)
		return
	}
	w.restoreFrom(p, p.credit)
	w.owe(p)
}

// creditDue reports whether the peer may run out of ring space or receives before a batch
// carries its credit. With less than this owed, the peer always has enough left.
func (w *worker) creditDue(p *peer) bool {
	return p.released-p.toldReleased >= w.settings.ring/8 ||
		p.consumed-p.toldConsumed >= uint32(w.settings.batches)/2
}

// sendOwedCredit writes credit to peers to which no batch went since it became due.
func (w *worker) sendOwedCredit() {
	owing := w.owing
	w.owing = w.owing[:0]
	for _, p := range owing {
		p.isOwing = false
		if p.state > up || !w.creditDue(p) {
			continue
		}
		if !w.sendCredit(p) {
			p.isOwing = true
			w.owing = append(w.owing, p)
		}
	}
}

// sendCredit uses a plain WRITE because a batch or an immediate would itself consume a receive.
// With credit: immediate it gives notice as long as the peer has receives.
func (w *worker) sendCredit(p *peer) bool {
	if p.state != up {
		return false
	}
	p.scratch.store(packCredit(p.released, p.consumed))
	w.prepareWord(p, scratchOffset, creditOffset)
	notice := w.settings.notifiesCredit && p.sent-p.returned < uint32(w.settings.batches)
	if notice {
		w.requests[0].Opcode, w.requests[0].Immediate = rdma.WriteWithImmediate, creditNotice
	}
	if n, _ := p.qp.PostSend(w.requests[:1]); n == 0 {
		return false
	}
	if notice {
		p.sent++
	}
	w.counts.doorbells++
	w.counts.credits++
	p.toldReleased, p.toldConsumed = p.released, p.consumed
	return true
}

// prepareWord makes requests[0] a WRITE of a double word to the peer, between offsets in
// the words for one-sided access.
func (w *worker) prepareWord(p *peer, from, to uint64) {
	r := &w.requests[0]
	r.ID = wordID
	r.Opcode = rdma.Write
	r.Local = p.localControl + from
	r.LocalKey = w.region.LocalKey
	r.Length = doubleWordSize
	r.Remote = p.remoteControl + to
	r.RemoteKey = p.remoteKey
	r.Flags = w.signal(p)
	if w.settings.inline >= doubleWordSize {
		r.Flags |= rdma.Inline
	}
}

// refill posts receives until the shared queue is full again.
func (w *worker) refill() error {
	all := w.settings.receives()
	for w.receivesPosted < all {
		n, err := w.srq.PostReceive(w.receives[:min(len(w.receives), all-w.receivesPosted)])
		w.receivesPosted += n
		if err != nil {
			return err
		}
	}
	return nil
}
