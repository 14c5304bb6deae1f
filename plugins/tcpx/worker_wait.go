package tcpx

import (
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

var _ transport.Waiter = (*worker)(nil)

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.peers.Closed() {
		return name.Error("wait", transport.ErrClosed)
	}
	if w.lost.Len() > 0 || len(w.failures) > 0 || len(w.releasing) > 0 {
		return nil
	}
	w.notifier.Begin()
	defer w.notifier.End()
	list := append(w.pollFD[:0], unix.PollFd{Fd: int32(w.notifier.FD), Events: unix.POLLIN})
	for _, listener := range w.connector.dataListeners {
		list = append(list, unix.PollFd{Fd: int32(listener), Events: unix.POLLIN})
	}
	list, waiting, timeout := w.connector.Interests(list, timeout)
	arrivals := 1 + len(w.connector.dataListeners) + waiting
	ready := false
	for _, p := range w.peers.ByID {
		if p != nil && p.State == dial.Up && !ready {
			// While only the unpacker is pending, which wakes no thread, Poll has work, too.
			if ready = p.conn.HasWork(); !ready {
				list = p.conn.Interests(list)
			}
		}
	}
	w.pollFD = list
	if ready {
		return nil
	}
	w.counters.Calls[sock.Others]++
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	if _, err := unix.Ppoll(list, &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return name.Error("wait", err)
	}
	if list[0].Revents != 0 {
		w.counters.Calls[sock.Others]++
		w.notifier.Drain()
	}
	if slices.ContainsFunc(list[1:arrivals], func(p unix.PollFd) bool { return p.Revents != 0 }) {
		w.connect()
	}
	return nil
}

// Wake implements [transport.Waiter].
func (w *worker) Wake() { w.notifier.Wake() }
