package ucxam

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// parkingWorker is a worker under the option wake-up.
type parkingWorker struct{ *worker }

var _ transport.Waiter = parkingWorker{}

// parking is what a worker sleeps on.
type parking struct {
	ucx  int // UCX's event descriptor, which is UCX's to close
	wake int // an eventfd, ours
}

func newParkingWorker(w *worker) (parkingWorker, error) {
	p := &parking{ucx: w.ucp.Descriptor()}
	if p.ucx < 0 {
		return parkingWorker{}, refuse(optionWakeUp, "UCX has no event descriptor for %s", w.rank.lane)
	}
	var err error
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return parkingWorker{}, fmt.Errorf("making an eventfd: %w", err)
	}
	w.park = p
	return parkingWorker{w}, nil
}

func (p *parking) close() error { return unix.Close(p.wake) }

// Wait implements [transport.Waiter].
func (w parkingWorker) Wait(timeout time.Duration) error {
	if w.closed {
		return opFailed("wait", transport.ErrClosed)
	}
	w.counts.crossings++
	if len(w.gone) > 0 || w.ucp.Ready() > 0 || !w.ucp.Arm() {
		return nil
	}
	w.counts.parked++
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	descriptors := [...]unix.PollFd{
		{Fd: int32(w.park.ucx), Events: unix.POLLIN},
		{Fd: int32(w.park.wake), Events: unix.POLLIN},
	}
	if _, err := unix.Ppoll(descriptors[:], &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return opFailed("wait", err)
	}
	if descriptors[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(w.park.wake, count[:]) // EAGAIN: it was for an earlier Wait
	}
	return nil
}

// Wake implements [transport.Waiter].
func (w parkingWorker) Wake() {
	one := [8]byte{1}
	_, _ = unix.Write(w.park.wake, one[:]) // EAGAIN: a wake-up is there already
}
