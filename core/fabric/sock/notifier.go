package sock

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Notifier wakes a thread that sleeps in poll(2) on FD.
//
// The sleeper calls Begin, checks for work once more, polls, and calls End. A thread that adds work
// after that check sees the flag and writes to FD.
type Notifier struct {
	FD      int // an eventfd; -1 if there is none
	waiting atomic.Bool
	count   [8]byte // read from FD
}

// Open makes the eventfd.
func (n *Notifier) Open() (err error) {
	if n.FD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		n.FD = -1
		return fmt.Errorf("eventfd: %w", err)
	}
	return nil
}

// Close closes the eventfd, if there is one.
func (n *Notifier) Close() error {
	if n.FD < 0 {
		return nil
	}
	fd := n.FD
	n.FD = -1
	return unix.Close(fd)
}

// Begin announces that the thread is about to sleep. It pairs with the load in Notify.
func (n *Notifier) Begin() { n.waiting.Store(true) }

// End announces that the thread is awake.
func (n *Notifier) End() { n.waiting.Store(false) }

// Waiting reports whether the thread sleeps or is about to.
func (n *Notifier) Waiting() bool { return n.waiting.Load() }

// Notify wakes the thread if it sleeps, and returns the number of system calls. Call it after the
// work is visible. It does nothing for a nil notifier.
func (n *Notifier) Notify() (calls uint64) {
	if n != nil && n.Waiting() { // pairs with the store in Begin
		n.Wake()
		calls = 1
	}
	return calls
}

// Wake ends the thread's sleep, or else its next one.
func (n *Notifier) Wake() {
	_, _ = unix.Write(n.FD, one[:]) // EAGAIN: a wake-up is pending already
}

// one is the number that a wake-up adds to an eventfd.
var one = [8]byte{1}

// Drain takes the pending wake-ups.
func (n *Notifier) Drain() {
	_, _ = unix.Read(n.FD, n.count[:]) // EAGAIN: an earlier sleep took them
}
