package tcpx

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// The errors of a comm that a caller tells apart.
var (
	// errNoFreeRequest: all 16 requests are in use. Nothing was posted.
	errNoFreeRequest = errors.New("no free request: 16 are posted; test and consume the oldest")
	// errNotOldest: requests are tested and consumed in the order of posting.
	errNotOldest = errors.New("not the oldest request")
	// errAlreadyConsumed: the request is over.
	errAlreadyConsumed = errors.New("already consumed")
	// errNotArrived: a receive is consumed after test has said that it is done.
	errNotArrived = errors.New("not done yet")
	// errUnpacking: the bytes are on their way out of bounce memory. Try again.
	errUnpacking = errors.New("being unpacked: the bounce pages are in use")
	// errTagMismatch: the two sides posted different tags. The comm is over.
	errTagMismatch = errors.New("tag mismatch")
	// errTruncated: more was sent than the receive has room for. The comm is over.
	errTruncated = errors.New("truncated: the receive is smaller than what is sent")
	// errRequestSize: a request is over 4 MiB, or over what the comm was made for.
	errRequestSize = errors.New("request too large")
	// errMisaligned: registered memory must start at a page.
	errMisaligned = errors.New("memory is not aligned to 4 KiB")
	// errProtocol: the peer sent what no honest one sends. The comm is over.
	errProtocol = fmt.Errorf("tcpx: %w", transport.ErrCorrupt)
	// errInDmabuf: bytes that are not for mode devmem's intake went where it takes them.
	errInDmabuf = transport.Unavailable("mode devmem: bytes that are not a data socket's went into the dmabuf: the NIC's rules must steer the port of the option data-port to the queue, as dst-port and as src-port, and nothing else")
	// errFarewell: the peer has closed the connection.
	errFarewell = errors.New("the peer has closed")
)

// state is where a request is.
type state uint8

const (
	free         state = iota
	posted             // waits for the other side
	active             // both sides know of it
	transmitting       // bytes are on their way
	inactive           // all bytes went or came: a send waits to be acknowledged, a receive to be unpacked
)

// vector is the memory of a send: one stretch, or two in a row.
type vector [2][]byte

func (v *vector) size() int { return len(v[0]) + len(v[1]) }

// sendRequest is one slot of the ring of sends.
type sendRequest struct {
	state    state
	lanes    uint16 // set of data sockets that have a part of it
	tag      uint64
	source   vector
	size     int
	at       uint64 // position of the source, for its owner
	assigned int    // bytes that tasks were made of
	written  int
	marks    [maxSockets]laneMark
	posted   int64
}

// laneMark is how far a data socket has to be acknowledged for a request to be.
type laneMark struct {
	position uint64
	notices  uint32
}

// receiveRequest is one slot of the ring of receives.
type receiveRequest struct {
	state     state
	unpacked  bool
	tag       uint64
	to        buffer
	total     int // as the sender announced it
	announced int // bytes of the chunks that were
	arrived   int
	reserved  int // pages
	slot      int // of the unpacker; -1 for none

	// The same fragments twice: as the intake and as the unpacker have them.
	fragments   []fragment
	descriptors []descriptor

	posted, complete, copied int64
}

// sendTask is a chunk that a data socket is to send.
type sendTask struct {
	request            *sendRequest
	offset, size, done int
}

// receiveTask is a chunk that comes over a data socket.
type receiveTask struct {
	number             uint64 // of the receive
	offset, size, done int
	last               int // index of its last fragment; -1 for none
}

// lane is a data socket, as its comm sees it.
type lane struct {
	wire
	served *served // what is shared with the helper that serves it; nil for none

	tasks    [laneTasks]sendTask
	first    int // of tasks
	count    int
	queued   int    // bytes of the tasks that are to be sent
	position uint64 // bytes sent since the beginning

	expected ring[receiveTask]
	handed   uint   // of expected, those that the helper has
	arrived  uint64 // bytes that came since the beginning; counted with a helper only
}

// comm is one connection. comm_datapath.go, send_datapath.go, receive_datapath.go and
// control_datapath.go have what moves bytes.
type comm struct {
	settings *settings
	zeroCopy bool
	window   uint64 // most receives that the peer has posted and not consumed
	intake   intake
	unpacks  *unpacking
	counts   *counts
	err      error // why it is over

	control control
	lanes   []lane
	next    int // lane that round robin takes
	caller  caller
	helpers []*helper // nil where the comm's thread serves the sockets
	polls   uint
	moved   int // bytes in this progress

	// Requests are numbered as they are posted, and number n is in slot n of the
	// ring. These count them in the order of their states.
	sends       [requests]sendRequest
	sendPosted  uint64
	sendActive  uint64
	sendCut     uint64 // all of their chunks are assigned
	sendFreed   uint64
	creditCount uint64
	credits     [requests]credit

	receives         [requests]receiveRequest
	receivePosted    uint64
	receiveBegun     uint64 // of which a chunk was announced
	receiveAnnounced uint64 // of which all chunks were
	receiveReserved  uint64 // that have their pages
	receiveComplete  uint64 // all of whose bytes are in bounce memory
	receiveLaunched  uint64
	receiveUnpacked  uint64
	receiveDone      uint64 // that test has said are done
	receiveConsumed  uint64
	holding          int // pages

	heads    *heads       // nil but where messages go to device memory
	inbox    ring[record] // messages announced, for the worker
	messages uint64

	stall stalls
}

// credit is a receive of the peer's.
type credit struct {
	tag  uint64
	size int
}

