//go:build ibverbs

package rdma

import (
	"errors"
	"fmt"
	"time"

	"transportbench/core/fabric/rdma/internal/objects"

	"golang.org/x/sys/unix"
)

// verbsNotifier waits for the completion channels of its queues, and for an eventfd(2) to
// which Notify writes.
type verbsNotifier struct {
	device *verbsDevice
	queues []*verbsCompletionQueue
	ready  []unix.PollFd // the eventfd, then a channel for each queue
	closed bool
}

// NewNotifier implements [Device].
func (d *verbsDevice) NewNotifier(queues ...CompletionQueue) (Notifier, error) {
	n := &verbsNotifier{device: d}
	for _, queue := range queues {
		c, ok := queue.(*verbsCompletionQueue)
		switch {
		case !ok || c.device != d:
			return nil, Invalid("completion queue of another device")
		case c.notifier != nil || c.pairs > 0:
			return nil, ErrNotifierLate
		}
		n.queues = append(n.queues, c)
	}
	rung, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make notifier: eventfd: %w", err)
	}
	n.ready = append(n.ready, unix.PollFd{Fd: int32(rung), Events: unix.POLLIN})
	for _, c := range n.queues {
		c.notifier = n
		n.ready = append(n.ready, unix.PollFd{Fd: int32(c.cq.Channel()), Events: unix.POLLIN})
	}
	return n, d.Adopt(n, objects.QueuePairs)
}

// Wait implements [Notifier]. A completion between the last Poll and the request for an
// event makes no event, so Wait polls again after the request. Verbs cannot look without
// taking, so what it finds is kept for the next Poll.
func (n *verbsNotifier) Wait(timeout time.Duration) error {
	if n.closed {
		return ErrClosed
	}
	for _, c := range n.queues {
		if len(c.pending) > 0 {
			return nil
		}
		if err := c.cq.RequestEvent(); err != nil {
			return err
		}
		taken := make([]Completion, 16)
		found, err := c.Poll(taken)
		if found > 0 || err != nil {
			c.pending = taken[:found]
			return err
		}
	}
	wait := unix.NsecToTimespec(timeout.Nanoseconds())
	if _, err := unix.Ppoll(n.ready, &wait, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for completions: ppoll: %w", err)
	}
	if n.ready[0].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(int(n.ready[0].Fd), count[:])
	}
	for i, c := range n.queues {
		if n.ready[i+1].Revents != 0 {
			c.cq.ClearEvents()
		}
	}
	return nil
}

// Notify implements [Notifier].
func (n *verbsNotifier) Notify() {
	// fails only if the counter is full, which ends the Wait too
	_, _ = unix.Write(int(n.ready[0].Fd), []byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// Close implements [Notifier].
func (n *verbsNotifier) Close() error {
	if n.closed {
		return nil
	}
	n.closed = true
	for _, c := range n.queues {
		c.notifier = nil
	}
	n.device.Disown(n)
	return unix.Close(int(n.ready[0].Fd))
}
