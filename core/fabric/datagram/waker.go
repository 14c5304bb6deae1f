package datagram

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// waker wakes a thread that waits for a socket: an eventfd.
type waker struct {
	mu   sync.Mutex // Wake is any thread's, and must not write to a descriptor that was closed
	file int        // 0 where there is none: it is nobody's standard input
}

func (w *waker) open() (err error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	w.file = fd
	return nil
}

func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	// It fails only where the counter is at its limit, and the waiter awake then.
	_, _ = unix.Write(w.file, one[:])
}

// wait waits until the socket can be read, or also written, for wake, or for timeout.
func (w *waker) wait(socket int, write bool, timeout time.Duration) error {
	fds := [2]unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}, {Fd: int32(w.file), Events: unix.POLLIN}}
	if write {
		fds[0].Events |= unix.POLLOUT
	}
	limit := unix.NsecToTimespec(max(timeout, 0).Nanoseconds())
	if _, err := unix.Ppoll(fds[:], &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("ppoll", err)
	}
	if fds[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(w.file, count[:])
	}
	return nil
}

func (w *waker) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == 0 {
		return nil
	}
	err := unix.Close(w.file)
	w.file = 0
	return err
}
