package calibration

import (
	"time"

	"transportbench/core/fabric/clock"
	"transportbench/core/transport"
)

const (
	// The bounds of worker.gap, in nanoseconds. A longer gap is a thread that gave its core away.
	minGap = 100
	maxGap = 1000
	// maxStep bounds worker.step, in nanoseconds. An interrupt makes a step longer.
	maxStep = 100
	// wakeMargin is how many nanoseconds before its end a wait ends, because the kernel may let a
	// thread sleep 50 us longer than it asks for (timer slack, prctl(2)).
	wakeMargin = 60e3
)

// Post implements [transport.Worker].
func (w *worker) Post(ops []transport.Op) (int, error) {
	n, err := w.post(ops)
	if w.detour != nil {
		w.detour.send(ops[:n])
	}
	return n, err
}

func (w *worker) post(ops []transport.Op) (int, error) {
	in := &w.injection
	w.blocked = 0
	if w.closed || len(ops) == 0 {
		return w.soundWorker.Post(ops)
	}
	if in.stall.length > 0 {
		now := clock.Now()
		if left := in.stall.left(now + w.boot); left > 0 {
			return 0, w.refuse(now + left)
		}
	}
	if in.rate == 0 && in.clientTime == 0 {
		return w.soundWorker.Post(ops)
	}
	for i := range ops {
		now, call := int64(0), ops[i].Kind == transport.OpCall
		if call {
			now = clock.Now()
			if left := w.pace.left(now); left > 0 {
				return i, w.refuse(now + left)
			}
			if in.clientTime > 0 && !w.clientTimeDone {
				w.until(now, now+in.clientTime)
				w.clientTimeDone = true
			}
		}
		if n, err := w.soundWorker.Post(ops[i : i+1]); n == 0 {
			return i, err
		}
		if call {
			w.clientTimeDone = false
			w.pace.take(now)
		}
	}
	return len(ops), nil
}

// refuse notes when Post may take a call again.
func (w *worker) refuse(until int64) error {
	w.blocked = until
	w.counts.refused++
	return nil
}

// until spins from now until a time and returns the time. A spinning thread sees the time only at
// its readings of the clock, so until draws at random whether it ends at the one before or after
// due, with probabilities that make the mean exact.
func (w *worker) until(now, due int64) int64 {
	const parts = 1 << 10
	for early := w.random.Int64N(parts); (due-now)*parts > early*w.step; {
		last := now
		now = clock.Now()
		w.step = min(now-last, maxStep)
	}
	return now
}

// Poll implements [transport.Worker].
func (w *worker) Poll(events []transport.Event) (int, error) {
	w.held.release()
	in := &w.injection
	if in.stall.length > 0 && !w.closed && in.stall.left(clock.Now()+w.boot) > 0 {
		return 0, nil
	}
	room := min(len(events), len(w.held.free)/2) // each may need two slots
	if in.daemonTime > 0 {
		room = min(room, 1)
	}
	// Leave room for a held event. The only room is for one that is due before the next Poll, so
	// that requests do not wait for a long delay.
	if room == len(events) && !w.held.empty() && (room > 1 || w.held.due()-clock.Now() <= w.gap) {
		room--
	}
	n, err := w.soundWorker.Poll(events[:max(room, 0)])
	if n == 0 && w.held.empty() {
		return 0, err
	}
	now := clock.Now()
	if w.polled != 0 {
		w.gap = min(now-w.polled, maxGap)
	}
	kept := 0
	for i := range events[:n] {
		if w.pass(&events[i], now, n == 1) {
			if kept != i {
				events[kept] = events[i]
			}
			kept++
		}
	}
	n, now = w.deliver(events, kept, now)
	if w.polled = 0; n == 0 {
		w.polled = now
	}
	return n, err
}

// deliver adds the events that are due to the first n, and returns the number of all.
//
// A loop that polls would find a response due half an iteration ago on average. So if there is
// nothing else to return, deliver spins until an event that is due before the next Poll is likely
// to come; otherwise it returns the event up to half an iteration early.
func (w *worker) deliver(events []transport.Event, n int, now int64) (int, int64) {
	for n < len(events) && !w.held.empty() {
		due := w.held.due()
		if n > 0 {
			if due-now > w.gap/2 {
				break
			}
		} else if due-now > w.gap {
			break
		} else if due > now {
			now = w.until(now, due)
		}
		w.held.take(&events[n])
		n++
	}
	return n, now
}

// pass reports whether Poll returns an event at once. Otherwise the event is lost or held. alone is
// set if it is the only one of its Poll.
func (w *worker) pass(e *transport.Event, now int64, alone bool) bool {
	switch e.Kind {
	case transport.EventRequest:
		if w.injection.daemonTime > 0 {
			w.until(now, now+w.injection.daemonTime)
		}
		return w.inOrder(e, &w.late[0], now, now)
	case transport.EventResponse:
		return w.passResponse(e, now, alone)
	}
	// The loss of a peer comes after all its other events.
	if w.held.empty() {
		return true
	}
	w.hold(e, max(now, w.held.latest))
	return false
}

func (w *worker) passResponse(e *transport.Event, now int64, alone bool) bool {
	if w.lose.hit() {
		w.counts.lost++
		return false
	}
	due := now
	if delay := w.injection.delay.draw(w.random); delay > 0 {
		due += delay
		w.counts.delayed++
	}
	corrupt := len(e.Payload) > 0 && w.corrupt.hit()
	if w.duplicate.hit() {
		w.counts.duplicated++
		w.hold(e, due)
	}
	if corrupt {
		_, payload := w.hold(e, due)
		w.flip(payload)
		return false
	}
	if alone && due > now && due-now <= w.gap && w.held.empty() {
		w.until(now, due)
		due = now
	}
	return w.inOrder(e, &w.late[1], now, due)
}

// inOrder holds an event until it is due, or longer if it is to be returned after the next one.
func (w *worker) inOrder(e *transport.Event, l *late, now, due int64) (pass bool) {
	if l.number != 0 && w.held.find(l.number) < 0 {
		l.number = 0 // none came in time
	}
	if l.hit() && l.number == 0 {
		l.number, _ = w.hold(e, due+patience)
		l.peer = e.Peer
		w.counts.reordered++
		return false
	}
	if due > now {
		w.hold(e, due)
	}
	if l.number != 0 && l.peer == e.Peer {
		w.held.move(l.number, due)
		l.number = 0
	}
	return due <= now
}

// hold keeps a copy of an event until it is due.
func (w *worker) hold(e *transport.Event, due int64) (number uint64, payload []byte) {
	number, payload = w.held.add(e, due)
	w.counts.copies++
	w.counts.copiedBytes += uint64(len(payload))
	return number, payload
}

// Wait implements [transport.Waiter]. It also ends when a held event or a refused call is due.
func (w *worker) Wait(timeout time.Duration) error {
	due := w.blocked
	if !w.held.empty() && (due == 0 || w.held.due() < due) {
		due = w.held.due()
	}
	if due != 0 {
		left := due - clock.Now() - wakeMargin
		if left <= 0 {
			return nil
		}
		timeout = min(timeout, time.Duration(left))
	}
	return w.soundWorker.Wait(timeout)
}
