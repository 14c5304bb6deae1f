package tcpx

import (
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/sock"
)

// pumpOut is the only function through which bytes leave: it assigns requests that have
// credit to lanes as chunks, sends what the sockets take, and flushes the control socket.
// If hold is set, records that need not go now stay in the control socket's buffer.
func (c *conn) pumpOut(hold bool) error {
	if c.err != nil || c.control.fd < 0 {
		return c.err
	}
	if err := c.sendChunks(); err != nil {
		return c.fail(err)
	}
	if !hold {
		c.control.flush()
	}
	return nil
}

// pumpIn is the only function through which bytes arrive: it reads records from the
// control socket and chunks from the lanes, and has complete requests unpacked. It also
// finds the errors of sockets.
func (c *conn) pumpIn() error {
	if c.err != nil || c.control.fd < 0 {
		return c.err
	}
	err := c.readControl()
	if err == nil {
		err = c.receiveChunks()
	}
	if err == nil {
		err = c.helperFailure()
	}
	return c.fail(err)
}

// mayHoldCredits reports whether the records in the control socket's buffer can wait:
// they are few credits, and more requests are on their way in. One packet per credit
// would cost both sides several microseconds a chunk. Other records leave with a Flush or
// with their chunks.
func (c *conn) mayHoldCredits() bool {
	held := c.control.pending() / recordSize
	return held < c.settings.receiveWindow/4 && c.receiveBegun != c.receiveConsumed &&
		!c.control.full
}

// inspectEvery is how many polls pass between two looks at lanes that expect nothing.
const inspectEvery = 256

// finishPoll books where time went since the last poll, and now and then looks for lanes
// that were closed while nothing was expected of them.
func (c *conn) finishPoll() error {
	if c.polls++; c.polls%inspectEvery == 0 {
		for i := range c.lanes {
			if l := &c.lanes[i]; l.expected.Empty() {
				c.counters.calls[sock.Others]++
				if err := sock.Peek(l.FD); err != nil {
					return c.fail(err)
				}
			}
		}
	}
	c.stall.book(c)
	return nil
}

// idle reports whether nothing is under way and nothing waits to be sent, so a poll finds nothing
// until the peer sends something. Sends that only wait to be acknowledged are freed when their
// memory is needed.
func (c *conn) idle() bool {
	return c.err == nil && c.announced.Empty() && c.receiveBegun == c.receiveConsumed &&
		c.sendCut == c.sendPosted &&
		c.idleLanes() && c.control.pending() == 0 &&
		c.receivePosted-c.receiveConsumed >= uint64(c.settings.receiveWindow)
}

// idleLanes reports whether no lane has anything to send.
func (c *conn) idleLanes() bool {
	for i := range c.lanes {
		if c.lanes[i].taskCount > 0 {
			return false
		}
	}
	return true
}

// hasWork reports whether a poll would make progress, or may because a request is being
// unpacked or waits for bounce pages. Pages matter with helpers only: another connection
// may have given some back, and without helpers the socket is ready anyway.
func (c *conn) hasWork() bool {
	return c.err != nil || c.helped() || c.receiveConsumed < c.receiveLaunched || c.launchable() ||
		len(c.helpers) > 0 && c.receiveReserved < c.receiveBegun
}

// launchable reports whether the next request to be unpacked is complete.
func (c *conn) launchable() bool {
	r := &c.receives[c.receiveLaunched%requests]
	return c.receiveLaunched < c.receiveReserved && r.arrived == r.total
}

// interests appends the sockets that the connection waits for.
func (c *conn) interests(list []unix.PollFd) []unix.PollFd {
	c.control.flush()
	events := int16(unix.POLLIN)
	if c.control.pending() > 0 {
		events |= unix.POLLOUT
	}
	list = append(list, unix.PollFd{Fd: int32(c.control.fd), Events: events})
	for i := range c.lanes {
		l := &c.lanes[i]
		events := int16(unix.POLLRDHUP)
		if len(c.helpers) == 0 { // helpers wait for the rest, and wake this thread
			if l.Notices != l.Sends {
				c.readNotices(l)
			}
			if !l.expected.Empty() {
				events |= unix.POLLIN
			}
			if l.taskCount > 0 {
				events |= unix.POLLOUT
			}
		}
		list = append(list, unix.PollFd{Fd: int32(l.FD), Events: events})
	}
	return list
}
