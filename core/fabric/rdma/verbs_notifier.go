//go:build ibverbs

package rdma

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// verbsNotifier waits for the completion channels of some queues, and for an eventfd(2)
// that Notify writes to.
type verbsNotifier struct {
	device *verbsDevice
	queues []*verbsCompletionQueue
	ready  []unix.PollFd // the eventfd, then a channel for each queue
	closed bool
}

// NewNotifier implements [Device].
func (d *verbsDevice) NewNotifier(queues ...CompletionQueue) (Notifier, error) {
	b := &verbsNotifier{device: d}
	for _, queue := range queues {
		c, ok := queue.(*verbsCompletionQueue)
		switch {
		case !ok || c.device != d:
			return nil, invalid("completion queue of another device")
		case c.notifier != nil || c.pairs > 0:
			return nil, errNotifierLate
		}
		b.queues = append(b.queues, c)
	}
	rung, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("making a notifier: eventfd: %w", err)
	}
	b.ready = append(b.ready, unix.PollFd{Fd: int32(rung), Events: unix.POLLIN})
	for _, c := range b.queues {
		c.notifier = b
		b.ready = append(b.ready, unix.PollFd{Fd: int32(c.cq.Channel()), Events: unix.POLLIN})
	}
	return b, d.adopt(b, closeQueuePairs)
}

// Wait implements [Notifier]. A completion between the last Poll and Notify makes no event,
// so it is looked for in between; verbs do not let anybody look without taking.
func (b *verbsNotifier) Wait(timeout time.Duration) error {
	if b.closed {
		return ErrClosed
	}
	for _, c := range b.queues {
		if len(c.pending) > 0 {
			return nil
		}
		if err := c.cq.Notify(); err != nil {
			return err
		}
		taken := make([]Completion, 16)
		n, err := c.Poll(taken)
		if n > 0 || err != nil {
			c.pending = taken[:n]
			return err
		}
	}
	limit := unix.NsecToTimespec(timeout.Nanoseconds())
	if _, err := unix.Ppoll(b.ready, &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("waiting for completions: ppoll: %w", err)
	}
	if b.ready[0].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(int(b.ready[0].Fd), count[:])
	}
	for i, c := range b.queues {
		if b.ready[i+1].Revents != 0 {
			c.cq.Clear()
		}
	}
	return nil
}

// Notify implements [Notifier].
func (b *verbsNotifier) Notify() {
	_, _ = unix.Write(int(b.ready[0].Fd), []byte{1, 0, 0, 0, 0, 0, 0, 0}) // it fails when full, and that rings too
}

// Close implements [Notifier].
func (b *verbsNotifier) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	for _, c := range b.queues {
		c.notifier = nil
	}
	b.device.disown(b)
	return unix.Close(int(b.ready[0].Fd))
}
