package erpc

import (
	"time"

	"transportbench/core/transport"
)

var _ transport.Waiter = (*worker)(nil)

// Wait implements [transport.Waiter]. It ends when the next of the worker's own timers is
// due, which nothing that arrives tells of.
func (w *worker) Wait(timeout time.Duration) error {
	switch {
	case w.closed:
		return transport.NewOpError(name, "wait", transport.ErrClosed)
	case w.waiter == nil || w.next < w.received || len(w.gone)+len(w.broken) > 0:
		return nil
	}
	now := w.clock()
	if w.heart != nil && w.heart.deaths.Load() != w.deaths {
		w.scanAt = now
		return nil
	}
	// What has waited until now without a Poll is not the wait's.
	if away := now - w.polled - w.settings.rto/scansPerTimeout; away > 0 {
		w.forgive(away, now)
	}
	until := min(w.due(), now+int64(max(timeout, 0)))
	var err error
	if until > now {
		w.counts.parked++
		err = w.waiter.Wait(time.Duration(until - now))
	}
	// Sleep counts as time in which the worker polled, since answers would have ended it,
	// and what the kernel took to wake it does not. What was before is forgiven already.
	w.polled = max(now, min(w.clock(), until))
	w.scanAt = min(w.scanAt, w.polled)
	if err != nil {
		return transport.NewOpError(name, "wait", err)
	}
	return nil
}

// due is when the next timer is: of a slot without progress, of a packet in the wheel, or
// of a handshake.
func (w *worker) due() int64 {
	at := w.polled + int64(never)
	for s := w.first; s != nil; s = s.next {
		if s.held == 0 {
			at = min(at, s.progress+w.timeout(s))
		}
	}
	if w.wheel.count > 0 {
		at = min(at, w.wheel.next())
	}
	if w.missing > 0 {
		for _, p := range w.sessions {
			if p != nil && p.state == connecting {
				at = min(at, p.helloAt, p.patience)
			}
		}
	}
	return at
}

// never is longer than any timer.
const never = 1000 * time.Hour

// Wake implements [transport.Waiter].
func (w *worker) Wake() {
	if w.waiter != nil {
		w.waiter.Wake()
	}
}
