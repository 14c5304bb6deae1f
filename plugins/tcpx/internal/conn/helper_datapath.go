package conn

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
			s.failed.Store(true) // pairs with the load in helpers.receive
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
	if s.sending.order == s.toSend.Load() { // pairs with the store in helpers.send
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
	s.sent.Store(s.sent.Load() + uint64(n)) // pairs with the load in helpers.send
	return true, nil
}

// receive receives what has come for the oldest order.
func (h *helper) receive(s *handoff) (bool, error) {
	if s.receiving.order == s.toReceive.Load() { // pairs with the store in helpers.receive
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
	s.received.Store(s.received.Load() + uint64(n)) // pairs with the load in helpers.receive
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

// send implements [driver].
func (d *helpers) send() (bytes int, _ error) {
	out := &d.conn.Out
	for i := range d.lanes {
		l, s := &d.conn.lanes[i], d.lanes[i]
		for n := s.toSend.Load(); n != l.tasks.Last(); n++ {
			t := l.tasks.At(n)
			s.sendOrders[n%laneTasks], _ = out.sourceOf(t.request, t.end-uint64(t.left), t.end)
			s.toSend.Store(n + 1) // pairs with the load in helper.send
			d.conn.counters.Calls[sock.Others] += s.helper.notifier.Notify()
		}
		n := int(s.sent.Load() - l.sent) // pairs with the store in helper.send
		l.Full, l.NoMemory = s.full.Load(), s.noMemory.Load()
		l.Sends, l.Notices = s.sends.Load(), s.notices.Load()
		out.bookSent(l, n)
		bytes += n
	}
	return bytes, nil
}

// receive implements [driver]. It hands over the chunks of receives that have pages.
func (d *helpers) receive() error {
	in := &d.conn.In
	for i := range d.lanes {
		l, s := &d.conn.lanes[i], d.lanes[i]
		for s.receiveOrders.Last() != l.expected.Last() {
			t := l.expected.At(s.receiveOrders.Last())
			if t.number >= in.reserved {
				break
			}
			r := in.requests.At(t.number)
			have := len(r.fragments)
			r.fragments = in.memory.(bounce.PageTaker).TakePages(t.left, r.fragments)
			pages := r.fragments[have:]
			for k := range pages {
				pages[k].Destination = uint32(t.end - t.left + k*pageSize)
			}
			*s.receiveOrders.Push() = receiveOrder{pages: pages, size: t.left}
			s.toReceive.Store(s.receiveOrders.Last()) // pairs with the load in helper.receive
			d.conn.counters.Calls[sock.Others] += s.helper.notifier.Notify()
		}
		n := int(s.received.Load() - l.received) // pairs with the store in helper.receive
		for n > 0 {
			part := min(n, l.expected.Head().left)
			n -= part
			in.bookReceived(l, part)
		}
		if s.failed.Load() { // pairs with the store in serve
			return s.failure
		}
	}
	return nil
}

// readNotices implements [driver].
func (d *helpers) readNotices(l *lane) { l.Notices = d.lanes[l.index].notices.Load() }

// hasWork implements [driver]. Something that is not booked counts, and so do pages that a receive
// waits for: another connection may have given some back.
func (d *helpers) hasWork() bool {
	for i := range d.lanes {
		l, s := &d.conn.lanes[i], d.lanes[i]
		if s.sent.Load() != l.sent || s.received.Load() != l.received || s.failed.Load() ||
			!d.conn.Out.requests.Empty() && s.notices.Load() != l.Notices {
			return true
		}
	}
	return d.conn.In.waitsForPages()
}

// lends implements [driver]. Helpers read the payload later.
func (*helpers) lends() bool { return false }

// awaited implements [driver]. Helpers wait for the lane's bytes, and wake this thread.
func (*helpers) awaited(*lane) int16 { return 0 }

// moving implements [driver]. Helpers are at work then.
func (*helpers) moving() (sending, receiving stallReason) { return reasonSending, reasonReceiving }

// count implements [driver].
func (d *helpers) count() (threads int) {
	for _, h := range d.list {
		d.countOne(h)
	}
	return len(d.list)
}

// countOne adds what a helper has counted since the last time.
func (d *helpers) countOne(h *helper) {
	for i := range h.published {
		n := h.published[i].Load()
		d.conn.counters.Calls[i] += n - h.taken[i]
		h.taken[i] = n
	}
}
