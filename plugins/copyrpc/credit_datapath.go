package copyrpc

import "transportbench/core/fabric/rdma"

// packCredit is the word in which credit goes by itself: units let go and receives
// taken, in all.
func packCredit(released uint64, taken uint32) uint64 {
	return uint64(uint32(released/unit)) | uint64(taken)<<32
}

// restore takes credit that the peer gives back. Older news than what is known is
// no fault; more than was used is.
func (p *peer) restore(returned, receives uint32) bool {
	if units := returned - uint32(p.freed/unit); int32(units) > 0 {
		freed := p.freed + uint64(units)*unit
		if freed > p.written {
			return false
		}
		p.freed = freed
	}
	if n := receives - p.returned; int32(n) > 0 {
		if n > p.sent-p.returned {
			return false
		}
		p.returned = receives
	}
	return true
}

// look takes credit that came by itself, when there is too little. With credit:
// read it has to be fetched.
func (w *worker) look(p *peer) {
	if w.settings.fetches {
		w.fetch(p)
		return
	}
	w.restore(p, p.credit)
}

// restore takes credit from a word. One that is being written is old news.
func (w *worker) restore(p *peer, from twin) {
	word, whole := from.load()
	if whole && !p.restore(uint32(word), uint32(word>>32)) {
		w.corrupted(p)
	}
}

// fetch asks for the peer's position with an RDMA READ.
func (w *worker) fetch(p *peer) {
	if p.reading || p.state != up {
		return
	}
	r := &w.requests[0]
	r.ID = positionID
	r.Opcode = rdma.Read
	r.Flags = rdma.Signaled
	r.Local = p.control + fetchedOffset
	r.LocalKey = w.region.LocalKey
	r.Length = twinSize
	r.Remote = p.there + positionOffset
	r.RemoteKey = p.key
	if n, _ := p.qp.PostSend(w.requests[:1]); n == 1 {
		p.reading = true
		w.counts.doorbells++
		w.counts.reads++
	}
}

// letGo gives the payloads of the last Poll back.
func (w *worker) letGo() {
	for _, p := range w.held {
		p.isHeld = false
		p.released = p.parsed &^ (unit - 1)
		p.calls.free = append(p.calls.free, p.calls.answered...)
		p.calls.answered = p.calls.answered[:0]
		if w.settings.fetches {
			p.position.store(packCredit(p.released, p.taken)) // for the peer's READ
		} else if !p.isOwing && w.owes(p) {
			p.isOwing = true
			w.owing = append(w.owing, p)
		}
	}
	w.held = w.held[:0]
}

// owes says whether a peer may run out of room or receives before anything carries
// what it is to get back. Up to this, it always has enough left to go on.
func (w *worker) owes(p *peer) bool {
	return p.released-p.told >= w.settings.ring/8 || p.taken-p.toldOf >= uint32(w.settings.batches)/2
}

// settle writes credit to peers for which a whole turn brought no batch to ride on.
func (w *worker) settle() {
	owing := w.owing
	w.owing = w.owing[:0]
	for _, p := range owing {
		p.isOwing = false
		if p.state > up || !w.owes(p) {
			continue
		}
		if !w.tell(p) {
			p.isOwing = true
			w.owing = append(w.owing, p)
		}
	}
}

func (w *worker) tell(p *peer) bool {
	if p.state != up {
		return false
	}
	p.scratch.store(packCredit(p.released, p.taken))
	r := &w.requests[0]
	r.ID = creditID
	r.Opcode = rdma.Write
	r.Local = p.control + scratchOffset
	r.LocalKey = w.region.LocalKey
	r.Length = twinSize
	r.Remote = p.there + creditOffset
	r.RemoteKey = p.key
	r.Flags = w.signal(p)
	if w.settings.inline >= twinSize {
		r.Flags |= rdma.Inline
	}
	if n, _ := p.qp.PostSend(w.requests[:1]); n == 0 {
		return false
	}
	w.counts.doorbells++
	w.counts.credits++
	p.told, p.toldOf = p.released, p.taken
	return true
}

// refill posts receives, which is due when a third of them is gone.
func (w *worker) refill() error {
	all := w.settings.receives()
	for w.posts < all {
		n, err := w.srq.PostReceive(w.receives[:min(len(w.receives), all-w.posts)])
		w.posts += n
		if err != nil {
			return err
		}
	}
	return nil
}
