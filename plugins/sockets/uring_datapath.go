package sockets

import (
	"cmp"
	"io"

	"golang.org/x/sys/unix"

	"transportbench/plugins/sockets/internal/uring"
)

// The data of an operation is the index of its connection, times two; one more for a send.
func receiveData(u *uringConn) uint64 { return uint64(u.index) << 1 }
func sendData(u *uringConn) uint64    { return uint64(u.index)<<1 | 1 }

// lend implements engine. The kernel may still read the memory of a send after lend returns, so the
// caller must copy the payload.
func (e *uringEngine) lend(*conn, []byte) int { return 0 }

// send implements engine.
func (e *uringEngine) send(c *conn) {
	u := &e.conns[c.index]
	u.flushed = c.out.posted
	if u.sending {
		e.reap() // the send in progress may have ended
	}
	e.continueSending(u)
}

// maxSend is the most bytes of one send: the kernel takes its length as 32 bits.
const maxSend = 1 << 30

// continueSending begins a send if there is something to send and none is in progress: two could
// mix their bytes.
func (e *uringEngine) continueSending(u *uringConn) {
	o := &u.out
	if u.sending || u.failed != nil || u.closing || o.sent >= u.flushed {
		return
	}
	e.makeRoom()
	unsent := min(int(u.flushed-o.sent), maxSend)
	u.sending = e.ring.Send(u.index, o.ring.at(o.sent, unsent), sendData(u))
	e.stalled = e.stalled || !u.sending
}

// receive begins to receive if there is room and no receive is in progress.
func (e *uringEngine) receive(u *uringConn) {
	if u.receiving || u.closing || u.err != nil || u.stream.Full() {
		return
	}
	e.makeRoom()
	u.receiving = e.ring.Receive(u.index, u.stream, receiveData(u))
	e.stalled = e.stalled || !u.receiving
}

// makeRoom submits operations if the queue for them is full. The kernel may refuse that for lack of
// memory, and until completions are taken.
func (e *uringEngine) makeRoom() {
	if e.ring.Full() {
		e.enter()
	}
}

// unstall begins the operations that found no room.
func (e *uringEngine) unstall() {
	e.stalled = false
	for i := range e.conns {
		if u := &e.conns[i]; u.conn != nil {
			e.continueSending(u)
			e.receive(u)
		}
	}
}

// submit implements engine. The kernel tries each send at once, so most have ended when it returns.
func (e *uringEngine) submit() {
	if e.ring.Pending() {
		e.enter()
		e.reap()
	}
}

// progress implements engine.
func (e *uringEngine) progress() {
	if e.ring.Pending() || e.ring.NeedsEnter() {
		e.enter()
	}
	e.reap()
	if e.stalled {
		e.unstall()
	}
	if e.ring.Pending() { // do not leave these operations to the next call
		e.enter()
		e.reap()
	}
	for _, c := range e.arrived {
		e.conns[c.index].inArrived = false
		e.w.found(c)
	}
	e.arrived = e.arrived[:0]
}

// release implements engine.
func (e *uringEngine) release(c *conn) {
	u := &e.conns[c.index]
	if u.conn == c && !u.closing {
		u.stream.Release(c.in.released)
		e.receive(u)
	}
}

// enter submits operations and lets the kernel complete others.
func (e *uringEngine) enter() {
	before := e.ring.Enters()
	err := e.ring.Submit()
	e.w.counters.Syscalls += e.ring.Enters() - before
	if err != nil && e.failure == nil {
		e.failure = err
		for i := range e.conns {
			if u := &e.conns[i]; u.conn != nil && !u.closing {
				e.end(u, err)
			}
		}
	}
}

// reap takes all completions.
func (e *uringEngine) reap() {
	for c, ok := e.ring.Next(); ok; c, ok = e.ring.Next() {
		u := &e.conns[c.Data>>1]
		if c.Data&1 != 0 {
			e.sent(u, &c)
		} else {
			e.received(u, &c)
		}
	}
}

// sent takes the completion of a send.
func (e *uringEngine) sent(u *uringConn, c *uring.Completion) {
	u.sending = false
	switch c.Errno() {
	case 0:
		u.out.sent += uint64(c.Result)
		e.w.counters.KernelBytes += uint64(c.Result)
		if u.out.sent < u.flushed {
			e.w.counters.blocked++
		}
	case unix.EAGAIN, unix.EINTR, unix.ECANCELED, unix.ENOBUFS, unix.ENOMEM: // again
	default:
		if u.failed == nil && !u.closing {
			u.failed = c.Errno()
			_ = unix.Shutdown(u.fd, unix.SHUT_RDWR) // receiving ends after the last byte
		}
		return
	}
	e.continueSending(u)
	if o := &u.out; !u.sending && o.sent == o.posted { // begin again in memory that the cache has
		o.sent, o.posted, u.flushed = 0, 0, 0
	}
}

// received takes a completion of a receive.
func (e *uringEngine) received(u *uringConn, c *uring.Completion) {
	if !c.More {
		u.receiving = false
	}
	if u.closing || u.err != nil {
		return
	}
	switch c.Errno() {
	case 0:
		if c.Result == 0 {
			e.end(u, cmp.Or(u.failed, io.EOF))
			return
		}
		if err := u.stream.Received(int(c.Result)); err != nil {
			e.end(u, err)
			return
		}
		u.in.received += uint64(c.Result)
		e.w.counters.KernelBytes += uint64(c.Result)
		e.report(u)
	case unix.ENOBUFS, unix.EAGAIN, unix.EINTR, unix.ENOMEM: // again
	case unix.ECANCELED: // again: the thread that began it has ended
	default:
		e.end(u, c.Errno())
		return
	}
	e.receive(u)
}

// end records that nothing more will be received.
func (e *uringEngine) end(u *uringConn, err error) {
	if u.err == nil {
		u.err = err
		e.report(u)
	}
}

// report lists a connection for worker.found.
func (e *uringEngine) report(u *uringConn) {
	if !u.inArrived {
		u.inArrived = true
		e.arrived = append(e.arrived, u.conn)
	}
}
