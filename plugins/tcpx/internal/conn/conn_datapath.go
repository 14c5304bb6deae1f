package conn

import (
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
)

// Send cuts the stream into requests as far as the send window allows, cuts those that have credit
// into chunks, sends what the sockets take of these, and flushes the control socket. If hold is
// set, records that need not go now stay in the control socket's buffer. With threads, helpers move
// the lanes' bytes, and Send and Receive only hand over and book. Interests, Leave and refuse flush
// the control socket, too.
func (c *Conn) Send(hold bool) error {
	if err := c.Out.cutRequests(); err != nil {
		return c.failWith(err)
	}
	return c.sendRequests(hold)
}

// sendRequests is Send for requests that are posted already.
func (c *Conn) sendRequests(hold bool) error {
	if c.Err != nil || c.control.fd < 0 {
		return c.Err
	}
	if err := c.Out.sendChunks(); err != nil {
		return c.failWith(err)
	}
	if !hold {
		c.control.flush()
	}
	return nil
}

// Receive reads records from the control socket and chunks from the lanes, and has complete
// requests unpacked. It also finds the errors of sockets.
func (c *Conn) Receive() error {
	if c.Err != nil || c.control.fd < 0 {
		return c.Err
	}
	err := c.readControl()
	if err == nil {
		err = c.In.receiveChunks()
	}
	return c.failWith(err)
}

// MayHoldCredits reports whether the records in the control socket's buffer can wait: they are few
// credits, and more requests are on their way in. One packet per credit would cost both sides
// several microseconds a chunk. Other records leave with a Flush or with their chunks.
func (c *Conn) MayHoldCredits() bool {
	held := c.control.pending() / recordSize
	return held < c.config.ReceiveWindow/4 && c.In.hasBegun() && !c.control.full
}

// peekEvery is how many polls pass between two looks at lanes that expect nothing.
const peekEvery = 256

// FinishPoll books where time went since the last poll. Every peekEvery polls it looks for lanes
// that were closed while nothing was expected of them.
func (c *Conn) FinishPoll() error {
	if c.polls++; c.polls%peekEvery == 0 {
		for i := range c.lanes {
			if l := &c.lanes[i]; l.expected.Empty() {
				c.counters.Calls[sock.Others]++
				if err := sock.Peek(l.FD); err != nil {
					return c.failWith(err)
				}
			}
		}
	}
	c.timer.book(c)
	return nil
}

// Idle reports whether nothing is under way and nothing waits to be sent, so that a poll finds
// nothing until the peer sends something. Sends that only wait to be acknowledged are freed when
// their memory is needed.
func (c *Conn) Idle() bool {
	return c.Err == nil && c.messages.announced.Empty() && !c.In.hasBegun() && c.Out.idle() &&
		c.control.pending() == 0 && c.In.requests.Len() >= c.config.ReceiveWindow
}

// HasWork reports whether a poll would make progress, or may because a request is being unpacked.
func (c *Conn) HasWork() bool {
	return c.Err != nil || c.driver.hasWork() || c.In.pending() > 0 || c.In.complete() ||
		c.Out.canSend() || c.canDeliver()
}

// Interests appends the sockets that the connection waits for. It also sends the credits that were
// held, and reads the kernel's zero-copy notices; otherwise sockets with notices would stay ready
// forever.
func (c *Conn) Interests(list []unix.PollFd) []unix.PollFd {
	c.control.flush()
	events := int16(unix.POLLIN)
	if c.control.pending() > 0 {
		events |= unix.POLLOUT
	}
	list = append(list, unix.PollFd{Fd: int32(c.control.fd), Events: events})
	for i := range c.lanes {
		l := &c.lanes[i]
		events := unix.POLLRDHUP | c.driver.awaited(l)
		list = append(list, unix.PollFd{Fd: int32(l.FD), Events: events})
	}
	return list
}
