package tcpx

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/queue"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

var (
	// errNoFreeRequest: all 16 requests are in use. Nothing was posted.
	errNoFreeRequest = errors.New("no free request: all 16 are in use")
	// errRequestSize: a request is larger than the connection was made for.
	errRequestSize = errors.New("request too large")
	// errTagMismatch: the two sides posted different tags. The connection is over.
	errTagMismatch = errors.New("tag mismatch")
	// errTruncated: the receive is smaller than the send. The connection is over.
	errTruncated = errors.New("truncated: the receive is smaller than the send")
	// errProtocol: the peer violated the protocol. The connection is over.
	errProtocol = fmt.Errorf("tcpx: %w", transport.ErrCorrupt)
	// errFarewell: the peer, or this side, closed the connection.
	errFarewell = errors.New("the connection was closed")
)

// conn is one connection: a control socket, some data sockets (lanes), and a window of
// requests in each direction.
//
// Requests of one direction are numbered from 0 in the order of posting. Number n is in
// slot n%16 of its ring. The cursors below count requests that have passed a step; the
// steps of a request happen in this order, so the cursors of a ring never overtake each
// other and differ by 16 at most.
//
//	sends     freed <= cut <= posted
//	  posted  the stream has handed it over; it waits for the peer's credit
//	  cut     all of it is assigned to lanes as chunks
//	  freed   acknowledged: its memory may change
//
//	receives  consumed <= launched <= reserved <= begun <= posted
//	  posted    announced to the peer, which is the peer's credit
//	  begun     the peer has announced its first chunk
//	  reserved  its bounce pages are set aside; bytes may be received
//	  launched  all bytes have arrived and unpacking has begun
//	  consumed  unpacked; its pages are given back
//
// A receive in [launched, begun) is in flight, one in [consumed, launched) is pending.
//
// Bytes leave in pumpOut and arrive in pumpIn, and nowhere else. The thread that owns
// the worker calls both. An error ends the connection and stays in err.
type conn struct {
	settings   *settings
	peer       transport.PeerID
	zeroCopy   bool
	peerWindow uint64 // receives that the peer posts ahead
	memory     bounce.Allocator
	unpacker   *bounce.Slots
	counters   *counters
	err        error // why the connection is over

	control  controlSocket
	lanes    []lane
	nextLane int // the lane that round robin takes
	syscalls sock.Syscalls
	helpers  []*helper // nil if the polling thread serves the lanes
	polls    uint
	sentNow  int // bytes sent in this pumpOut

	sends      [requests]sendRequest
	sendPosted uint64
	sendCut    uint64
	sendFreed  uint64
	credits    [requests]credit // of send n in slot n
	credited   uint64           // sends that have their credit

	// borrowed is memory of the caller of Post that holds the stream from position
	// borrowedAt on; nil outside of Post. The requests' own memory holds what is before.
	borrowed   []byte
	borrowedAt uint64

	receives        [requests]receiveRequest
	receivePosted   uint64
	receiveBegun    uint64
	receiveReserved uint64
	receiveLaunched uint64
	receiveConsumed uint64
	holding         int // bounce pages

	headers   *headerCache        // nil unless messages go to device memory
	inlined   messageSlots        // messages that came on the control socket
	inline    int                 // bytes of the largest message that may leave on it
	announced queue.Queue[record] // messages announced and not delivered
	messages  uint64              // announced by the peer

	stall stallTimer
}

// sendRequest is one slot of the ring of sends.
type sendRequest struct {
	tag      uint64
	source   []byte
	size     int
	at       uint64 // position of the source in the stream
	assigned int    // bytes that are assigned to lanes
	written  int    // bytes that sockets have taken
	lanes    uint16 // set of lanes that have a part of it
	marks    [maxSockets]laneMark

	posted, cutAt, writtenAt int64 // the latter two only if they are traced, otherwise 0
}

// laneMark is how far a lane must be acknowledged for a request to be.
type laneMark struct {
	position uint64
	notices  uint32
}

// credit is a receive that the peer has posted.
type credit struct {
	tag  uint64
	size int
}

// receiveRequest is one slot of the ring of receives.
type receiveRequest struct {
	tag       uint64
	to        bounce.Buffer
	total     int // as the sender announced it
	announced int // bytes in announced chunks
	arrived   int
	reserved  int // bounce pages
	slot      int // of the unpacker; -1 if none is in use

	fragments []bounce.Fragment

	posted, arrivedAt, launchedAt, unpackedAt int64
}

// sendTask is a chunk that a lane is to send.
type sendTask struct {
	request            *sendRequest
	offset, size, done int
}

// receiveTask is a chunk that the peer has announced on a lane.
type receiveTask struct {
	number             uint64 // of the receive
	offset, size, done int
	last               int // index of its last fragment; -1 for none
}

// lane is a data socket with the chunks that it is to send and to receive.
type lane struct {
	sock.Data
	handoff *handoff // shared with the helper that serves the lane; nil without one

	tasks     [laneTasks]sendTask // a ring
	firstTask int
	taskCount int
	queued    int    // bytes of the tasks that are to be sent
	position  uint64 // bytes sent since the beginning

	expected queue.Queue[receiveTask]
	handed   uint64 // chunks of expected that the helper has
	arrived  uint64 // bytes received since the beginning; counted with a helper only
}

