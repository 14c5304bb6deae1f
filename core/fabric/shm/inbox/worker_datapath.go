package inbox

import (
	mathbits "math/bits"
	"slices"
	"time"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// idlePolls is how many polls in a row find a ring empty before it is armed, if more than
// HotRings are active. A client in a closed loop with this worker calls again sooner.
const idlePolls = 512

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	if w.closed {
		return 0, w.settings.name.Error("post", transport.ErrClosed)
	}
	for i := range ops {
		op := &ops[i]
		p := w.peers.Admit(op)
		if p == nil {
			return i, w.peers.Refusal(w.settings.name, op)
		}
		if op.Kind != transport.OpCall && op.Kind != transport.OpReply {
			return i, p.errors.Unsupported
		}
		if err := p.out.Push(ring.Kind(op.Kind), uint64(op.Token), op.Payload); err != nil {
			return i, w.refused(p, err)
		}
		w.counts.posted++
		w.counts.postedBytes += uint64(len(op.Payload))
		if len(op.Payload) == 0 {
			w.counts.empty++
		}
		if !p.dirty {
			p.dirty = true
			w.dirty = append(w.dirty, p)
		}
	}
	return len(ops), nil
}

// refused returns the error of Post for an error of the ring; a full ring is none.
func (w *worker) refused(p *peer, err error) error {
	switch err {
	case ring.ErrFull:
		// Publish what is pushed, so that the peer can make room.
		p.out.Publish()
		w.counts.full++
		return nil
	case ring.ErrNoCall:
		return p.errors.NoCall
	default:
		w.lose(p)
		return p.errors.Down
	}
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	if w.closed {
		return w.settings.name.Error("flush", transport.ErrClosed)
	}
	for _, p := range w.dirty {
		p.dirty = false
		p.out.Publish()
		// The processor may execute this load before the publish. The owner of the
		// ring runs a barrier for both sides between arming and looking again
		// (retireIdle, Wait): either it sees what was published, or this load sees the
		// ring armed.
		if p.armed.Load() != 0 && p.armed.CompareAndSwap(1, 0) {
			w.counts.syscalls += p.inbox.notifier.notify(p.index)
			w.counts.notifications++
		}
	}
	w.dirty = w.dirty[:0]
	return nil
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (int, error) {
	if w.closed {
		return 0, w.settings.name.Error("poll", transport.ErrClosed)
	}
	for _, r := range w.delivered {
		r.held = false
		r.in.Release()
	}
	w.delivered = w.delivered[:0]
	if sequence := w.inbox.notifier.sequence.Load(); sequence != w.sequence {
		w.sequence = sequence
		w.takeNotifications()
	}
	n := 0
	for i := 0; i < len(w.active) && n < len(events); {
		at := w.first + i
		if at >= len(w.active) {
			at -= len(w.active)
		}
		r := w.active[at]
		if r.peer.lost { // Post found the outbound ring corrupt
			w.deactivate(at)
			continue
		}
		got, err := w.drain(r, events[n:])
		n += got
		if err != nil {
			w.deactivate(at)
			return n, err
		}
		if got == 0 && w.retireIdle(r, at) {
			continue
		}
		i++
	}
	// Start with another ring next time, so that a full events slice starves none.
	if w.first++; w.first >= len(w.active) {
		w.first = 0
	}
	if w.lost.Len() > 0 {
		n += w.lost.Report(events[n:])
	}
	w.counts.polled += uint64(n)
	return n, nil
}

// drain moves messages from a ring to events.
func (w *worker) drain(r *region, events []transport.Event) (n int, err error) {
	n, err = r.in.Drain(r.peer.id, events)
	if err != nil {
		w.lose(r.peer)
		return n, r.peer.errors.Corrupt
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

// retireIdle removes an empty ring from active if its peer has closed or if it has been
// idle for long; then it returns true.
func (w *worker) retireIdle(r *region, at int) bool {
	if r.closing {
		if !r.in.Empty() { // Drain of call slots may look at the oldest call only
			return false
		}
		w.lose(r.peer)
		w.deactivate(at)
		return true
	}
	if r.idle++; r.idle < idlePolls || len(w.active) <= w.settings.hotRings {
		return false
	}
	r.idle = 0
	r.armed.Store(1)
	shm.Barrier() // pairs with Flush
	w.counts.syscalls++
	if !r.in.Empty() && r.armed.CompareAndSwap(1, 0) {
		return false
	}
	w.counts.armed++
	w.deactivate(at)
	return true
}

// deactivate removes active[at].
func (w *worker) deactivate(at int) {
	r := w.active[at]
	r.active = false
	last := len(w.active) - 1
	w.active[at] = w.active[last]
	w.active = w.active[:last]
	if w.first >= last {
		w.first = 0
	}
}

// takeNotifications activates the rings whose producers have notified, and looks for peers
// whose process has died.
func (w *worker) takeNotifications() {
	for i, word := range w.inbox.notifier.bitmap {
		if word.Load() == 0 {
			continue
		}
		for bits := word.Swap(0); bits != 0; bits &= bits - 1 {
			if index := i*64 + mathbits.TrailingZeros64(bits); index < len(w.regions) {
				w.activate(w.regions[index])
			}
		}
	}
	for _, p := range w.peers.ByID {
		if p == nil || p.lost || !p.died.Load() {
			continue
		}
		if index, ok := w.inbox.find(p.inbox.nonce); ok {
			w.regions[index].closing = true
			w.activate(w.regions[index])
		} else {
			w.lose(p)
		}
	}
}

// activate adds a ring to active if its peer is known and not lost.
func (w *worker) activate(r *region) {
	if r.closed.Load() != 0 {
		r.closing = true
	}
	if r.active {
		return
	}
	if r.peer == nil {
		if r.peer = w.peers.Find(w.inbox.word64(r.index, claimOffset).Load()); r.peer == nil {
			if !slices.Contains(w.unmatched, r) {
				w.unmatched = append(w.unmatched, r)
			}
			return
		}
		if slots := r.peer.slots; slots != nil {
			slots.answerer, r.in = r.answerer, slots
		}
	}
	if r.peer.lost {
		return
	}
	r.active = true
	r.idle = 0
	r.armed.Store(0)
	w.counts.activated++
	w.active = append(w.active, r)
}

// lose marks a peer lost; Poll reports it once.
func (w *worker) lose(p *peer) {
	if !p.lost {
		p.lost = true
		w.peers.Shut(p.id)
		w.lost.Add(p.id)
	}
}

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.closed {
		return w.settings.name.Error("wait", transport.ErrClosed)
	}
	notifier := &w.inbox.notifier
	if w.lost.Len() > 0 || notifier.sequence.Load() != w.sequence {
		return nil
	}
	for _, r := range w.active {
		r.armed.Store(1)
	}
	shm.Barrier() // pairs with Flush
	w.counts.syscalls++
	for _, r := range w.active {
		if r.closing || !r.in.Empty() {
			for _, r := range w.active {
				r.armed.Store(0)
			}
			return nil
		}
	}
	for len(w.active) > 0 {
		w.deactivate(len(w.active) - 1)
	}
	w.counts.slept++
	notifier.sleeping.Store(1) // pairs with the load in wake
	if notifier.sequence.Load() == w.sequence {
		shm.FutexWait(notifier.sequence, w.sequence, timeout)
		w.counts.syscalls++
	}
	notifier.sleeping.Store(0)
	return nil
}

// Wake implements [transport.Waiter].
func (w *worker) Wake() { w.inbox.notifier.wake() }
