package uring

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// Ring is one io_uring: a queue of submissions, a queue of completions, and a table of registered
// files.
type Ring struct {
	fd     int
	memory []byte // both queues
	table  []byte // the entries of the submission queue

	// The kernel reads the tail of submissions in io_uring_enter only, and stores their head there.
	sqHead, sqTail *atomic.Uint32
	sqFlags        *atomic.Uint32 // set by the kernel on any thread
	sqes           []sqe
	tail           uint32 // of the submissions made
	submitted      uint32 // of those that the kernel has taken

	// The store to cqHead pairs with the kernel's load before it reuses an entry, and the load of
	// cqTail with the kernel's store after it has written one.
	cqHead *atomic.Uint32
	cqTail *atomic.Uint32
	cqes   []cqe
	head   uint32 // of the completions taken, stored to cqHead
	ready  uint32 // cqTail as it was last loaded

	inFlight int // operations without a last completion
	enters   uint64
	timeout  unix.Timespec
	file     int32
	argument getEventsArg
	_        [128]byte // keeps what another thread writes off these cache lines
}

// Config has the sizes of a ring.
type Config struct {
	Submissions int // entries of the queue of submissions; a full queue is submitted
	Completions int // entries of the queue of completions
	Files       int // registered files
}

// New makes a ring. The kernel does not interrupt its thread when something arrives (COOP_TASKRUN):
// it sets a flag, which NeedsEnter reads. On the virtual machine on which this was measured, the
// interrupt makes a round trip 2.5 to 4 times as long. New does not use DEFER_TASKRUN, although it
// made small messages over Unix sockets 8 to 15% faster: it requires SINGLE_ISSUER, and then Close
// fails unless the thread that began the operations calls it.
//
// If the kernel or a sandbox refuses io_uring, the error wraps [transport.ErrUnavailable] and names
// the remedy.
func New(c Config) (*Ring, error) {
	p := params{flags: setupCQSize | setupClamp | setupSubmitAll | setupNoSQArray |
		setupCoopTaskrun | setupTaskrunFlag,
		cqEntries: uint32(c.Completions)}
	fd, err := setup(uint32(c.Submissions), &p)
	if err != nil {
		return nil, refusal("io_uring_setup", err)
	}
	r := &Ring{fd: fd}
	if err := r.open(c, &p); err != nil {
		return nil, errors.Join(err, r.release())
	}
	return r, nil
}

// Check returns the error with which New fails on this machine, if it does.
func Check() error {
	r, err := New(Config{Submissions: 1, Completions: 2, Files: 1})
	if err != nil {
		return err
	}
	page, err := unix.Mmap(-1, 0, 16*chunks, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return errors.Join(fmt.Errorf("mmap: %w", err), r.Close())
	}
	defer func() { _ = unix.Munmap(page) }()
	s, err := r.NewStream(0, page)
	if err == nil {
		err = s.Close()
	}
	return errors.Join(err, r.Close())
}

// open maps the memory of the ring and registers its table of files.
func (r *Ring) open(c Config, p *params) error {
	const features = featSingleMmap | featNoDrop | featExtArg
	if p.features&features != features {
		return refusal("io_uring_setup", unix.EINVAL)
	}
	if err := r.probe(opNop, opAsyncCancel, opSend, opRecv); err != nil {
		return err
	}
	if err := r.mapMemory(p); err != nil {
		return err
	}
	if err := r.registerFiles(c.Files); err != nil {
		return refusal("io_uring_register files", err)
	}
	if _, errno := r.call(0, 0, 0); errno != 0 { // a sandbox may refuse this call only
		return refusal("io_uring_enter", errno)
	}
	return nil
}

// refusal explains why the kernel refused a call.
func refusal(call string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		if b, readErr := os.ReadFile("/proc/sys/kernel/io_uring_disabled"); readErr == nil &&
			strings.TrimSpace(string(b)) != "0" {
			return transport.Unavailable("%s: %w: kernel.io_uring_disabled is %s; set it to 0 "+
				"with sysctl, or use engine=epoll",
				call, err, strings.TrimSpace(string(b)))
		}
		return transport.Unavailable("%s: %w: a seccomp filter or security module forbids "+
			"io_uring, as container runtimes do by default; "+
			"allow io_uring_setup, io_uring_enter and io_uring_register, or use engine=epoll",
			call, err)
	case errors.Is(err, unix.EACCES):
		return transport.Unavailable("%s: %w: a seccomp filter or security module forbids "+
			"io_uring; allow it, or use engine=epoll", call, err)
	case errors.Is(err, unix.ENOSYS):
		return transport.Unavailable("%s: %w: the kernel or the sandbox has no io_uring; run on "+
			"Linux %s or later with CONFIG_IO_URING, or use engine=epoll",
			call, err, minimumKernel)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return transport.Unavailable("%s: %w: the kernel is too old; io_uring needs Linux %s or "+
			"later here, or use engine=epoll", call, err, minimumKernel)
	case errors.Is(err, unix.ENOMEM):
		return transport.Unavailable("%s: %w: the limit of locked memory is too small; raise it "+
			"with ulimit -l, or use engine=epoll", call, err)
	}
	return fmt.Errorf("%s: %w", call, err)
}

// minimumKernel is the first kernel with IOU_PBUF_RING_INC.
const minimumKernel = "6.12"

// FD returns the ring's descriptor, which is readable while there are completions.
func (r *Ring) FD() int { return r.fd }

// Enters returns the number of system calls since New.
func (r *Ring) Enters() uint64 { return r.enters }

// Cancel cancels the operations on a registered file. Their completions arrive shortly after.
func (r *Ring) Cancel(file int) error {
	if err := r.cancel(cancelFD|cancelFDFixed, file); err != nil {
		return fmt.Errorf("io_uring_register cancel: %w", err)
	}
	return nil
}

// closeTimeout is how long Close waits for operations to end after it has cancelled them.
const closeTimeout = 5 * time.Second

// Close cancels all operations, waits for their completions and releases the ring. Without an
// error, the kernel uses none of the memory that operations were given any more. If operations do
// not end, Close returns an error, and this memory must stay mapped.
func (r *Ring) Close() error {
	if r.fd < 0 {
		return nil
	}
	deadline := time.Now().Add(closeTimeout)
	for r.inFlight > 0 {
		if err := r.cancel(cancelAny, -1); err != nil {
			return errors.Join(fmt.Errorf("cancelling %d operations: %w", r.inFlight, err),
				r.release())
		}
		for _, ok := r.Next(); ok; _, ok = r.Next() {
		}
		if r.inFlight > 0 && time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%d operations did not end", r.inFlight), r.release())
		}
		if r.inFlight > 0 {
			if err := r.Wait(10 * time.Millisecond); err != nil {
				return errors.Join(err, r.release())
			}
		}
	}
	return r.release()
}

// release closes the descriptor and unmaps the queues.
func (r *Ring) release() (err error) {
	for _, b := range [][]byte{r.memory, r.table} {
		if b != nil {
			err = errors.Join(err, unix.Munmap(b))
		}
	}
	r.memory, r.table = nil, nil
	err = errors.Join(err, unix.Close(r.fd))
	r.fd = -1
	return err
}
