package sockets

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/pow2"
	"transportbench/plugins/sockets/internal/uring"
)

// uringEngine moves bytes with io_uring. The kernel receives into a connection's ring by itself as
// long as it has room there (multishot receive), and sends straight from the other ring.
// uring_datapath.go has what the measured loop calls.
type uringEngine struct {
	w     *worker
	ring  *uring.Ring
	conns []uringConn // by conn.index
	// arrived are the connections to report with the next progress. Other methods take completions,
	// too, but may not call worker.found.
	arrived []*conn
	stalled bool      // an operation found no room in the queue of submissions
	failure error     // of the ring
	_       [128]byte // keeps what another thread writes off these cache lines
}

// uringConn is what the engine keeps for a connection.
type uringConn struct {
	*conn
	stream    *uring.Stream
	flushed   uint64 // out.posted at the last send
	sending   bool   // from out.sent on
	failed    error  // of a send: what the peer sent before may still be received
	receiving bool
	closing   bool
	inArrived bool
}

const (
	// minCompletions is room for what several connections receive in one go.
	minCompletions = 256
	// detachTimeout is how long detach waits until operations that it has cancelled end.
	detachTimeout = 5 * time.Second
)

func newUring(w *worker) (engine, error) {
	peers := w.settings.peers
	// A connection has at most a send and a receive to submit, and a full queue is submitted early.
	// What is more than the queue of completions waits in the kernel.
	ring, err := uring.New(uring.Config{Submissions: pow2.Ceil(2 * min(peers, 256)),
		Completions: pow2.Ceil(max(minCompletions, 4*peers)), Files: peers})
	if err != nil {
		return nil, err
	}
	return &uringEngine{w: w, ring: ring, conns: make([]uringConn, peers),
		arrived: make([]*conn, 0, peers)}, nil
}

// attach implements engine.
func (e *uringEngine) attach(c *conn) error {
	if c.index >= len(e.conns) {
		return fmt.Errorf("connection %d of at most %d", c.index+1, len(e.conns))
	}
	if e.failure != nil {
		return e.failure
	}
	if err := e.ring.SetFile(c.index, c.fd); err != nil {
		return err
	}
	stream, err := e.ring.NewStream(uint16(c.index), c.in.ring.at(0, c.in.ring.size()))
	if err != nil {
		return errors.Join(err, e.ring.SetFile(c.index, -1))
	}
	e.conns[c.index] = uringConn{conn: c, stream: stream}
	e.receive(&e.conns[c.index])
	e.enter()
	return nil
}

// prepareWait implements engine.
func (e *uringEngine) prepareWait(list []unix.PollFd) (_ []unix.PollFd, ready bool) {
	if e.ring.Pending() || e.ring.NeedsEnter() {
		e.enter()
	}
	list = append(list, unix.PollFd{Fd: int32(e.ring.FD()), Events: unix.POLLIN})
	return list, e.ring.Ready() || e.ring.Pending() || e.stalled || len(e.arrived) > 0
}

// detach implements engine. The kernel uses the rings until its operations have completed. If they
// do not complete in time, the rings stay mapped for good.
func (e *uringEngine) detach(c *conn) (err error) {
	if c.index < len(e.conns) && e.conns[c.index].conn == c {
		err = e.stop(&e.conns[c.index])
	}
	// The shutdown tells the peer at once: kernels before 6.13 keep a registered file open until
	// operations on other files have ended.
	_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // fails if the peer has closed first
	return errors.Join(err, unix.Close(c.fd))
}

// stop cancels the operations of a connection and waits for their completions.
func (e *uringEngine) stop(u *uringConn) error {
	u.closing = true
	deadline := time.Now().Add(detachTimeout)
	for e.enter(); u.sending || u.receiving; {
		err := e.ring.Cancel(u.index)
		if e.reap(); !u.sending && !u.receiving {
			break
		}
		if err == nil {
			err = e.ring.Wait(time.Millisecond)
			e.reap()
		}
		if err == nil && time.Now().After(deadline) {
			err = errors.New("operations of io_uring do not end")
		}
		if err != nil {
			var none ring
			u.in.ring, u.out.ring = none, none
			return err
		}
	}
	return errors.Join(u.stream.Close(), e.ring.SetFile(u.index, -1))
}

// close implements engine.
func (e *uringEngine) close() error { return e.ring.Close() }
