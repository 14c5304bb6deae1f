package uring

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Completion is the result of an operation.
type Completion struct {
	Data   uint64 // as it was submitted
	Result int32  // a count of bytes, or an error number below 0
	More   bool   // the operation goes on
}

// Errno returns the completion's error, or 0.
func (c *Completion) Errno() unix.Errno {
	if c.Result < 0 {
		return unix.Errno(-c.Result)
	}
	return 0
}

// next returns the next free entry for an operation, or nil if the queue is full.
func (r *Ring) next(opcode uint8, file int, data uint64) *sqe {
	if r.Full() {
		return nil
	}
	s := &r.sqes[place(r.tail, uint32(len(r.sqes)))]
	*s = sqe{opcode: opcode, flags: sqeFixedFile, fd: int32(file), userData: data}
	r.tail++
	r.inFlight++
	return s
}

// Full reports whether the queue of submissions is full until Submit. The load pairs with the
// kernel's store after it has read entries.
func (r *Ring) Full() bool { return room(r.sqHead.Load(), r.tail, uint32(len(r.sqes))) == 0 }

// Pending reports whether operations wait for Submit.
func (r *Ring) Pending() bool { return r.tail != r.submitted }

// NeedsEnter reports whether the kernel has work that only Submit lets it do: bytes have arrived,
// or completions did not fit into the queue.
func (r *Ring) NeedsEnter() bool { return r.sqFlags.Load()&(sqTaskrun|sqCQOverflow) != 0 }

// Ready reports whether Next has a completion.
func (r *Ring) Ready() bool { return r.head != r.cqTail.Load() }

// Next returns the next completion, if there is one.
func (r *Ring) Next() (c Completion, ok bool) {
	if r.head == r.ready {
		r.cqHead.Store(r.head)
		if r.ready = r.cqTail.Load(); r.head == r.ready {
			return Completion{}, false
		}
	}
	e := &r.cqes[place(r.head, uint32(len(r.cqes)))]
	r.head++
	if c = (Completion{Data: e.userData, Result: e.res, More: e.flags&cqeMore != 0}); !c.More {
		r.inFlight--
	}
	return c, true
}

// Submit starts the operations made since the last Submit and lets the kernel do its
// work. It does not block.
func (r *Ring) Submit() error { return r.enter(0, 0) }

// Wait is Submit, and then blocks until there is a completion or the timeout has passed.
func (r *Ring) Wait(timeout time.Duration) error { return r.enter(1, timeout) }

func (r *Ring) enter(wait uint32, timeout time.Duration) error {
	r.cqHead.Store(r.head)
	r.sqTail.Store(r.tail) // pairs with the kernel's load in io_uring_enter
	for {
		r.enters++
		n, errno := r.call(r.tail-r.submitted, wait, timeout)
		r.submitted += uint32(n)
		switch {
		case errno == unix.ETIME || errno == unix.EINTR && wait > 0:
			return nil
		case errno == unix.EINTR:
		case errno == unix.EAGAIN || errno == unix.EBUSY:
			// No memory or too many completions: the caller takes some and tries again.
			return nil
		case errno != 0:
			return fmt.Errorf("io_uring_enter: %w", errno)
		case r.submitted != r.tail && n > 0:
		default:
			return nil
		}
	}
}

// Send sends b; the completion has the number of bytes sent. It returns false if the submission
// queue is full. b must not change before the completion.
func (r *Ring) Send(file int, b []byte, data uint64) bool {
	s := r.next(opSend, file, data)
	if s == nil {
		return false
	}
	s.addr, s.len, s.opFlags = address(b), uint32(len(b)), unix.MSG_NOSIGNAL
	return true
}

// Receive begins to receive into a stream. Each completion has the number of bytes that arrived
// since the last one. A completion without More ends the operation, as do 0 bytes (the peer has
// closed), ENOBUFS (the kernel has filled all its buffers) and other errors. Receive returns false
// if the submission queue is full.
func (r *Ring) Receive(file int, s *Stream, data uint64) bool {
	e := r.next(opRecv, file, data)
	if e == nil {
		return false
	}
	e.flags |= sqeBufferSelect
	e.ioprio, e.bufGroup = recvMultishot, s.group
	return true
}

var errFilled = errors.New("the kernel reports more bytes than it was given room for")
