package conn

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/queue"
	"transportbench/core/fabric/sock"
	"transportbench/plugins/tcpx/internal/bounce"
)

// helpers is the [driver] with threads of its own. Lane i belongs to helper i modulo their number.
//
// The polling thread hands over chunks: bytes to send, or pages to receive into. Their memory stays
// as it is until they are done. A helper only counts the bytes that it moved; so the two share
// counters and no lock.
type helpers struct {
	conn  *Conn
	list  []*helper // those that have not ended
	lanes []*handoff
}

// helper is a thread that makes the system calls of some lanes, and nothing else.
type helper struct {
	lanes    []*handoff
	syscalls sock.Syscalls
	counts   sock.Counts
	// published are counts as the polling thread can read them, and taken what it has read.
	published [sock.CountKinds]atomic.Uint64
	taken     sock.Counts

	notifier sock.Notifier // wakes the helper
	owner    *sock.Notifier
	ending   atomic.Bool
	ended    chan struct{}
	poll     []unix.PollFd
}

// handoff is what the polling thread and a helper share of a lane. The polling thread writes an
// order and then counts it; the helper reads the count and then the order. The polling thread
// reuses an order's memory only after the order's bytes are counted.
type handoff struct {
	toSend    atomic.Uint64 // orders, by the polling thread
	toReceive atomic.Uint64
	_         [48]byte      // what the two threads write lies in separate cache lines
	sent      atomic.Uint64 // bytes, by the helper
	received  atomic.Uint64
	// The helper stores these before the bytes that they belong to.
	full, noMemory atomic.Bool
	sends, notices atomic.Uint32
	failed         atomic.Bool // failure is set, and the helper has stopped
	failure        error
	_              [48]byte

	sendOrders    [laneTasks][]byte // a ring
	receiveOrders queue.Queue[receiveOrder]

	helper *helper
	// The rest belongs to the helper.
	data      sock.Data
	memory    []byte // bounce memory
	sending   orderCursor
	receiving orderCursor
}

// receiveOrder is a chunk to receive and the pages to receive it into.
type receiveOrder struct {
	pages []bounce.Fragment
	size  int
}

// orderCursor is how far a helper is: which order, and how many bytes of it are done.
type orderCursor struct {
	order uint64
	done  int
}

// startHelpers starts the threads that serve the lanes of a connection. owner wakes the polling
// thread; nil if that never sleeps.
func startHelpers(c *Conn, owner *sock.Notifier) (*helpers, error) {
	d := &helpers{conn: c, lanes: make([]*handoff, len(c.lanes))}
	for range c.config.Threads {
		h := &helper{ended: make(chan struct{}), owner: owner}
		if err := h.notifier.Open(); err != nil {
			for _, h := range d.list {
				_ = h.notifier.Close()
			}
			return nil, err
		}
		h.syscalls.Counts = &h.counts
		d.list = append(d.list, h)
	}
	for i := range c.lanes {
		l, h := &c.lanes[i], d.list[i%len(d.list)]
		d.lanes[i] = &handoff{helper: h, data: l.Data, memory: c.In.memory.Memory(),
			receiveOrders: queue.New[receiveOrder](l.expected.Cap())}
		h.lanes = append(h.lanes, d.lanes[i])
	}
	for _, h := range d.list {
		h.poll = make([]unix.PollFd, 0, len(h.lanes)+1)
		go h.run()
	}
	return d, nil
}

// stop implements [driver]. Helpers end within one system call that does not block.
func (d *helpers) stop(wait bool) bool {
	for _, h := range d.list {
		if !h.ending.Swap(true) {
			h.notifier.Wake()
		}
	}
	for len(d.list) > 0 {
		h := d.list[0]
		if wait {
			<-h.ended
		}
		select {
		case <-h.ended:
		default:
			return false
		}
		d.countOne(h)
		_ = h.notifier.Close()
		d.list = d.list[1:]
	}
	return true
}

// helperSpin is how long a helper looks for work before it sleeps, in nanoseconds: about what a
// wake-up costs.
const helperSpin = 10_000

// run serves the lanes until it is told to end. The thread ends with it.
func (h *helper) run() {
	runtime.LockOSThread()
	defer close(h.ended)
	for busy := clock.Now(); !h.ending.Load(); {
		if h.serve() {
			busy = clock.Now()
		} else if clock.Now()-busy > helperSpin {
			h.sleep()
			busy = clock.Now()
		}
	}
	h.publish()
}

// sleep waits until a socket is ready for an order, or the notifier wakes it.
func (h *helper) sleep() {
	h.notifier.Begin()
	defer h.notifier.End()
	if h.serve() || h.ending.Load() {
		return
	}
	h.poll = append(h.poll[:0], unix.PollFd{Fd: int32(h.notifier.FD), Events: unix.POLLIN})
	for _, s := range h.lanes {
		if events := s.awaited(); events != 0 {
			h.poll = append(h.poll, unix.PollFd{Fd: int32(s.data.FD), Events: events})
		}
	}
	h.counts[sock.Others]++
	if _, err := unix.Ppoll(h.poll, nil, nil); err != nil {
		return // EINTR
	}
	if h.poll[0].Revents != 0 {
		h.counts[sock.Others]++
		h.notifier.Drain()
	}
}

// awaited returns the events that a lane waits for. The polling thread finds out when a lane
// without orders is closed.
func (s *handoff) awaited() (events int16) {
	if s.failed.Load() {
		return 0
	}
	if s.sending.order < s.toSend.Load() {
		events |= unix.POLLOUT
	}
	if s.receiving.order < s.toReceive.Load() {
		events |= unix.POLLIN
	}
	if s.data.Notices != s.data.Sends {
		events |= unix.POLLERR
	}
	return events
}
