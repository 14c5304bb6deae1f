package control

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Parking is where the thread of a worker sleeps until the descriptor of a library is readable, or
// until another thread wakes it.
type Parking struct {
	library int // the library closes it
	wake    int // an eventfd
}

// NewParking returns a Parking for a descriptor of a library.
func NewParking(library int) (*Parking, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &Parking{library: library, wake: wake}, nil
}

// Close closes what NewParking has opened.
func (p *Parking) Close() error { return unix.Close(p.wake) }

// Wake ends the current or the next Sleep. Any thread may call it.
func (p *Parking) Wake() {
	one := [8]byte{1}
	_, _ = unix.Write(p.wake, one[:]) // EAGAIN: a wake-up is pending already
}

// Sleep waits for at most timeout. It returns the number of system calls that it made.
func (p *Parking) Sleep(timeout time.Duration) (calls uint64, err error) {
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	descriptors := [...]unix.PollFd{
		{Fd: int32(p.library), Events: unix.POLLIN},
		{Fd: int32(p.wake), Events: unix.POLLIN},
	}
	if _, err := unix.Ppoll(descriptors[:], &limit, nil); err != nil &&
		!errors.Is(err, unix.EINTR) {
		return 1, err
	}
	if descriptors[1].Revents == 0 {
		return 1, nil
	}
	var count [8]byte
	_, _ = unix.Read(p.wake, count[:]) // EAGAIN: an earlier Sleep has read it
	return 2, nil
}
