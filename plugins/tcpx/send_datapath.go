package tcpx

const (
	// mostMoved bounds what one progress sends or receives, so that the rest of a
	// thread's work gets its turn.
	mostMoved = 1 << 20
	// leastZeroCopy is the bytes from which on MSG_ZEROCOPY can pay.
	leastZeroCopy = 16 << 10
)

// isend posts a send. The source must stay as it is until test says that it is done.
func (c *comm) isend(source vector, tag uint64) (number uint64, err error) {
	size := source.size()
	switch {
	case c.err != nil:
		return 0, c.err
	case c.sendPosted-c.sendFreed == requests:
		return 0, errNoFreeRequest
	case size > c.settings.request:
		return 0, errRequestSize
	}
	number = c.sendPosted
	r := &c.sends[number%requests]
	r.state, r.tag, r.source, r.size = posted, tag, source, size
	r.assigned, r.written, r.lanes = 0, 0, 0
	r.posted = clock()
	c.stall.begin(c, r.posted)
	c.sendPosted++
	c.counts.sends++
	c.counts.sendPeak = max(c.counts.sendPeak, c.sendPosted-c.sendFreed)
	return number, nil
}

// testSend makes progress and says whether a send is done: all of its bytes are
// acknowledged and its source can be used again. It takes the oldest one only.
func (c *comm) testSend(number uint64) (done bool, err error) {
	switch {
	case number < c.sendFreed:
		return false, errAlreadyConsumed
	case number != c.sendFreed || number >= c.sendPosted:
		return false, errNotOldest
	}
	if err := c.progress(); err != nil {
		return false, err
	}
	return c.freeSend(), nil
}

// freeSend frees the oldest send if it is acknowledged.
func (c *comm) freeSend() bool {
	if c.sendFreed == c.sendPosted {
		return false
	}
	r := &c.sends[c.sendFreed%requests]
	if r.state != inactive || !c.acknowledged(r, c.sendFreed) {
		return false
	}
	r.state, r.source = free, vector{}
	c.sendFreed++
	c.counts.sendNS += uint64(clock() - r.posted)
	return true
}

// acknowledged says whether the peer has all of a send. A credit that is a window of
// receives further on says so at no cost; else the sockets are asked, and may say so
// late, since TCP delays acknowledgements.
func (c *comm) acknowledged(r *sendRequest, number uint64) bool {
	consumed := c.creditCount > number+c.window
	if consumed && !c.zeroCopy {
		return true
	}
	for i := range c.lanes {
		if r.lanes&(1<<i) == 0 {
			continue
		}
		l := &c.lanes[i]
		if c.zeroCopy && int32(r.marks[i].notices-l.notices) > 0 {
			if c.readNotices(l); int32(r.marks[i].notices-l.notices) > 0 {
				return false
			}
		}
		// Signed: of what a helper has sent and the comm has not seen, there can be more
		// without an acknowledgement than there was before.
		if !consumed && int64(l.position)-int64(unacknowledged(l.fd)) < int64(r.marks[i].position) {
			return false
		}
	}
	return true
}

// readNotices takes in the kernel's notices of zero-copy on a data socket.
func (c *comm) readNotices(l *lane) {
	if l.served == nil {
		c.caller.readNotices(&l.wire)
	} else {
		l.notices = l.served.notices.Load()
	}
}

// progressSends starts what has credit, makes tasks of it and sends.
func (c *comm) progressSends() error {
	for c.sendActive < c.sendPosted && c.sendActive < c.creditCount {
		r, credit := &c.sends[c.sendActive%requests], &c.credits[c.sendActive%requests]
		switch {
		case r.tag != credit.tag:
			return c.refuse(refusalTag, errTagMismatch)
		case r.size > credit.size:
			return c.refuse(refusalTruncated, errTruncated)
		}
		r.state = active
		c.sendActive++
	}
	if c.sendFreed == c.sendPosted {
		return nil
	}
	for c.moved = 0; c.moved < mostMoved; {
		cut := c.cut()
		if cut {
			// The peer can take the bytes in only after it has the record.
			if _, err := c.control.flush(); err != nil {
				return err
			}
		}
		sent, err := c.sendTasks()
		if err != nil {
			return err
		}
		if !sent && !cut {
			break
		}
	}
	return nil
}

