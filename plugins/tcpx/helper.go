package tcpx

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// helper is a thread of a comm that serves some of its data sockets: it makes their
// system calls, and nothing else. helper_datapath.go has what passes between the two.
//
// The comm hands over chunks, in memory that stays as it is until they are through: what
// to send, or the pages to receive into. The helper counts the bytes that went and came.
type helper struct {
	served []*served
	caller caller
	own    callCounts
	// published are own as the comm can read them, and taken what it has read.
	published [callKinds]atomic.Uint64
	taken     callCounts

	// bell is the helper as one that waits: what is handed over after its last look at
	// the sockets wakes it.
	bell   waker
	stop   atomic.Bool
	ended  chan struct{}
	poll   []unix.PollFd
	polled []*served // by the index in poll, without the bell
	comm   *waker    // the comm's thread; nil for one that never waits
}

// waker is a thread that waits. It says so before it looks for the last time: who has
// something for it after that look sees it, and wakes it.
type waker struct {
	fd      int // an eventfd
	waiting atomic.Bool
	count   [8]byte // read from it
}

// wake ends the thread's wait, or the next.
func (w *waker) wake() {
	_, _ = unix.Write(w.fd, one[:]) // EAGAIN: a wake-up is there already
}

// one is what a wake-up adds to an eventfd.
var one = [8]byte{1}

// drain takes in the wake-ups that have come.
func (w *waker) drain() {
	_, _ = unix.Read(w.fd, w.count[:]) // EAGAIN: they were for an earlier wait
}

// sendOrder is a chunk to send.
type sendOrder struct {
	source       vector
	offset, size int
}

// receiveOrder is a chunk to receive, and where to.
type receiveOrder struct {
	pages []fragment
	size  int
}

// served is what a comm and a helper share of a data socket. The comm writes an order, then
// counts it; the helper reads them in the other order. The comm writes an order's memory
// again only when the bytes of that order are counted.
type served struct {
	toSend    atomic.Uint64 // orders, by the comm
	toReceive atomic.Uint64
	_         [48]byte      // what the two write is not in one cache line
	sent      atomic.Uint64 // bytes, by the helper
	received  atomic.Uint64
	// The helper stores these before the bytes that they go with.
	full, starved  atomic.Bool
	sends, notices atomic.Uint32
	failed         atomic.Bool // failure is there, and nothing will follow
	failure        error
	_              [48]byte

	sendOrders    [laneTasks]sendOrder
	receiveOrders ring[receiveOrder]

	// The helper's own.
	wire    wire
	bounce  []byte
	send    place
	receive place
}

// place is how far a helper is: in which order, and how many bytes of it are through.
type place struct {
	order uint64
	done  int
}

// startHelpers has threads serve the data sockets of a comm, which are attached. With none
// the comm's thread does.
func (c *comm) startHelpers(w *waker) error {
	if c.settings.threads == 0 {
		return nil
	}
	var list []*helper
	for range c.settings.threads {
		bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			for _, h := range list {
				_ = unix.Close(h.bell.fd)
			}
			return fmt.Errorf("eventfd: %w", err)
		}
		h := &helper{ended: make(chan struct{}), comm: w}
		h.bell.fd = bell
		h.caller.calls = &h.own
		list = append(list, h)
	}
	for i := range c.lanes {
		l := &c.lanes[i]
		l.served = &served{wire: l.wire, bounce: c.intake.memory(), receiveOrders: newRingOf[receiveOrder](len(l.expected.list))}
		h := list[i%len(list)]
		h.served = append(h.served, l.served)
	}
	c.helpers = list
	for _, h := range list {
		h.poll, h.polled = make([]unix.PollFd, 0, len(h.served)+1), make([]*served, 0, len(h.served))
		go h.run()
	}
	return nil
}

// stopHelpers has the helpers end, and says whether they have: it waits for that, if wait
// is set. They end within a system call that does not block.
func (c *comm) stopHelpers(wait bool) bool {
	for _, h := range c.helpers {
		if !h.stop.Swap(true) {
			h.bell.wake()
		}
	}
	for len(c.helpers) > 0 {
		h := c.helpers[0]
		if wait {
			<-h.ended
		}
		select {
		case <-h.ended:
		default:
			return false
		}
		c.takeCalls(h)
		_ = unix.Close(h.bell.fd)
		c.helpers = c.helpers[1:]
	}
	return true
}

// run serves the sockets until it is told to stop. The thread ends with it.
func (h *helper) run() {
	runtime.LockOSThread()
	defer close(h.ended)
	for busy := clock(); !h.stop.Load(); {
		if h.serve() {
			busy = clock()
		} else if clock()-busy > helperSpin {
			h.sleep()
			busy = clock()
		}
	}
	h.publish()
}

// helperSpin is how long a helper looks in vain before it sleeps, in nanoseconds: about what
// a wake-up costs.
const helperSpin = 10_000

// sleep waits for a socket that something is to be done with, or for the bell.
func (h *helper) sleep() {
	h.bell.waiting.Store(true) // pairs with the load in rouse
	defer h.bell.waiting.Store(false)
	if h.serve() || h.stop.Load() {
		return
	}
	h.poll, h.polled = append(h.poll[:0], unix.PollFd{Fd: int32(h.bell.fd), Events: unix.POLLIN}), h.polled[:0]
	for _, s := range h.served {
		if events := s.awaited(); events != 0 {
			h.poll, h.polled = append(h.poll, unix.PollFd{Fd: int32(s.wire.fd), Events: events}), append(h.polled, s)
		}
	}
	if _, err := unix.Ppoll(h.poll, nil, nil); err != nil {
		return // EINTR
	}
	if h.poll[0].Revents != 0 {
		h.bell.drain()
	}
}

// awaited is what there is to wait for on a socket. One with nothing to do is left to the
// comm, which looks whether it was closed.
func (s *served) awaited() (events int16) {
	if s.failed.Load() {
		return 0
	}
	if s.send.order < s.toSend.Load() {
		events |= unix.POLLOUT
	}
	if s.receive.order < s.toReceive.Load() {
		events |= unix.POLLIN
	}
	if s.wire.notices != s.wire.sends {
		events |= unix.POLLERR
	}
	return events
}
