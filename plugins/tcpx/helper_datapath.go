package tcpx

// What a helper does.

// serve makes a call on each socket that has something to do, and says whether bytes went
// or came.
func (h *helper) serve() (moved bool) {
	for _, s := range h.served {
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
		h.publish()
		h.comm.rouse()
	}
	return moved
}

// publish lets the comm see what was counted.
func (h *helper) publish() {
	for i := range h.own {
		h.published[i].Store(h.own[i])
	}
}

// send sends of the oldest order what the socket takes.
func (h *helper) send(s *served) (bool, error) {
	w := &s.wire
	if w.notices != w.sends {
		before := w.notices
		if h.caller.readNotices(w); w.notices != before {
			s.notices.Store(w.notices)
			h.comm.rouse()
		}
	}
	if s.send.order == s.toSend.Load() { // pairs with the store in handSend
		return false, nil
	}
	o := &s.sendOrders[s.send.order%laneTasks]
	n, err := h.caller.send(w, &o.source, o.offset+s.send.done, o.size-s.send.done)
	s.full.Store(w.full)
	s.starved.Store(w.starved)
	s.sends.Store(w.sends)
	s.notices.Store(w.notices)
	if n == 0 {
		return false, err
	}
	s.send.step(n, o.size)
	s.sent.Store(s.sent.Load() + uint64(n)) // pairs with the load in mirror
	return true, nil
}

// receive takes in what has come for the oldest order.
func (h *helper) receive(s *served) (bool, error) {
	if s.receive.order == s.toReceive.Load() { // pairs with the store in handReceives
		return false, nil
	}
	o := s.receiveOrders.at(uint(s.receive.order))
	v := &h.caller.list
	v.reset()
	for at := s.receive.done; at < o.size && !v.full(); {
		f := &o.pages[at/pageSize]
		from := f.source + uint32(at%pageSize)
		end := f.source + f.length
		v.add(s.bounce[from:end])
		at += int(end - from)
	}
	begin := clock()
	n, err := v.receive(s.wire.fd)
	h.caller.received(begin)
	if n == 0 {
		return false, err
	}
	s.receive.step(n, o.size)
	s.received.Store(s.received.Load() + uint64(n)) // pairs with the load in takeReceived
	return true, nil
}

// step goes on by n bytes, in an order of so many.
func (p *place) step(n, size int) {
	if p.done += n; p.done == size {
		p.order++
		p.done = 0
	}
}

// rouse wakes a thread if it waits, after something was done or handed over for it.
func (w *waker) rouse() {
	if w != nil && w.waiting.Load() { // pairs with the stores in sleep and Wait
		w.wake()
	}
}

// What a comm does that has helpers.

// handSend gives a chunk to the helper.
func (l *lane) handSend(h *helper, source *vector, offset, size int) {
	s := l.served
	order := s.toSend.Load()
	s.sendOrders[order%laneTasks] = sendOrder{source: *source, offset: offset, size: size}
	s.toSend.Store(order + 1)
	h.bell.rouse()
}

// mirror takes in how a data socket is, and how many bytes it has sent by now.
func (l *lane) mirror() (sent int) {
	s := l.served
	sent = int(s.sent.Load() - l.position)
	l.full, l.starved = s.full.Load(), s.starved.Load()
	l.sends, l.notices = s.sends.Load(), s.notices.Load()
	return sent
}

// takeSent takes in what helpers have sent, and says whether any bytes went.
func (c *comm) takeSent() (any bool) {
	for i := range c.lanes {
		if n := c.lanes[i].mirror(); n > 0 {
			c.sent(i, &c.lanes[i], n)
			c.moved += n
			any = true
		}
	}
	return any
}

// helperFailure is the error of a data socket that a helper serves.
func (c *comm) helperFailure() error {
	for i := range c.lanes {
		if s := c.lanes[i].served; s != nil && s.failed.Load() { // pairs with the store in serve
			return s.failure
		}
	}
	return nil
}

// handReceives gives helpers the chunks of receives that have their pages.
func (c *comm) handReceives() {
	in, places := c.intake.(placer)
	for i := range c.lanes {
		l := &c.lanes[i]
		for places && l.handed != l.expected.last {
			t := l.expected.at(l.handed)
			if t.number >= c.receiveReserved {
				break
			}
			r := &c.receives[t.number%requests]
			have := len(r.fragments)
			r.fragments = in.place(t.size, r.fragments)
			pages := r.fragments[have:]
			for k := range pages {
				f := &pages[k]
				r.descriptors = append(r.descriptors, descriptor{source: f.source, length: f.length, destination: uint64(t.offset + k*pageSize)})
			}
			*l.served.receiveOrders.push() = receiveOrder{pages: pages, size: t.size}
			l.served.toReceive.Store(uint64(l.served.receiveOrders.last)) // pairs with the load in receive
			l.handed++
			c.helpers[i%len(c.helpers)].bell.rouse()
		}
	}
}

// takeReceived takes in what helpers have received.
func (c *comm) takeReceived() {
	for i := range c.lanes {
		l := &c.lanes[i]
		n := int(l.served.received.Load() - l.arrived)
		l.arrived += uint64(n)
		c.counts.receivedBytes += uint64(n)
		for n > 0 {
			t := l.expected.head()
			part := min(n, t.size-t.done)
			n -= part
			t.done += part
			r := &c.receives[t.number%requests]
			r.state = transmitting
			r.arrived += part
			if t.done == t.size {
				l.expected.pop()
			}
		}
	}
}

// helped says whether helpers have done something that the comm has not taken in.
func (c *comm) helped() bool {
	if len(c.helpers) == 0 {
		return false
	}
	for i := range c.lanes {
		l := &c.lanes[i]
		s := l.served
		if s.sent.Load() != l.position || s.received.Load() != l.arrived || s.failed.Load() ||
			c.sendFreed < c.sendPosted && s.notices.Load() != l.notices {
			return true
		}
	}
	return false
}

// takeCalls takes in what a helper has counted.
func (c *comm) takeCalls(h *helper) {
	for i := range h.published {
		n := h.published[i].Load()
		c.counts.calls[i] += n - h.taken[i]
		h.taken[i] = n
	}
}
