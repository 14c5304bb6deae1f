package tcpx

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

var _ transport.Waiter = (*worker)(nil)

// Wait implements [transport.Waiter].
func (w *worker) Wait(timeout time.Duration) error {
	if w.closed {
		return transport.NewOpError(name, "wait", transport.ErrClosed)
	}
	if len(w.gone) > 0 || len(w.failed) > 0 || len(w.broken) > 0 || len(w.settling) > 0 {
		return nil
	}
	w.waker.waiting.Store(true) // pairs with the load in rouse
	defer w.waker.waiting.Store(false)
	list := append(w.pollFD[:0], unix.PollFd{Fd: int32(w.waker.fd), Events: unix.POLLIN},
		unix.PollFd{Fd: int32(w.listener), Events: unix.POLLIN}, unix.PollFd{Fd: int32(w.dataDoor), Events: unix.POLLIN})
	for _, a := range w.arrivals {
		if a.have < helloSize {
			list = append(list, unix.PollFd{Fd: int32(a.fd), Events: unix.POLLIN})
		}
	}
	for _, p := range w.peers {
		if p == nil || p.state == lost {
			continue
		}
		var now bool
		if list, now = p.interests(list); now {
			w.pollFD = list
			return nil
		}
	}
	w.pollFD = list
	limit := unix.NsecToTimespec(int64(max(timeout, 0)))
	if _, err := unix.Ppoll(list, &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return transport.NewOpError(name, "wait", err)
	}
	if list[0].Revents != 0 {
		w.waker.drain()
	}
	if list[1].Revents|list[2].Revents != 0 {
		w.connect()
	}
	return nil
}

// interests appends what a peer waits for. now says that Poll has something already,
// or that it is the unpacker, which tells nobody, that is waited for. It sends the credits
// that were held, and takes in the kernel's notices of zero-copy: until then, sockets would
// be ready for ever.
func (p *peer) interests(list []unix.PollFd) (_ []unix.PollFd, now bool) {
	for _, d := range p.dialing {
		list = append(list, unix.PollFd{Fd: int32(d.fd), Events: unix.POLLOUT})
	}
	c := p.comm
	if p.state != up {
		return list, false
	}
	if c.err != nil || c.helped() || p.sendable() || c.unplaced() || c.receiveConsumed < c.receiveComplete || !c.inbox.empty() && p.gathered >= int(c.inbox.head().size) {
		return list, true
	}
	_, _ = c.control.flush() // the next Poll finds an error
	events := int16(unix.POLLIN)
	if c.control.head < c.control.tail {
		events |= unix.POLLOUT
	}
	list = append(list, unix.PollFd{Fd: int32(c.control.fd), Events: events})
	for i := range c.lanes {
		l := &c.lanes[i]
		events := int16(unix.POLLRDHUP)
		if len(c.helpers) == 0 { // who wait for the rest, and wake this thread
			if l.notices != l.sends {
				c.readNotices(l)
			}
			if !l.expected.empty() {
				events |= unix.POLLIN
			}
			if l.count > 0 {
				events |= unix.POLLOUT
			}
		}
		list = append(list, unix.PollFd{Fd: int32(l.fd), Events: events})
	}
	return list, false
}

// sendable says whether there is something to send and room for it. Post takes in what makes
// room, and may then leave it at that.
func (p *peer) sendable() bool {
	c := p.comm
	return p.cut < p.flushed && c.sendPosted-c.sendFreed < uint64(p.w.settings.sendWindow) ||
		c.sendCut < c.sendActive && c.choose() >= 0 && c.control.room() >= roomForCredits+recordSize
}

// unplaced says whether bytes may have come that a helper has no pages for. Another connection
// may have given some back since. Without helpers the socket says that there is something.
func (c *comm) unplaced() bool { return len(c.helpers) > 0 && c.receiveReserved < c.receiveBegun }

// Wake implements [transport.Waiter].
func (w *worker) Wake() {
	w.waker.wake()
}