// newConn makes a connection without sockets. messages is how many messages of the peer
// may be announced and not delivered.
func newConn(s *settings, memory bounce.Allocator, unpacker *bounce.Slots, messages int,
	counts *counters) *conn {
	c := &conn{settings: s, peerWindow: requests, memory: memory, unpacker: unpacker,
		counters: counts,
		control:  newControlSocket(messages, s.inline, s.sendControl),
		lanes:    make([]lane, s.sockets), announced: queue.New[record](messages)}
	c.inlined = newMessageSlots(s.inline, &c.announced)
	c.syscalls.Counts = &counts.calls
	fragments := bounce.MaxFragments
	if s.mode.newAllocator == nil {
		fragments = s.request / pageSize
	}
	for i := range c.receives {
		c.receives[i].fragments = make([]bounce.Fragment, 0, fragments)
	}
	for i := range c.lanes {
		c.lanes[i] = lane{Data: sock.Data{FD: -1},
			expected: queue.New[receiveTask](requests * s.request / s.chunk)}
	}
	return c
}

// attach gives the connection its sockets, which it owns from now on, even if attach
// fails. What was posted before goes out with the next pumpOut.
//
// Data sockets have no TCP_USER_TIMEOUT. A peer that lives and does not poll lets them
// run full, and the kernel counts that time as unacknowledged (tcp_probe_timer in
// net/ipv4/tcp_timer.c). The control socket, which has room, detects a vanished host.
func (c *conn) attach(control int, data []int) (err error) {
	for i, fd := range data {
		c.lanes[i].FD = fd
		err = errors.Join(err, os.NewSyscallError("TCP_USER_TIMEOUT",
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 0)))
	}
	c.control.fd = control
	return err
}

// useZeroCopy makes the lanes send large parts with MSG_ZEROCOPY.
func (c *conn) useZeroCopy() error {
	for i := range c.lanes {
		if err := unix.SetsockoptInt(c.lanes[i].FD, unix.SOL_SOCKET, unix.SO_ZEROCOPY,
			1); err != nil {
			return fmt.Errorf("SO_ZEROCOPY: %w", err)
		}
		c.lanes[i].ZeroCopy = true
	}
	c.zeroCopy = true
	return nil
}

// close closes the sockets, with a farewell unless the connection has failed. What is
// being unpacked, and lanes that helpers still use, are left to release.
func (c *conn) close() error {
	c.leave()
	if !c.stopHelpers(false) {
		for i := range c.lanes {
			_ = unix.Shutdown(c.lanes[i].FD, unix.SHUT_RDWR) // ENOTCONN: the peer was first
		}
		return c.closeSocket(&c.control.fd)
	}
	return errors.Join(c.closeSocket(&c.control.fd), c.closeLanes())
}

func (c *conn) closeLanes() error {
	var errs []error
	for i := range c.lanes {
		l := &c.lanes[i]
		if f, remembers := c.memory.(bounce.Forgetter); remembers && l.FD >= 0 {
			f.Forget(l.FD)
		}
		errs = append(errs, c.closeSocket(&l.FD))
	}
	return errors.Join(errs...)
}

// closeSocket closes a socket if it is open, and sets it to -1.
func (c *conn) closeSocket(fd *int) error {
	if *fd < 0 {
		return nil
	}
	c.counters.retransmits += sock.Retransmits(*fd)
	err := unix.Close(*fd)
	*fd = -1
	return err
}

// leave ends the connection and sends a farewell, if there is room for it.
func (c *conn) leave() {
	if c.err != nil {
		return
	}
	c.err = errFarewell
	if c.control.fd >= 0 {
		c.control.put(record{kind: recordFarewell})
		c.control.flush()
	}
}

// release releases what close has left: helpers, bounce pages and slots of the unpacker.
// It returns true when nothing is left; with wait it waits for that.
func (c *conn) release(wait bool) bool {
	if !c.stopHelpers(wait) {
		return false
	}
	_ = c.closeLanes() // an error was reported when the other sockets were closed
	for c.receiveConsumed < c.receivePosted {
		r := &c.receives[c.receiveConsumed%requests]
		if r.slot >= 0 {
			if !c.unpacker.Abandon(r.slot, wait) {
				return false
			}
			r.slot = -1
		}
		c.recycle(r)
		c.receiveConsumed++
	}
	return true
}

// retransmits returns how many segments TCP sent again on the open sockets.
func (c *conn) retransmits() (n uint64) {
	n = sock.Retransmits(c.control.fd)
	for i := range c.lanes {
		n += sock.Retransmits(c.lanes[i].FD)
	}
	return n
}

// fail ends the connection if err is not nil, and returns it.
func (c *conn) fail(err error) error {
	if err != nil {
		c.err = err
	}
	return err
}

func newControlSocket(messages, inline int,
	send func(fd int, b []byte) (int, error)) controlSocket {
	return controlSocket{fd: -1, send: send, in: make([]byte, 512*recordSize+messages*inline),
		out: make([]byte, 2*messages*(recordSize+inline)+2*roomForChunks)}
}