// unpacking is the unpacker of a worker, with the slots that are free.
type unpacking struct {
	unpacker
	idle []int
}

// newUnpacking makes the bounce memory and the unpacker of a worker.
func newUnpacking(s *settings) (in intake, u *unpacking, err error) {
	if s.mode.newIntake != nil {
		in, err = s.mode.newIntake(s)
	} else {
		in, err = newPool(s.request, s.peers)
	}
	if err != nil {
		return nil, nil, err
	}
	u = &unpacking{}
	if u.unpacker, err = s.mode.newUnpacker(s); err != nil {
		return nil, nil, errors.Join(err, in.close())
	}
	if err := u.register(in.memory()); err != nil {
		return nil, nil, errors.Join(err, u.close(), in.close())
	}
	for slot := range unpackSlots {
		u.idle = append(u.idle, slot)
	}
	return in, u, nil
}

// newComm makes a comm without sockets. messages is how many messages of the peer's
// may be announced and not delivered.
func newComm(s *settings, in intake, u *unpacking, messages int, counts *counts) *comm {
	c := &comm{settings: s, window: requests, intake: in, unpacks: u, counts: counts,
		control: newControl(messages), lanes: make([]lane, s.sockets), inbox: newRingOf[record](messages)}
	c.caller.calls = &counts.calls
	fragments := maxFragments
	if s.mode.newIntake == nil {
		fragments = s.request / pageSize
	}
	for i := range c.receives {
		c.receives[i].fragments = make([]fragment, 0, fragments)
		c.receives[i].descriptors = make([]descriptor, 0, fragments)
	}
	for i := range c.lanes {
		c.lanes[i] = lane{wire: wire{fd: -1}, expected: newRingOf[receiveTask](requests * s.request / s.chunk)}
	}
	return c
}

// attach gives the comm its connected sockets, which it owns from now on, also with an
// error. What was posted before goes out with the next progress.
//
// A peer that lives and does not poll lets data sockets run full, and the kernel counts
// the time until there is room again as one without an acknowledgement
// (tcp_probe_timer of net/ipv4/tcp_timer.c). So the control socket alone, which has room,
// tells of a host that has vanished.
func (c *comm) attach(control int, data []int) (err error) {
	for i, fd := range data {
		c.lanes[i].fd = fd
		err = errors.Join(err, os.NewSyscallError("TCP_USER_TIMEOUT", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 0)))
	}
	c.control.fd = control
	return err
}

// useZeroCopy has large requests sent with MSG_ZEROCOPY.
func (c *comm) useZeroCopy() error {
	for i := range c.lanes {
		if err := unix.SetsockoptInt(c.lanes[i].fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1); err != nil {
			return fmt.Errorf("SO_ZEROCOPY: %w", err)
		}
		c.lanes[i].zeroCopy = true
	}
	c.zeroCopy = true
	return nil
}

// shut closes the sockets, after a farewell if all is well. What is being unpacked is
// given back by settle, which also closes what helpers are about to let go of.
func (c *comm) shut() error {
	c.leave()
	if !c.stopHelpers(false) {
		for i := range c.lanes {
			_ = unix.Shutdown(c.lanes[i].fd, unix.SHUT_RDWR) // ENOTCONN: the peer was first
		}
		return c.closeSocket(&c.control.fd)
	}
	return errors.Join(c.closeSocket(&c.control.fd), c.closeLanes())
}

func (c *comm) closeLanes() error {
	var errs []error
	for i := range c.lanes {
		l := &c.lanes[i]
		if f, follows := c.intake.(forgetter); follows && l.fd >= 0 {
			f.forget(l.fd)
		}
		errs = append(errs, c.closeSocket(&l.fd))
	}
	return errors.Join(errs...)
}

// closeSocket closes what is open, and marks it.
func (c *comm) closeSocket(fd *int) error {
	if *fd < 0 {
		return nil
	}
	c.counts.retransmits += retransmits(*fd)
	err := unix.Close(*fd)
	*fd = -1
	return err
}

// leave says farewell, as far as there is room for it, and ends the comm.
func (c *comm) leave() {
	if c.err != nil {
		return
	}
	c.err = errFarewell
	if c.control.fd < 0 {
		return
	}
	c.control.put(record{kind: recordFarewell})
	_, _ = c.control.flush()
}

// settle gives bounce pages and slots of the unpacker back. It waits for what is being
// unpacked and for helpers, if wait is set, and otherwise says whether nothing is left.
func (c *comm) settle(wait bool) bool {
	if !c.stopHelpers(wait) {
		return false
	}
	_ = c.closeLanes() // helpers had them when the others were closed
	for c.receiveConsumed < c.receivePosted {
		r := &c.receives[c.receiveConsumed%requests]
		for r.slot >= 0 {
			done, err := c.unpacks.done(r.slot)
			switch {
			case done || err != nil:
				c.unpacks.idle = append(c.unpacks.idle, r.slot)
				r.slot = -1
			case !wait:
				return false
			default:
				time.Sleep(50 * time.Microsecond)
			}
		}
		c.recycle(r)
		c.receiveConsumed++
	}
	return true
}

// retransmits is how many segments the sockets had to send again.
func (c *comm) retransmits() (n uint64) {
	n = retransmits(c.control.fd)
	for i := range c.lanes {
		n += retransmits(c.lanes[i].fd)
	}
	return n
}

func retransmits(fd int) uint64 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil { // also of a socket that is closed
		return 0
	}
	return uint64(info.Total_retrans)
}
