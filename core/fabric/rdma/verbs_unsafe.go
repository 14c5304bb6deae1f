//go:build ibverbs

package rdma

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/rdma/internal/ibverbs"
)

// The shim reads and writes these types, so the sizes must agree.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(SendRequest{})-ibverbs.SendSize]
	_ = [1]struct{}{}[unsafe.Sizeof(ReceiveRequest{})-ibverbs.ReceiveSize]
	_ = [1]struct{}{}[unsafe.Sizeof(Completion{})-ibverbs.CompletionSize]
)

// Poll implements [CompletionQueue].
func (c *verbsCompletionQueue) Poll(completions []Completion) (int, error) {
	if c.closed {
		return 0, ErrClosed
	}
	if len(completions) == 0 {
		return 0, nil
	}
	if len(c.pending) > 0 {
		n := copy(completions, c.pending)
		c.pending = c.pending[n:]
		return n, nil
	}
	n := c.cq.Poll(unsafe.Pointer(unsafe.SliceData(completions)), len(completions))
	if n < 0 {
		return 0, errPoll
	}
	return n, nil
}

// PostReceive implements [SharedReceiveQueue].
func (s *verbsReceiveQueue) PostReceive(requests []ReceiveRequest) (int, error) {
	if s.closed {
		return 0, ErrClosed
	}
	if len(requests) == 0 {
		return 0, nil
	}
	n, code := s.srq.PostReceive(unsafe.Pointer(unsafe.SliceData(requests)), len(requests))
	return n, postError(code)
}

// PostReceive implements [QueuePair].
func (q *verbsQueuePair) PostReceive(requests []ReceiveRequest) (int, error) {
	switch {
	case q.closed:
		return 0, ErrClosed
	case q.shared:
		return 0, ErrSharedReceives
	case len(requests) == 0:
		return 0, nil
	}
	n, code := q.pair.PostReceive(unsafe.Pointer(unsafe.SliceData(requests)), len(requests))
	return n, postError(code)
}

// PostSend implements [QueuePair].
func (q *verbsQueuePair) PostSend(requests []SendRequest) (int, error) {
	switch {
	case q.closed:
		return 0, ErrClosed
	case !q.ready:
		return 0, ErrNotConnected
	case len(requests) == 0:
		return 0, nil
	}
	n, code := q.pair.PostSend(unsafe.Pointer(unsafe.SliceData(requests)), len(requests))
	return n, postError(code)
}

var (
	errPoll = errors.New("ibv_poll_cq failed")
	errPost = errors.New("ibv_post_send or ibv_post_recv failed")
)

// postError returns the error for a code of the shim. It does not allocate.
func postError(code int) error {
	switch code {
	case 0:
		return nil
	case int(unix.ENOMEM), int(unix.ENOSPC), int(unix.EAGAIN):
		return ErrQueueFull
	case ibverbs.BadInline:
		return ErrInlineLength
	case ibverbs.BadOpcode:
		return ErrOpcode
	case ibverbs.BadPeer:
		return ErrNoPeer
	case ibverbs.BadAtomic:
		return ErrAtomic
	case ibverbs.BadDatagram:
		return ErrDatagramLength
	default:
		return errPost
	}
}

// explainNoRegion returns the error of a failed Register. It names the limit on locked
// memory if that may be the cause.
func explainNoRegion(err error, size int) error {
	var limit unix.Rlimit
	if errors.Is(err, unix.ENOMEM) && unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil &&
		limit.Cur != unix.RLIM_INFINITY {
		return fmt.Errorf("register %d bytes of memory: %w: the limit on locked memory is %d "+
			"bytes, this needs %d; raise it with `ulimit -l unlimited` or LimitMEMLOCK=infinity",
			size, err, limit.Cur, size)
	}
	return fmt.Errorf("register %d bytes of memory: ibv_reg_mr: %w", size, err)
}
