package shm

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Watcher reports when processes end, for whatever reason. One goroutine sleeps in
// epoll_wait(2) on their pidfds, or on sockets that they hold. The methods are safe for concurrent
// use.
type Watcher struct {
	epoll, wake int // descriptors
	done        chan struct{}

	mu     sync.Mutex
	died   map[int]func() // by descriptor
	closed bool
}

// NewWatcher returns a Watcher and starts its goroutine, which Close ends.
func NewWatcher() (*Watcher, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watching peers: epoll_create1: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watching peers: eventfd: %w", err), unix.Close(epoll))
	}
	w := &Watcher{epoll: epoll, wake: wake, done: make(chan struct{}), died: map[int]func(){}}
	if err := w.listen(wake); err != nil {
		return nil, errors.Join(err, unix.Close(wake), unix.Close(epoll))
	}
	go w.run()
	return w, nil
}

func (w *Watcher) listen(fd int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(fd)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("watching peers: epoll_ctl: %w", err)
	}
	return nil
}

func (w *Watcher) run() {
	defer close(w.done)
	events := make([]unix.EpollEvent, 16)
	for {
		n, err := unix.EpollWait(w.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == w.wake {
				return
			}
			w.mu.Lock()
			died := w.died[int(e.Fd)]
			w.mu.Unlock()
			if died != nil {
				died()
			}
		}
	}
}

// Add makes the watcher call died once, on its own goroutine, when the process ends. The
// handle is for Remove and is never 0.
func (w *Watcher) Add(pid int, died func()) (handle int, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, fmt.Errorf("watching peer process %d: pidfd_open: %w", pid, err)
	}
	return w.AddSocket(fd, died)
}

// AddSocket is Add for the process at the other end of a socket that nothing is sent on: died is
// called when the socket becomes readable, which is when the other end is closed. The watcher owns
// the descriptor, and closes it if there is an error.
func (w *Watcher) AddSocket(fd int, died func()) (handle int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, errors.Join(errors.New("watching peers: the watcher is closed"), unix.Close(fd))
	}
	w.died[fd] = died
	if err := w.listen(fd); err != nil {
		delete(w.died, fd)
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// Remove ends a watch; handle 0 is ignored.
func (w *Watcher) Remove(handle int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.died[handle]; known {
		delete(w.died, handle)
		unix.Close(handle)
	}
}

// Close ends all watches and the goroutine. It is idempotent.
func (w *Watcher) Close() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.closed = true
	w.mu.Unlock()
	_, _ = unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	for fd := range w.died {
		unix.Close(fd)
	}
	clear(w.died)
	unix.Close(w.wake)
	unix.Close(w.epoll)
}
