package tcpx

import "golang.org/x/sys/unix"

// progress moves what can be moved, in both directions. An error ends the comm.
func (c *comm) progress() error {
	if c.err != nil || c.control.fd < 0 {
		return c.err
	}
	err := c.advance()
	if err != nil {
		c.err = err
	}
	return err
}

func (c *comm) advance() error {
	if err := c.readControl(); err != nil {
		return err
	}
	if err := c.progressReceives(); err != nil {
		return err
	}
	if err := c.progressSends(); err != nil {
		return err
	}
	if err := c.helperFailure(); err != nil {
		return err
	}
	if !c.mayHoldCredits() {
		if _, err := c.control.flush(); err != nil {
			return err
		}
	}
	if c.polls++; c.polls%inspectEvery == 0 {
		if err := c.inspect(); err != nil {
			return err
		}
	}
	c.stall.book(c)
	return nil
}

// mayHoldCredits says whether what waits in the control socket's buffer can wait on: few
// credits, while more is on its way in. A packet for each would cost both sides several
// microseconds a chunk. What else is in the buffer goes with a Flush or with its chunks.
func (c *comm) mayHoldCredits() bool {
	held := (c.control.tail - c.control.head) / recordSize
	return held < c.settings.receiveWindow/4 && c.receiveBegun != c.receiveConsumed && !c.control.full
}

// inspectEvery is how many progresses pass between two looks at data sockets that
// nothing is expected of.
const inspectEvery = 256

// inspect finds data sockets that were closed while nothing was expected of them.
func (c *comm) inspect() error {
	for i := range c.lanes {
		l := &c.lanes[i]
		if !l.expected.empty() {
			continue
		}
		if err := peek(l.fd); err != nil {
			return err
		}
	}
	return nil
}

// peek says whether a socket was closed by the peer.
func peek(fd int) error {
	var b [1]byte
	return peeked(receiveFlags(fd, b[:], unix.MSG_PEEK))
}

func peeked(_ int, err error) error {
	if err == errInDmabuf { // a data socket has something, though not for this call
		return nil
	}
	return err
}
