package tcpx

import (
	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/sock"
)

// postSend posts a send of the stream's bytes from position at. They are in source, except borrowed
// ones, which are copied there before Post returns. The memory must not change until the send is
// freed.
func (c *conn) postSend(source []byte, at, tag uint64) error {
	size := len(source)
	switch {
	case c.err != nil:
		return c.err
	case c.sendPosted-c.sendFreed == requests:
		return errNoFreeRequest
	case size > c.settings.request:
		return errRequestSize
	}
	r := &c.sends[c.sendPosted%requests]
	r.tag, r.source, r.size, r.at = tag, source, size, at
	r.assigned, r.written, r.lanes = 0, 0, 0
	r.posted, r.cutAt, r.writtenAt = clock.Now(), 0, 0
	c.stall.begin(c, r.posted)
	c.sendPosted++
	c.counters.sends++
	c.counters.sendPeak = max(c.counters.sendPeak, c.sendPosted-c.sendFreed)
	return nil
}

// sendChunks makes chunks of requests that have credit and sends them, up to sock.MaxCall
// bytes, so that the rest of the thread's work gets its turn.
func (c *conn) sendChunks() error {
	if c.sendFreed == c.sendPosted {
		return nil
	}
	for c.sentNow = 0; c.sentNow < sock.MaxCall; {
		assigned, err := c.assignChunks()
		if err != nil {
			return err
		}
		if assigned {
			c.control.flush() // the peer can receive the bytes only after the record
		}
		sent, err := c.sendLanes()
		if err != nil {
			return err
		}
		if !sent && !assigned {
			return nil
		}
	}
	return nil
}

// assignChunks cuts requests that have credit into chunks and assigns these to lanes that
// have a free task. It reports whether it assigned any.
func (c *conn) assignChunks() (assigned bool, err error) {
	for c.sendCut < min(c.sendPosted, c.credited) {
		r, credit := &c.sends[c.sendCut%requests], &c.credits[c.sendCut%requests]
		switch {
		case r.tag != credit.tag:
			return assigned, c.refuse(refusalTag, errTagMismatch)
		case r.size > credit.size:
			return assigned, c.refuse(refusalTruncated, errTruncated)
		}
		for {
			to := c.chooseLane()
			if to < 0 && r.size > 0 || c.control.room() < roomForCredits+recordSize {
				return assigned, nil
			}
			size := min(c.settings.chunk, r.size-r.assigned)
			c.control.put(record{kind: recordChunk, lane: uint8(max(to, 0)),
				index: uint16(c.sendCut % requests),
				size:  uint32(size), offset: uint32(r.assigned), total: uint32(r.size), tag: r.tag})
			assigned = true
			if size > 0 {
				c.assign(to, r, size)
			}
			if r.assigned == r.size {
				break
			}
		}
		if c.counters.tracing() {
			r.cutAt = clock.Now()
		}
		c.sendCut++
	}
	return assigned, nil
}

// chooseLane returns the lane for the next chunk, or -1 if none has a free task.
func (c *conn) chooseLane() int {
	best := -1
	for i := range c.lanes {
		at := i
		if !c.settings.leastLoaded {
			at = (c.nextLane + i) % len(c.lanes)
		}
		l := &c.lanes[at]
		if l.taskCount == laneTasks || best >= 0 && l.queued >= c.lanes[best].queued {
			continue
		}
		best = at
		if !c.settings.leastLoaded {
			break
		}
	}
	return best
}

// assign makes the next size bytes of a request a task of a lane.
func (c *conn) assign(to int, r *sendRequest, size int) {
	l := &c.lanes[to]
	l.tasks[(l.firstTask+l.taskCount)%laneTasks] = sendTask{request: r, offset: r.assigned,
		size: size}
	l.taskCount++
	l.queued += size
	if l.handoff != nil {
		c.counters.calls[sock.Others] += l.handSend(c.helpers[to%len(c.helpers)],
			r.source[r.assigned:r.assigned+size])
	}
	r.assigned += size
	r.lanes |= 1 << to
	c.nextLane = (to + 1) % len(c.lanes)
	c.counters.chunks++
}

