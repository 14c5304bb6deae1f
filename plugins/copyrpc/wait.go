package copyrpc

import (
	"time"

	"transportbench/core/transport"
)

// stuckWait bounds a wait for room: credit that comes by itself is a WRITE, which rings
// no notifier on verbs.
const stuckWait = 100 * time.Microsecond

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.closed {
		return transport.NewOpError(name, "wait", transport.ErrClosed)
	}
	// The next Poll has something, or has to give the credit that a peer may wait for.
	if len(w.ready)+len(w.gone)+len(w.broken)+len(w.held)+len(w.owing) > 0 || w.rank.ticks.Load() != w.sweeping {
		return nil
	}
	// Poll looks at datagrams seldom, and they ring the notifier as well.
	w.manager.progress()
	if len(w.gone) > 0 {
		return nil
	}
	if w.manager.missing > 0 {
		timeout = min(timeout, resendAfter)
	}
	if len(w.stuck) > 0 || w.refused {
		timeout = min(timeout, stuckWait)
	}
	w.counts.parked++
	return w.notifier.Wait(timeout)
}

// Wake implements [transport.Waiter].
func (w *worker) Wake() { w.notifier.Notify() }
