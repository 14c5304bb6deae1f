package sockets

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

var _ transport.Waiter = (*worker)(nil)

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.peers.Closed() {
		return name.Error("wait", transport.ErrClosed)
	}
	if w.lost.Len() > 0 || len(w.failures) > 0 || len(w.arrived) > 0 {
		return nil
	}
	w.notifier.Begin()
	defer w.notifier.End()
	list := append(w.pollFD[:0], unix.PollFd{Fd: int32(w.notifier.FD), Events: unix.POLLIN})
	list, ready := w.engine.prepareWait(list)
	if ready {
		return nil
	}
	begin := len(list)
	list, arrivals, timeout := w.connector.Interests(list, timeout)
	w.pollFD = list
	w.counters.Syscalls++
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	if _, err := unix.Ppoll(list, &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return name.Error("wait", err)
	}
	if list[0].Revents != 0 {
		w.counters.Syscalls++
		w.notifier.Drain()
	}
	if slices.ContainsFunc(list[begin:begin+arrivals],
		func(p unix.PollFd) bool { return p.Revents != 0 }) {
		w.connect()
	}
	return nil
}

// Wake implements [transport.Waiter].
func (w *worker) Wake() { w.notifier.Wake() }
