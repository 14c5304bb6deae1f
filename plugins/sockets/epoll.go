package sockets

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
)

// epollEngine sends and receives with a system call for each batch. epoll_datapath.go has what the measured
// loop calls.
type epollEngine struct {
	w       *worker
	fd      int
	conns   []*epollConn // attached
	byIndex []*epollConn // by conn.index
	blocked []*epollConn // their sockets have not taken all
	ready   []unix.EpollEvent

	readable []*epollConn // as epoll said last
	vectors  sock.Vectors
	_        padding
}

// epollConn is what the engine knows of a connection.
type epollConn struct {
	*conn
	blocked bool
	armed   bool  // epoll reports when the socket takes bytes again
	failed  error // of a send: what the peer sent before may still be received
	_       padding
}

func newEpoll(w *worker) (engine, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	peers := w.settings.peers
	return &epollEngine{w: w, fd: fd, conns: make([]*epollConn, 0, peers), byIndex: make([]*epollConn, peers),
		blocked: make([]*epollConn, 0, peers), ready: make([]unix.EpollEvent, peers),
		readable: make([]*epollConn, 0, peers)}, nil
}

// control adds a connection to epoll, or changes what epoll reports of it.
func (e *epollEngine) control(operation int, c *epollConn, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(c.index)}
	if err := unix.EpollCtl(e.fd, operation, c.fd, &event); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

func (e *epollEngine) attach(c *conn) error {
	added := &epollConn{conn: c}
	e.conns = append(e.conns, added)
	e.byIndex[c.index] = added
	return e.control(unix.EPOLL_CTL_ADD, added, unix.EPOLLIN)
}

func (e *epollEngine) detach(c *conn) error {
	gone := e.byIndex[c.index]
	is := func(other *epollConn) bool { return other == gone }
	e.conns = slices.DeleteFunc(e.conns, is)
	e.blocked = slices.DeleteFunc(e.blocked, is)
	e.byIndex[c.index] = nil
	return unix.Close(c.fd) // epoll forgets it
}

// prepareWait has epoll report when the sockets of blocked connections take bytes again.
func (e *epollEngine) prepareWait() (fd int, ready bool) {
	for _, c := range e.conns {
		if c.blocked == c.armed {
			continue
		}
		events := uint32(unix.EPOLLIN)
		if c.blocked {
			events |= unix.EPOLLOUT
		}
		e.w.counters.Syscalls++
		if e.control(unix.EPOLL_CTL_MOD, c, events) != nil {
			return e.fd, true
		}
		c.armed = c.blocked
	}
	return e.fd, false
}

func (e *epollEngine) close() error {
	if len(e.conns) > 0 {
		return errors.New("close: there are connections")
	}
	return unix.Close(e.fd)
}
