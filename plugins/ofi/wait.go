package ofi

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// parkingWorker is a worker with the option wake-up.
type parkingWorker struct{ *worker }

var _ transport.Waiter = parkingWorker{}

// parking has the descriptors that a worker sleeps on.
type parking struct {
	queue int // of the completion queue, which libfabric closes
	wake  int // an eventfd
}

func newParking(w *worker) (*parking, error) {
	p := &parking{queue: w.library.Descriptor()}
	if p.queue < 0 {
		return nil, w.endpoint.noDescriptor()
	}
	var err error
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return p, nil
}

func (p *parking) close() error { return unix.Close(p.wake) }

// signal ends the current or the next wait.
func (p *parking) signal() {
	one := [8]byte{1}
	_, _ = unix.Write(p.wake, one[:]) // EAGAIN: it is signalled already
}

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
	w.counts.syscalls++
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	descriptors := [...]unix.PollFd{
		{Fd: int32(w.parking.queue), Events: unix.POLLIN},
		{Fd: int32(w.parking.wake), Events: unix.POLLIN},
	}
	if _, err := unix.Ppoll(descriptors[:], &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return name.Error("wait", err)
	}
	if descriptors[1].Revents != 0 {
		var count [8]byte
		w.counts.syscalls++
		_, _ = unix.Read(w.parking.wake, count[:]) // EAGAIN: an earlier Wait has read it
	}
	return nil
}

// Wake implements [transport.Waiter].
func (w parkingWorker) Wake() { w.parking.signal() }
