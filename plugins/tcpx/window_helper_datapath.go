package tcpx

import (
	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/sock"
	"transportbench/plugins/tcpx/internal/bounce"
)

// The helper's side.

// serve makes a call on each lane that has an order, and reports whether bytes moved or a
// lane failed.
func (h *helper) serve() (moved bool) {
	for _, s := range h.lanes {
		if s.failed.Load() {
			continue
		}
		sent, err := h.send(s)
		received := false
		if err == nil {
			received, err = h.receive(s)
		}
		if err != nil {
			s.failure = err
			s.failed.Store(true) // pairs with the load in helperFailure
		}
		moved = moved || sent || received || err != nil
	}
	if moved {
		h.counts[sock.Others] += h.owner.Notify()
		h.publish()
	}
	return moved
}

// publish lets the polling thread see the counts.
func (h *helper) publish() {
	for i := range h.counts {
		h.published[i].Store(h.counts[i])
	}
}

// send sends what the socket takes of the oldest order.
func (h *helper) send(s *handoff) (bool, error) {
	d := &s.data
	if d.Notices != d.Sends {
		before := d.Notices
		if h.syscalls.ReadNotices(d); d.Notices != before {
			s.notices.Store(d.Notices)
			h.counts[sock.Others] += h.owner.Notify()
		}
	}
	if s.sending.order == s.toSend.Load() { // pairs with the store in handSend
		return false, nil
	}
	order := s.sendOrders[s.sending.order%laneTasks]
	n, err := h.syscalls.Send(d, order[s.sending.done:], nil)
	s.full.Store(d.Full)
	s.noMemory.Store(d.NoMemory)
	s.sends.Store(d.Sends)
	s.notices.Store(d.Notices)
	if n == 0 {
		return false, err
	}
	s.sending.advance(n, len(order))
	s.sent.Store(s.sent.Load() + uint64(n)) // pairs with the load in mirror
	return true, nil
}

// receive receives what has come for the oldest order.
func (h *helper) receive(s *handoff) (bool, error) {
	if s.receiving.order == s.toReceive.Load() { // pairs with the store in handReceives
		return false, nil
	}
	o := s.receiveOrders.At(s.receiving.order)
	v := &h.syscalls.Vectors
	v.Reset()
	for at := s.receiving.done; at < o.size && !v.Full(); {
		f := &o.pages[at/pageSize]
		from := f.Source + uint32(at%pageSize)
		end := f.Source + f.Length
		v.Add(s.memory[from:end])
		at += int(end - from)
	}
	begin := clock.Now()
	n, err := v.Receive(s.data.FD)
	h.syscalls.CountReceive(begin)
	if n == 0 {
		return false, err
	}
	s.receiving.advance(n, o.size)
	s.received.Store(s.received.Load() + uint64(n)) // pairs with the load in takeReceived
	return true, nil
}

// advance moves the cursor n bytes forward in an order of size bytes.
func (p *orderCursor) advance(n, size int) {
	if p.done += n; p.done == size {
		p.order++
		p.done = 0
	}
}

// The polling thread's side.

// handSend hands a chunk to the helper of a lane. It returns the number of system calls.
func (l *lane) handSend(h *helper, chunk []byte) (calls uint64) {
	s := l.handoff
	order := s.toSend.Load()
	s.sendOrders[order%laneTasks] = chunk
	s.toSend.Store(order + 1) // pairs with the load in send
	return h.notifier.Notify()
}

// mirror copies the state of a lane's socket from its helper and returns how many bytes
// were sent since the last time.
func (l *lane) mirror() (sent int) {
	s := l.handoff
	sent = int(s.sent.Load() - l.position) // pairs with the store in send
	l.Full, l.NoMemory = s.full.Load(), s.noMemory.Load()
	l.Sends, l.Notices = s.sends.Load(), s.notices.Load()
	return sent
}

// takeSent books what helpers have sent and reports whether any bytes went.
func (c *conn) takeSent() (any bool) {
	for i := range c.lanes {
		if n := c.lanes[i].mirror(); n > 0 {
			c.bookSent(i, &c.lanes[i], n)
			any = true
		}
	}
	return any
}

// helperFailure returns the error that a helper found on a lane.
func (c *conn) helperFailure() error {
	for i := range c.lanes {
		if s := c.lanes[i].handoff; s != nil && s.failed.Load() { // pairs with the store in serve
			return s.failure
		}
	}
	return nil
}

// handReceives hands chunks of receives whose pages are reserved to helpers.
func (c *conn) handReceives() {
	preallocator, ok := c.memory.(bounce.Preallocator)
	for i := range c.lanes {
		l := &c.lanes[i]
		for ok && l.handed != l.expected.Last() {
			t := l.expected.At(l.handed)
			if t.number >= c.receiveReserved {
				break
			}
			r := &c.receives[t.number%requests]
			have := len(r.fragments)
			r.fragments = preallocator.Preallocate(t.size, r.fragments)
			pages := r.fragments[have:]
			for k := range pages {
				pages[k].Destination = uint32(t.offset + k*pageSize)
			}
			*l.handoff.receiveOrders.Push() = receiveOrder{pages: pages, size: t.size}
			// pairs with the load in receive
			l.handoff.toReceive.Store(l.handoff.receiveOrders.Last())
			l.handed++
			c.counters.calls[sock.Others] += c.helpers[i%len(c.helpers)].notifier.Notify()
		}
	}
}

// takeReceived books what helpers have received.
func (c *conn) takeReceived() {
	for i := range c.lanes {
		l := &c.lanes[i]
		n := int(l.handoff.received.Load() - l.arrived) // pairs with the store in receive
		l.arrived += uint64(n)
		for n > 0 {
			t := l.expected.Head()
			part := min(n, t.size-t.done)
			n -= part
			c.bookReceived(l, part)
		}
	}
}

// helped reports whether helpers have done something that is not booked yet.
func (c *conn) helped() bool {
	if len(c.helpers) == 0 {
		return false
	}
	for i := range c.lanes {
		l := &c.lanes[i]
		s := l.handoff
		if s.sent.Load() != l.position || s.received.Load() != l.arrived || s.failed.Load() ||
			c.sendFreed < c.sendPosted && s.notices.Load() != l.Notices {
			return true
		}
	}
	return false
}

// takeCounts adds what a helper has counted since the last time.
func (c *conn) takeCounts(h *helper) {
	for i := range h.published {
		n := h.published[i].Load()
		c.counters.calls[i] += n - h.taken[i]
		h.taken[i] = n
	}
}
