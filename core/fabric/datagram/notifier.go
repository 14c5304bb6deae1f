package datagram

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// notifier is an eventfd that wakes a thread which waits for a socket.
type notifier struct {
	mu sync.Mutex // any thread may call wake, which must not write to a closed descriptor
	fd int        // 0 if closed or not open yet
}

func (n *notifier) open() (err error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	n.fd = fd
	return nil
}

func (n *notifier) wake() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fd == 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	// fails only if the counter is at its limit, and then wait returns
	_, _ = unix.Write(n.fd, one[:])
}

// wait blocks until the socket is readable, or writable if write is set, until wake is called or
// until timeout has passed.
func (n *notifier) wait(socket int, write bool, timeout time.Duration) error {
	fds := [2]unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN},
		{Fd: int32(n.fd), Events: unix.POLLIN}}
	if write {
		fds[0].Events |= unix.POLLOUT
	}
	limit := unix.NsecToTimespec(max(timeout, 0).Nanoseconds())
	if _, err := unix.Ppoll(fds[:], &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("ppoll", err)
	}
	if fds[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(n.fd, count[:])
	}
	return nil
}

func (n *notifier) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fd == 0 {
		return nil
	}
	err := unix.Close(n.fd)
	n.fd = 0
	return err
}
