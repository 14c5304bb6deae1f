package ofi

import (
	"time"

	"transportbench/core/transport"
)

// parkingWorker is a worker with the option wake-up.
type parkingWorker struct{ *worker }

var _ transport.Waiter = parkingWorker{}

// Wait implements [transport.Waiter].
func (w parkingWorker) Wait(timeout time.Duration) error {
	if w.closed {
		return name.Error("wait", transport.ErrClosed)
	}
	w.counts.crossings++
	if w.lost.Len() > 0 || w.gone.Load() != w.handled || w.library.Ready() > 0 || !w.library.Arm() {
		return nil
	}
	w.counts.parked++
	calls, err := w.parking.Sleep(timeout)
	w.counts.syscalls += calls
	return name.Error("wait", err)
}

// Wake implements [transport.Waiter].
func (w parkingWorker) Wake() { w.parking.Wake() }
