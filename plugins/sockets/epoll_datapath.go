package sockets

import (
	"io"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
)

func (e *epollEngine) lend(c *conn, payload []byte) int {
	to := e.byIndex[c.index]
	if to.blocked || to.failed != nil {
		return 0
	}
	unsent := int(c.out.posted - c.out.sent)
	e.vectors.Reset()
	e.vectors.Add(c.out.ring.at(c.out.sent, unsent)) // at least the header of the message
	e.vectors.Add(payload[:min(len(payload), sock.MaxCall)])
	n, err := e.vectors.Send(c.fd)
	e.count(n)
	if to.sent(err); n <= unsent {
		c.out.sent += uint64(n)
		return 0
	}
	n -= unsent
	c.out.posted += uint64(n)
	c.out.sent = c.out.posted
	e.w.counters.direct += uint64(n)
	return n
}

// send makes the usual system call in its own body: see progress.
func (e *epollEngine) send(c *conn) {
	to, o := e.byIndex[c.index], &c.out
	if to.blocked || to.failed != nil || o.sent == o.posted {
		return
	}
	unsent := min(int(o.posted-o.sent), sock.MaxCall)
	n, err := sock.SendBytes(c.fd, o.ring.at(o.sent, unsent))
	e.w.counters.Syscalls++
	e.w.counters.KernelBytes += uint64(n)
	if o.sent += uint64(n); o.sent == o.posted {
		o.sent, o.posted = 0, 0 // begin again in memory that the cache has
		return
	}
	if to.sent(err); to.failed == nil && (n < unsent || !e.push(to)) {
		to.blocked = true
		e.w.counters.blocked++
		e.blocked = append(e.blocked, to)
	}
}

// push sends what was posted and reports whether the socket took all of it, or takes no more.
func (e *epollEngine) push(c *epollConn) (done bool) {
	o := &c.out
	for o.sent < o.posted && c.failed == nil {
		unsent := min(int(o.posted-o.sent), sock.MaxCall)
		n, err := sock.SendBytes(c.fd, o.ring.at(o.sent, unsent))
		e.count(n)
		c.sent(err)
		if o.sent += uint64(n); n < unsent && c.failed == nil {
			return false
		}
	}
	if o.sent == o.posted { // begin again in memory that the cache has
		o.sent, o.posted = 0, 0
	}
	return true
}

// sent handles the error of a send. A lasting error shuts the connection down, which makes the
// socket readable: progress then receives earlier bytes and the end.
func (c *epollConn) sent(err error) {
	if err == nil || err == unix.ENOBUFS || err == unix.ENOMEM { // no memory now: no room
		return
	}
	c.failed = err
	_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // fails if the connection has ended
}

// count counts a system call and the bytes that it moved.
func (e *epollEngine) count(bytes int) {
	e.w.counters.Syscalls++
	e.w.counters.KernelBytes += uint64(bytes)
}

func (e *epollEngine) submit() {}

// progress receives in its own body: after a system call, each return costs a processor that guards
// against speculation in the kernel about 20 ns.
func (e *epollEngine) progress() {
	conns := e.conns
	if e.asks {
		conns = e.askEpoll()
	}
	for _, c := range conns {
		in := &c.in
		room := in.room()
		if room == 0 || c.err != nil {
			continue
		}
		n, err := sock.ReceiveBytes(c.fd, in.ring.at(in.received, min(room, sock.MaxCall)))
		e.w.counters.Syscalls++
		if n == 0 && err == nil && c.failed == nil {
			continue
		}
		e.w.counters.KernelBytes += uint64(n)
		in.received += uint64(n)
		switch {
		case n == 0 && c.failed != nil: // after a failed send it receives until the end
			c.err = c.failed
		case err == sock.ErrClosed:
			c.err = io.EOF
		default:
			c.err = err
		}
		e.w.found(c.conn)
	}
	if len(e.blocked) > 0 {
		e.pushBlocked()
	}
}

// askEpoll returns the connections that are readable.
func (e *epollEngine) askEpoll() []*epollConn {
	e.w.counters.Syscalls++
	readable := e.readable[:0]
	for i := range sock.Ready(e.fd, e.ready) {
		if c := e.byIndex[e.ready[i].Fd]; c != nil {
			readable = append(readable, c)
		}
	}
	e.readable = readable
	return readable
}

// pushBlocked sends more to the sockets that had no room.
func (e *epollEngine) pushBlocked() {
	left := e.blocked[:0]
	for _, c := range e.blocked {
		if c.blocked = !e.push(c); c.blocked {
			left = append(left, c)
		}
	}
	e.blocked = left
}

func (e *epollEngine) release(c *conn) {
	if in := &c.in; in.released == in.received { // begin again in memory that the cache has
		in.released, in.read, in.received = 0, 0, 0
	}
}
