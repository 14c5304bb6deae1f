package inbox

import (
	mathbits "math/bits"
	"time"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// A ring that stays empty for this many polls is armed, if there are more than
// the hot ones: by then its client is not in a closed loop with this worker.
const idlePolls = 512

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.closed {
		return 0, transport.NewOpError(w.settings.name, "post", transport.ErrClosed)
	}
	for i := range ops {
		op := &ops[i]
		if int(op.Peer) >= len(w.peers) || w.peers[op.Peer] == nil {
			return i, w.settings.opError("post", op.Peer, transport.ErrPeerDown)
		}
		p := w.peers[op.Peer]
		if p.state != peerUp {
			return i, p.errors.down
		}
		if op.Kind != transport.OpCall && op.Kind != transport.OpReply {
			return i, p.errors.unsupported
		}
		if err := p.link.post(op); err != nil {
			return i, w.refused(p, err)
		}
		w.counts.posted++
		if !p.dirty {
			p.dirty = true
			w.dirty = append(w.dirty, p)
		}
	}
	return len(ops), nil
}

// refused says what Post returns for a ring's error.
func (w *worker) refused(p *peer, err error) error {
	switch err {
	case ring.ErrFull:
		// The peer may be waiting for what Flush has not shown it yet.
		p.link.publish()
		w.counts.full++
		return nil
	case ring.ErrTooLong:
		return p.errors.tooLarge
	case ring.ErrNoCall:
		return p.errors.noCall
	default:
		w.lose(p)
		return p.errors.down
	}
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.closed {
		return transport.NewOpError(w.settings.name, "flush", transport.ErrClosed)
	}
	for _, p := range w.dirty {
		p.dirty = false
		p.link.publish()
		// The load may run ahead of the publish. The owner of the ring makes
		// up for it with a barrier between arming and looking again: either it
		// sees what was published, or this sees the ring armed.
		if p.armed.Load() != 0 && p.armed.CompareAndSwap(1, 0) {
			p.inbox.bell.ring(p.index)
			w.counts.bells++
		}
	}
	w.dirty = w.dirty[:0]
	return nil
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (int, error) {
	if w.closed {
		return 0, transport.NewOpError(w.settings.name, "poll", transport.ErrClosed)
	}
	for _, r := range w.delivered {
		r.held = false
		r.peer.link.release()
	}
	w.delivered = w.delivered[:0]
	if sequence := w.inbox.bell.sequence.Load(); sequence != w.heard {
		w.heard = sequence
		w.answerBell()
	}
	n := 0
	for i := 0; i < len(w.active) && n < len(events); {
		at := w.turn + i
		if at >= len(w.active) {
			at -= len(w.active)
		}
		r := w.active[at]
		if r.peer.state != peerUp { // Post found its other ring corrupt
			w.drop(at)
			continue
		}
		got, err := w.drain(r, events[n:])
		n += got
		if err != nil {
			w.drop(at)
			return n, err
		}
		if got == 0 && w.retire(r, at) {
			continue
		}
		i++
	}
	// Whom the events' end cut off comes first next time.
	if w.turn++; w.turn >= len(w.active) {
		w.turn = 0
	}
	for n < len(events) && len(w.gone) > 0 {
		last := len(w.gone) - 1
		events[n] = transport.Event{Kind: transport.EventPeerLost, Peer: w.gone[last].id}
		w.gone = w.gone[:last]
		n++
	}
	w.counts.polled += uint64(n)
	return n, nil
}

// drain moves what a ring has into events.
func (w *worker) drain(r *inbound, events []transport.Event) (n int, err error) {
	n, err = r.peer.link.drain(r.peer.id, events)
	if err != nil {
		w.lose(r.peer)
		return n, r.peer.errors.corrupt
	}
	if n > 0 {
		r.idle = 0
		if !r.held {
			r.held = true
			w.delivered = append(w.delivered, r)
		}
	}
	return n, nil
}

// retire takes an empty ring out of active where that is due: its peer is gone,
// or it has been idle for long. It says whether it did.
func (w *worker) retire(r *inbound, at int) bool {
	if r.dying {
		if !r.peer.link.empty() { // a link may look at a part of what is there
			return false
		}
		w.lose(r.peer)
		w.drop(at)
		return true
	}
	if r.idle++; r.idle < idlePolls || len(w.active) <= w.settings.hotRings {
		return false
	}
	r.idle = 0
	r.armed.Store(1)
	shm.Barrier() // pairs with Flush
	if !r.peer.link.empty() && r.armed.CompareAndSwap(1, 0) {
		return false
	}
	w.counts.armed++
	w.drop(at)
	return true
}

// drop takes active[at] out.
func (w *worker) drop(at int) {
	r := w.active[at]
	r.active = false
	last := len(w.active) - 1
	w.active[at] = w.active[last]
	w.active = w.active[:last]
	if w.turn >= last {
		w.turn = 0
	}
}

// answerBell takes up the rings whose producers rang, and hears of the dead.
func (w *worker) answerBell() {
	for i, word := range w.inbox.bell.bitmap {
		if word.Load() == 0 {
			continue
		}
		for bits := word.Swap(0); bits != 0; bits &= bits - 1 {
			if index := i*64 + mathbits.TrailingZeros64(bits); index < len(w.inbound) {
				w.take(w.inbound[index])
			}
		}
	}
	for _, p := range w.peers {
		if p == nil || p.state != peerUp || !p.died.Load() {
			continue
		}
		if index, ok := w.inbox.find(p.inbox.nonce); ok {
			w.inbound[index].dying = true
			w.take(w.inbound[index])
		} else {
			w.lose(p)
		}
	}
}

// take puts a ring into active, if its peer is known and still up.
func (w *worker) take(r *inbound) {
	if r.closed.Load() != 0 {
		r.dying = true
	}
	if r.active {
		return
	}
	if r.peer == nil {
		if r.peer = w.byNonce[w.inbox.word64(r.index, claimOffset).Load()]; r.peer == nil {
			w.unmatch(r)
			return
		}
		r.peer.link.join(r.in)
	}
	if r.peer.state != peerUp {
		return
	}
	r.active = true
	r.idle = 0
	r.armed.Store(0)
	w.counts.taken++
	w.active = append(w.active, r)
}

func (w *worker) unmatch(r *inbound) {
	for _, known := range w.unmatched {
		if known == r {
			return
		}
	}
	w.unmatched = append(w.unmatched, r)
}

// lose marks a peer lost and has Poll tell it once.
func (w *worker) lose(p *peer) {
	if p.state == peerUp {
		p.state = peerGone
		w.gone = append(w.gone, p)
	}
}

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.closed {
		return transport.NewOpError(w.settings.name, "wait", transport.ErrClosed)
	}
	bell := &w.inbox.bell
	if len(w.gone) > 0 || bell.sequence.Load() != w.heard {
		return nil
	}
	for _, r := range w.active {
		r.armed.Store(1)
	}
	shm.Barrier() // pairs with Flush
	for _, r := range w.active {
		if r.dying || !r.peer.link.empty() {
			for _, r := range w.active {
				r.armed.Store(0)
			}
			return nil
		}
	}
	for len(w.active) > 0 {
		w.drop(len(w.active) - 1)
	}
	w.counts.parked++
	bell.waiting.Store(1) // pairs with the load in wake
	if bell.sequence.Load() == w.heard {
		shm.FutexWait(bell.sequence, w.heard, timeout)
	}
	bell.waiting.Store(0)
	return nil
}

// Wake implements [transport.Waiter].
func (w *worker) Wake() { w.inbox.bell.wake() }