// sendLanes sends what the lanes' sockets take, or books what helpers have sent. It
// reports whether any bytes went.
func (c *conn) sendLanes() (any bool, err error) {
	if c.helpers != nil {
		return c.takeSent(), nil
	}
	for i := range c.lanes {
		l := &c.lanes[i]
		for l.taskCount > 0 && c.sentNow < sock.MaxCall {
			t := &l.tasks[l.firstTask]
			first, second := c.sourceOf(t.request, t.offset+t.done, t.offset+t.size)
			n, err := c.syscalls.Send(&l.Data, first, second)
			if err != nil {
				return any, err
			}
			if n == 0 {
				break
			}
			any = true
			c.bookSent(i, l, n)
		}
	}
	return any, nil
}

// sourceOf returns the memory of a request from one offset to another, in two parts if
// the end is borrowed.
func (c *conn) sourceOf(r *sendRequest, from, to int) (first, second []byte) {
	if end := r.at + uint64(to); c.borrowed != nil && end > c.borrowedAt {
		middle := min(max(from, int(int64(c.borrowedAt-r.at))), to)
		begin := r.at + uint64(middle) - c.borrowedAt
		return r.source[from:middle], c.borrowed[begin : end-c.borrowedAt]
	}
	return r.source[from:to], nil
}

// bookSent books bytes that a lane's socket has taken, for its oldest tasks.
func (c *conn) bookSent(index int, l *lane, bytes int) {
	c.counters.sentBytes += uint64(bytes)
	c.sentNow += bytes
	l.position += uint64(bytes)
	l.queued -= bytes
	for bytes > 0 {
		t := &l.tasks[l.firstTask]
		r := t.request
		n := min(bytes, t.size-t.done)
		bytes -= n
		t.done += n
		if r.written += n; r.written == r.size && c.counters.tracing() {
			r.writtenAt = clock.Now()
		}
		r.marks[index] = laneMark{position: l.position - uint64(bytes), notices: l.Sends}
		if t.done == t.size {
			t.request = nil
			l.firstTask = (l.firstTask + 1) % laneTasks
			l.taskCount--
		}
	}
}

// freeSend frees the oldest send and reports whether it was acknowledged.
func (c *conn) freeSend() bool {
	if c.sendFreed == c.sendCut {
		return false
	}
	r := &c.sends[c.sendFreed%requests]
	if r.written < r.size || !c.acknowledged(r, c.sendFreed) {
		return false
	}
	r.source = nil
	now := clock.Now()
	c.counters.sendNS += uint64(now - r.posted)
	c.counters.traceRequest(traced{c.peer, &sendTrace, c.sendFreed % requests, r.size,
		[...]int64{r.posted, r.cutAt, r.writtenAt, now, now}})
	c.sendFreed++
	return true
}

// acknowledged reports whether the peer has all of a send. A credit for a request that is a window
// of receives later proves it at no cost, because the peer has consumed this one. Without one it
// asks TCP, which may know late because acknowledgements are delayed.
func (c *conn) acknowledged(r *sendRequest, number uint64) bool {
	consumed := c.credited > number+c.peerWindow
	if consumed && !c.zeroCopy {
		return true
	}
	for i := range c.lanes {
		if r.lanes&(1<<i) == 0 {
			continue
		}
		l := &c.lanes[i]
		if c.zeroCopy && int32(r.marks[i].notices-l.Notices) > 0 {
			if c.readNotices(l); int32(r.marks[i].notices-l.Notices) > 0 {
				return false
			}
		}
		// Signed: a helper may have sent bytes that are not booked yet, so more can be
		// unacknowledged than was ever booked as sent.
		if consumed {
			continue
		}
		c.counters.calls[sock.Others]++
		if int64(l.position)-int64(sock.Unacknowledged(l.FD)) < int64(r.marks[i].position) {
			return false
		}
	}
	return true
}

// readNotices reads which zero-copy sends of a lane the kernel has completed.
func (c *conn) readNotices(l *lane) {
	if l.handoff == nil {
		c.syscalls.ReadNotices(&l.Data)
	} else {
		l.Notices = l.handoff.notices.Load()
	}
}