// cut makes tasks of requests, as far as data sockets have room for tasks, and says
// whether it made any.
func (c *comm) cut() (made bool) {
	for c.sendCut < c.sendActive {
		r := &c.sends[c.sendCut%requests]
		for {
			l := c.choose()
			if l < 0 && r.size > 0 || c.control.room() < roomForCredits+recordSize {
				return made
			}
			size := min(c.settings.chunk, r.size-r.assigned)
			c.control.put(record{kind: recordChunk, lane: uint8(max(l, 0)), index: uint16(c.sendCut % requests),
				size: uint32(size), offset: uint32(r.assigned), total: uint32(r.size), tag: r.tag})
			made = true
			if size > 0 {
				c.assign(l, r, size)
			}
			if r.assigned == r.size {
				break
			}
		}
		if r.size == 0 {
			r.state = inactive
		}
		c.sendCut++
	}
	return made
}

// choose is the data socket for the next chunk, or -1 where none has room for it.
func (c *comm) choose() int {
	best := -1
	for i := range c.lanes {
		at := i
		if !c.settings.leastLoaded {
			at = (c.next + i) % len(c.lanes)
		}
		l := &c.lanes[at]
		if l.count == laneTasks || best >= 0 && l.queued >= c.lanes[best].queued {
			continue
		}
		best = at
		if !c.settings.leastLoaded {
			break
		}
	}
	return best
}

// assign gives a data socket the next chunk of a request.
func (c *comm) assign(to int, r *sendRequest, size int) {
	l := &c.lanes[to]
	l.tasks[(l.first+l.count)%laneTasks] = sendTask{request: r, offset: r.assigned, size: size}
	l.count++
	l.queued += size
	r.assigned += size
	r.lanes |= 1 << to
	r.state = transmitting
	c.next = (to + 1) % len(c.lanes)
	c.counts.chunks++
	if l.served != nil {
		l.handSend(c.helpers[to%len(c.helpers)], &r.source, r.assigned-size, size)
	}
}

// sendTasks sends what data sockets have, or takes in what helpers have sent, and says
// whether any bytes went.
func (c *comm) sendTasks() (any bool, err error) {
	if c.helpers != nil {
		return c.takeSent(), nil
	}
	for i := range c.lanes {
		l := &c.lanes[i]
		for l.count > 0 && c.moved < mostMoved {
			n, err := c.sendTask(i, l)
			if err != nil {
				return any, err
			}
			if n == 0 {
				break
			}
			any = true
			c.moved += n
		}
	}
	return any, nil
}

// sendTask sends of a data socket's oldest task what the socket takes.
func (c *comm) sendTask(index int, l *lane) (int, error) {
	t := &l.tasks[l.first]
	n, err := c.caller.send(&l.wire, &t.request.source, t.offset+t.done, t.size-t.done)
	if n > 0 {
		c.sent(index, l, n)
	}
	return n, err
}

// sent books bytes that a data socket has taken, of its oldest tasks.
func (c *comm) sent(index int, l *lane, bytes int) {
	c.counts.sentBytes += uint64(bytes)
	l.position += uint64(bytes)
	l.queued -= bytes
	for bytes > 0 {
		t := &l.tasks[l.first]
		r := t.request
		n := min(bytes, t.size-t.done)
		bytes -= n
		t.done += n
		r.written += n
		r.marks[index] = laneMark{position: l.position - uint64(bytes), notices: l.sends}
		if r.written == r.size {
			r.state = inactive
		}
		if t.done == t.size {
			t.request = nil
			l.first = (l.first + 1) % laneTasks
			l.count--
		}
	}
}
