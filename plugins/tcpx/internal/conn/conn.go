package conn

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

// Conn is one connection: a [Sender], a [Receiver], the control socket and the lanes. The thread
// that owns the worker calls its methods. An error ends the connection and stays in Err.
type Conn struct {
	Out      Sender
	In       Receiver
	Err      error // why the connection is over
	config   *Config
	peer     transport.PeerID
	counters *Counters
	control  controlSocket
	messages messages
	lanes    []lane
	driver   driver
	zeroCopy bool
	timer    timer
	polls    uint
}

// New makes a connection without sockets. Its bounce memory and its unpacker belong to the worker,
// as do the counters.
func New(config *Config, peer transport.PeerID, memory bounce.Allocator, unpacker *bounce.Slots,
	counters *Counters) *Conn {
	c := &Conn{config: config, peer: peer, counters: counters, control: newControlSocket(config),
		messages: newMessages(config), lanes: make([]lane, config.Lanes)}
	c.Out = newSender(c)
	c.In = newReceiver(c, memory, unpacker)
	for i := range c.lanes {
		c.lanes[i] = lane{Data: sock.Data{FD: -1}, index: i, tasks: queue.New[sendTask](laneTasks),
			expected: queue.New[receiveTask](Requests * config.Request / config.Chunk)}
	}
	c.driver = &polling{conn: c, syscalls: sock.Syscalls{Counts: &counters.Calls}}
	return c
}

// Meet sets what the peer has announced: how many receives it posts ahead, and the largest message
// that it takes on the control socket.
func (c *Conn) Meet(receiveWindow, inline int) {
	c.Out.peerWindow = uint64(receiveWindow)
	c.messages.maxInline = max(0, min(inline, c.config.Inline))
}

// Attach gives the connection its sockets, which it owns from now on, even if Attach fails. What
// was posted before goes out with the next Send.
//
// Lanes have no TCP_USER_TIMEOUT. A peer that lives and does not poll lets them run full, and the
// kernel counts that time as unacknowledged (tcp_probe_timer in net/ipv4/tcp_timer.c). The control
// socket, which has room, detects a vanished host.
func (c *Conn) Attach(control int, data []int) (err error) {
	for i, fd := range data {
		c.lanes[i].FD = fd
		err = errors.Join(err, os.NewSyscallError("TCP_USER_TIMEOUT",
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 0)))
	}
	c.control.fd = control
	return err
}

// ControlFD returns the control socket, or -1 while there is none.
func (c *Conn) ControlFD() int { return c.control.fd }

// UseDmabufs lets the lanes send from dmabufs that are bound to an interface.
func (c *Conn) UseDmabufs(nic string) error {
	for i := range c.lanes {
		// The kernel refuses a send that another interface is to make.
		if err := unix.BindToDevice(c.lanes[i].FD, nic); err != nil {
			return fmt.Errorf("SO_BINDTODEVICE %s: %w", nic, err)
		}
	}
	return c.allowZeroCopy()
}

// UseZeroCopy makes the lanes send large parts with MSG_ZEROCOPY.
func (c *Conn) UseZeroCopy() error {
	for i := range c.lanes {
		c.lanes[i].ZeroCopy = true
	}
	return c.allowZeroCopy()
}

// allowZeroCopy allows MSG_ZEROCOPY on the lanes. A request is then freed only after the kernel's
// notice that it no longer reads the memory.
func (c *Conn) allowZeroCopy() error {
	for i := range c.lanes {
		if err := unix.SetsockoptInt(c.lanes[i].FD, unix.SOL_SOCKET, unix.SO_ZEROCOPY,
			1); err != nil {
			return fmt.Errorf("SO_ZEROCOPY: %w", err)
		}
	}
	c.zeroCopy = true
	return nil
}

// StartHelpers starts the threads that serve the lanes, if there are to be any. owner wakes the
// polling thread; nil if that never sleeps.
func (c *Conn) StartHelpers(owner *sock.Notifier) error {
	if c.config.Threads == 0 {
		return nil
	}
	h, err := startHelpers(c, owner)
	if err != nil {
		return err
	}
	c.driver = h
	return nil
}

// Close closes the sockets, with a farewell unless the connection has failed. What is being
// unpacked, and lanes that helpers still use, are left to Release.
func (c *Conn) Close() error {
	c.Leave()
	if !c.driver.stop(false) {
		for i := range c.lanes {
			_ = unix.Shutdown(c.lanes[i].FD, unix.SHUT_RDWR) // ENOTCONN: the peer was first
		}
		return c.closeSocket(&c.control.fd)
	}
	return errors.Join(c.closeSocket(&c.control.fd), c.closeLanes())
}

func (c *Conn) closeLanes() error {
	var errs []error
	for i := range c.lanes {
		l := &c.lanes[i]
		if f, remembers := c.In.memory.(bounce.Forgetter); remembers && l.FD >= 0 {
			f.Forget(l.FD)
		}
		errs = append(errs, c.closeSocket(&l.FD))
	}
	return errors.Join(errs...)
}

// closeSocket closes a socket if it is open, and sets it to -1.
func (c *Conn) closeSocket(fd *int) error {
	if *fd < 0 {
		return nil
	}
	c.counters.Retransmits += sock.Retransmits(*fd)
	err := unix.Close(*fd)
	*fd = -1
	return err
}

// Leave ends the connection and sends a farewell, if there is room for it.
func (c *Conn) Leave() {
	if c.Err != nil {
		return
	}
	c.Err = ErrFarewell
	if c.control.fd >= 0 {
		c.control.put(record{kind: recordFarewell})
		c.control.flush()
	}
}

// Release releases what Close has left: helpers, bounce pages and slots of the unpacker. It
// returns true when nothing is left; with wait it waits for that.
func (c *Conn) Release(wait bool) bool {
	if !c.driver.stop(wait) {
		return false
	}
	_ = c.closeLanes() // an error was reported when the other sockets were closed
	return c.In.abandon(wait)
}

// abandon gives everything back once nothing is being unpacked, and reports whether it has; with
// wait it waits for that.
func (r *Receiver) abandon(wait bool) bool {
	for !r.requests.Empty() {
		q := r.requests.Head()
		if q.slot >= 0 {
			if !r.unpacker.Abandon(q.slot, wait) {
				return false
			}
			q.slot = -1
		}
		r.recycle(q)
		r.requests.Pop()
	}
	r.launched, r.reserved, r.begun = r.Posted(), r.Posted(), r.Posted()
	return true
}

// Sockets returns the control socket and then the lanes' sockets; -1 for one that is not open.
func (c *Conn) Sockets() []int {
	list := []int{c.control.fd}
	for i := range c.lanes {
		list = append(list, c.lanes[i].FD)
	}
	return list
}

// retransmits returns how many segments TCP sent again on the open sockets.
func (c *Conn) retransmits() (n uint64) {
	for _, fd := range c.Sockets() {
		n += sock.Retransmits(fd)
	}
	return n
}

// failWith ends the connection if err is not nil, and returns it.
func (c *Conn) failWith(err error) error {
	c.Fail(err)
	return err
}

// Fail ends the connection for the first reason that is not nil.
func (c *Conn) Fail(err error) {
	if c.Err == nil {
		c.Err = err
	}
}
