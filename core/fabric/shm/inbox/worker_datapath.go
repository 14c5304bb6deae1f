package inbox

import (
	mathbits "math/bits"
	"slices"
	"time"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// idlePolls is how many polls in a row must find a ring empty before it is armed, while more than
// Config.HotRings rings are active. A client in a closed loop calls again sooner than that.
const idlePolls = 512

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	if p := w.to; p != nil && len(ops) > 0 && ops[0].Peer == p.id { // the usual case
		n, err := p.out.PushBatch(ops)
		if n == len(ops) {
			return n, nil
		}
		return w.postRest(ops, n, err)
	}
	return w.postRest(ops, 0, nil)
}

// postRest posts the ops from n on, which may be for several peers. If the ring has refused op n
// already, with the error refused, postRest posts nothing.
func (w *worker) postRest(ops []transport.Op, n int, refused error) (int, error) {
	for refused == nil && n < len(ops) {
		if err := w.turnTo(&ops[n]); err != nil {
			return n, err
		}
		var posted int
		posted, refused = w.to.out.PushBatch(ops[n:])
		n += posted
	}
	if refused != nil {
		return n, w.refused(w.to, refused)
	}
	return n, nil
}

// turnTo makes the peer of an op the one that Post posts to.
func (w *worker) turnTo(op *transport.Op) error {
	p := w.peers.Admit(op)
	if p == nil {
		return w.peers.Refusal(w.settings.name, op)
	}
	w.to = p
	if !p.posting {
		p.posting = true
		w.posting = append(w.posting, p)
	}
	w.toArmed = nil
	if len(w.posting) == 1 && !w.settings.publishes() {
		w.toArmed = p.armed
	}
	return nil
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
	case ring.ErrTooLong:
		return p.errors.TooLarge
	case ring.ErrKind:
		return p.errors.Unsupported
	default:
		w.lose(p)
		return p.errors.Down
	}
}

// Flush implements [transport.Worker].
func (w *worker) Flush() error {
	// The processor may execute this load before the stores of Post. The owner of the
	// ring runs a barrier for both sides between arming and looking again
	// (leaveActive, Wait): either it sees what was published, or this load sees the
	// ring armed.
	if w.toArmed != nil && w.toArmed.Load() == 0 {
		return nil
	}
	return w.flushAll()
}

// flushAll is Flush for any number of peers: it makes the messages in their rings visible.
func (w *worker) flushAll() error {
	if w.peers.Closed() {
		return w.settings.name.Error("flush", transport.ErrClosed)
	}
	for _, p := range w.posting {
		p.out.Publish()
		if p.armed.Load() != 0 { // as in Flush
			w.notify(p)
		}
	}
	if len(w.posting) > 1 { // a lone peer stays: adding it again costs more than flushing it
		for _, p := range w.posting {
			p.posting = false
		}
		w.posting, w.to = w.posting[:0], nil
	}
	return nil
}

// notify tells a peer that has armed the ring of what was published there.
func (w *worker) notify(p *peer) {
	if p.armed.CompareAndSwap(1, 0) {
		w.counts.syscalls += p.inbox.notifier.notify(p.index)
		w.counts.notifications++
	}
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (int, error) {
	r := w.only
	if r == nil || w.inbox.notifier.sequence.Load() != w.sequence {
		return w.pollAll(events)
	}
	n, err := r.in.Drain(r.id, events)
	if err != nil {
		w.lose(r.peer)
		err = r.peer.errors.Corrupt
	}
	w.counts.polled += uint64(n)
	return n, err
}

// pollAll is Poll for any number of active rings and whatever else may have happened.
func (w *worker) pollAll(events []transport.Event) (int, error) {
	if w.peers.Closed() {
		return 0, w.settings.name.Error("poll", transport.ErrClosed)
	}
	// Before the bitmap: see notify.
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
		got, err := r.in.Drain(r.id, events[n:])
		n += got
		if err != nil {
			w.lose(r.peer)
			w.deactivate(at)
			w.counts.polled += uint64(n)
			return n, r.peer.errors.Corrupt
		}
		if got > 0 {
			r.idle = 0
		} else if w.leaveActive(r, at) {
			continue
		}
		i++
	}
	// Start with another ring next time, so that a full events slice starves none.
	if w.first++; w.first >= len(w.active) {
		w.first = 0
	}
	w.counts.polled += uint64(n)
	if w.lost.Len() > 0 {
		n += w.lost.Report(events[n:])
	}
	// While a single ring is active, the next Polls need nothing of this.
	if len(w.active) == 1 && w.settings.hotRings > 0 && w.lost.Len() == 0 &&
		!w.active[0].closing && !w.active[0].peer.lost {
		w.only = w.active[0]
	}
	return n, nil
}

// leaveActive removes an empty ring from active if its peer has closed, and loses the peer, or if
// the ring has been idle for long; then it returns true.
func (w *worker) leaveActive(r *region, at int) bool {
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
	// If the swap fails, the producer is notifying; the next Poll takes the ring up again.
	if !r.in.Empty() && r.armed.CompareAndSwap(1, 0) {
		return false
	}
	w.counts.retired++
	w.deactivate(at)
	return true
}

// deactivate removes active[at].
func (w *worker) deactivate(at int) {
	r := w.active[at]
	r.active = false
	w.only = nil
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
	w.only = nil
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
		r.id = r.peer.id
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
		w.only, w.to, w.toArmed = nil, nil, nil
		w.peers.Shut(p.id)
		w.lost.Add(p.id)
	}
}

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.peers.Closed() {
		return w.settings.name.Error("wait", transport.ErrClosed)
	}
	notifier := &w.inbox.notifier
	if w.lost.Len() > 0 || notifier.sequence.Load() != w.sequence {
		return nil
	}
	for _, r := range w.active {
		r.in.Release() // the peer may wait for room
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
