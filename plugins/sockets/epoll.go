package sockets

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
)

// directPeers is the most connections that are read without asking epoll which of them are
// readable.
const directPeers = 2

// epollEngine sends and receives with a system call for each batch. epoll_datapath.go has what the
// measured loop calls.
type epollEngine struct {
	w  *worker
	fd int
	// asks is set with the first connection beyond directPeers. Until then epoll watches no socket,
	// because each message would notify epoll, which costs the sender time.
	asks    bool
	conns   []*epollConn // attached
	byIndex []*epollConn // by conn.index
	blocked []*epollConn // with bytes for which the socket had no room
	ready   []unix.EpollEvent

	readable []*epollConn // by the last epoll_wait
	vectors  sock.Vectors
	_        padding
}

// epollConn is what the engine knows of a connection.
type epollConn struct {
	*conn
	blocked bool
	watched bool  // by epoll
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
	return &epollEngine{w: w, fd: fd, conns: make([]*epollConn, 0, peers),
		byIndex: make([]*epollConn, peers),
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
	if !e.asks && len(e.conns) <= directPeers {
		return nil
	}
	for _, c := range e.conns {
		if c.watched {
			continue
		}
		if err := e.control(unix.EPOLL_CTL_ADD, c, unix.EPOLLIN); err != nil {
			return err
		}
		c.watched = true
	}
	e.asks = true
	return nil
}

func (e *epollEngine) detach(c *conn) error {
	gone := e.byIndex[c.index]
	is := func(other *epollConn) bool { return other == gone }
	e.conns = slices.DeleteFunc(e.conns, is)
	e.blocked = slices.DeleteFunc(e.blocked, is)
	e.byIndex[c.index] = nil
	return unix.Close(c.fd) // epoll forgets it
}

// prepareWait lists the sockets, or has epoll report when those of blocked connections take bytes
// again.
func (e *epollEngine) prepareWait(list []unix.PollFd) (_ []unix.PollFd, ready bool) {
	if !e.asks {
		for _, c := range e.conns {
			list = append(list, unix.PollFd{Fd: int32(c.fd), Events: int16(c.interests())})
		}
		return list, false
	}
	for _, c := range e.conns {
		if c.blocked == c.armed {
			continue
		}
		e.w.counters.Syscalls++
		if e.control(unix.EPOLL_CTL_MOD, c, c.interests()) != nil {
			return list, true
		}
		c.armed = c.blocked
	}
	return append(list, unix.PollFd{Fd: int32(e.fd), Events: unix.POLLIN}), false
}

// interests returns the events that a sleeping thread waits for, which have the same values in poll
// and epoll.
func (c *epollConn) interests() uint32 {
	if c.blocked {
		return unix.EPOLLIN | unix.EPOLLOUT
	}
	return unix.EPOLLIN
}

func (e *epollEngine) close() error {
	if len(e.conns) > 0 {
		return errors.New("close: there are connections")
	}
	return unix.Close(e.fd)
}
