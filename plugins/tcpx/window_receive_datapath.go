package tcpx

import (
	"transportbench/core/fabric/clock"
	"transportbench/plugins/tcpx/internal/bounce"
)

// postReceive posts a receive into a buffer and puts its credit into the control socket's
// buffer, to leave with the next pumpOut.
func (c *conn) postReceive(to bounce.Buffer, tag uint64) error {
	switch {
	case c.err != nil:
		return c.err
	case c.receivePosted-c.receiveConsumed == requests:
		return errNoFreeRequest
	case to.Size > c.settings.request:
		return errRequestSize
	case c.control.room() < recordSize+roomForLast:
		// An honest peer leaves room for a ring of credits. This one makes receives
		// complete and never reads the control socket.
		return c.fail(errProtocol)
	}
	number := c.receivePosted
	r := &c.receives[number%requests]
	*r = receiveRequest{tag: tag, to: to, slot: -1, posted: clock.Now(), fragments: r.fragments[:0]}
	c.receivePosted++
	c.counters.receives++
	c.counters.receivePeak = max(c.counters.receivePeak, c.receivePosted-c.receiveConsumed)
	c.control.put(record{kind: recordCredit, index: uint16(number % requests),
		size: uint32(to.Size), tag: tag})
	return nil
}

// expectChunk handles the record of a chunk that is coming.
func (c *conn) expectChunk(k *record) error {
	number := c.receiveBegun
	// The chunk belongs to the last request that has begun, until all of it is announced.
	if last := &c.receives[(number-1)%requests]; last.announced < last.total {
		number--
	}
	r := &c.receives[number%requests]
	offset, size, total := int(k.offset), int(k.size), int(k.total)
	switch {
	case number == c.receivePosted || uint64(k.index) != number%requests ||
		int(k.lane) >= len(c.lanes),
		offset != r.announced, offset+size > total, size == 0 && total > 0, offset > 0 &&
			total != r.total,
		// A chunk begins a page, and pages are reserved by the bytes of a request.
		size%pageSize != 0 && offset+size < total:
		return errProtocol
	case k.tag != r.tag:
		return c.refuse(refusalTag, errTagMismatch)
	case total > r.to.Size:
		return c.refuse(refusalTruncated, errTruncated)
	}
	if offset == 0 {
		r.total, r.arrivedAt = total, clock.Now()
		c.stall.begin(c, r.arrivedAt)
		c.receiveBegun++
	}
	r.announced += size
	if size > 0 {
		l := &c.lanes[k.lane]
		if l.expected.Full() {
			return errProtocol
		}
		*l.expected.Push() = receiveTask{number: number, offset: offset, size: size, last: -1}
	}
	return nil
}

// receiveChunks reserves pages for requests that have begun, receives what has come, and
// has complete requests unpacked.
func (c *conn) receiveChunks() error {
	if c.receiveBegun == c.receiveConsumed {
		return nil
	}
	for c.receiveReserved < c.receiveBegun {
		r := &c.receives[c.receiveReserved%requests]
		pages := (r.total + pageSize - 1) / pageSize
		if !c.memory.Reserve(pages, c.holding > 0) {
			break
		}
		r.reserved = pages
		c.holding += pages
		c.receiveReserved++
	}
	if c.helpers != nil {
		c.handReceives()
		c.takeReceived()
	} else if err := c.receiveLanes(); err != nil {
		return err
	}
	if err := c.launch(); err != nil {
		return err
	}
	return c.collect()
}

// mostReceived bounds what one pumpIn receives. What has come is then unpacked while it is
// in the caches, and its pages are used again.
const mostReceived = 512 << 10

// receiveLanes receives what has come over the lanes, for the oldest requests first.
func (c *conn) receiveLanes() error {
	empty := 0 // set of lanes that have nothing
	for received := 0; received < mostReceived; {
		at := c.oldestLane(empty)
		if at < 0 {
			break
		}
		n, err := c.receiveLane(&c.lanes[at])
		if err != nil {
			return err
		}
		if n == 0 {
			empty |= 1 << at
		}
		received += n
	}
	return nil
}

// oldestLane returns the lane with the oldest chunk whose pages are reserved, without the
// lanes of a set; -1 for none.
func (c *conn) oldestLane(without int) int {
	best, oldest := -1, c.receiveReserved
	for i := range c.lanes {
		l := &c.lanes[i]
		if without&(1<<i) != 0 || l.expected.Empty() {
			continue
		}
		if number := l.expected.Head().number; number < oldest {
			best, oldest = i, number
		}
	}
	return best
}

// receiveLane receives what has come of a lane's oldest chunk.
func (c *conn) receiveLane(l *lane) (n int, err error) {
	t := l.expected.Head()
	r := &c.receives[t.number%requests]
	var last bounce.Fragment
	if t.last >= 0 {
		last = r.fragments[t.last]
	}
	have := len(r.fragments)
	begin := clock.Now()
	grown, count, err := c.memory.Receive(l.FD, t.size-t.done, last,
		r.fragments[have:cap(r.fragments)])
	c.syscalls.CountReceive(begin)
	if err != nil || grown == 0 && count == 0 {
		return 0, err
	}
	if n = int(grown); n > 0 {
		r.fragments[t.last].Length += grown
	}
	r.fragments = r.fragments[:have+count]
	for i := range r.fragments[have:] {
		f := &r.fragments[have+i]
		f.Destination = uint32(t.offset + t.done + n)
		n += int(f.Length)
	}
	if count > 0 {
		t.last = have + count - 1
	}
	c.bookReceived(l, n)
	return n, nil
}

// bookReceived books bytes of a lane's oldest chunk, at most what is left of it.
func (c *conn) bookReceived(l *lane, n int) {
	t := l.expected.Head()
	r := &c.receives[t.number%requests]
	c.counters.receivedBytes += uint64(n)
	r.arrived += n
	if r.arrived == r.total {
		r.arrivedAt = clock.Now()
	}
	if t.done += n; t.done == t.size {
		l.expected.Pop()
	}
}

// launch begins to unpack complete receives, in order, while the unpacker has slots.
func (c *conn) launch() error {
	for c.receiveLaunched < c.receiveReserved {
		r := &c.receives[c.receiveLaunched%requests]
		if r.arrived < r.total {
			return nil
		}
		if r.total > 0 && c.settings.unpack != unpackNone {
			slot, free := c.unpacker.Take()
			if !free {
				return nil
			}
			begin := clock.Now()
			if err := c.unpack(r, slot); err != nil {
				c.unpacker.Return(slot)
				return err
			}
			c.counters.unpackCallNS += uint64(clock.Now() - begin)
			r.slot, r.launchedAt = slot, begin
		} else {
			r.unpackedAt = clock.Now()
			r.launchedAt = r.unpackedAt
		}
		c.receiveLaunched++
		c.counters.pendingPeak = max(c.counters.pendingPeak, c.receiveLaunched-c.receiveConsumed)
	}
	return nil
}

// unpack launches one request in a slot of the unpacker.
func (c *conn) unpack(r *receiveRequest, slot int) error {
	if c.headers != nil {
		if err := c.headers.take(&c.announced, c.memory.Memory(), r); err != nil {
			return err
		}
	}
	if err := c.unpacker.Launch(slot, r.fragments, r.to); err != nil {
		return err
	}
	c.counters.launches++
	c.counters.descriptors += uint64(len(r.fragments))
	c.counters.unpackedBytes += uint64(r.total)
	return nil
}

// collect takes back the slots of requests that are unpacked.
func (c *conn) collect() error {
	for n := c.receiveConsumed; n < c.receiveLaunched; n++ {
		r := &c.receives[n%requests]
		if r.slot < 0 {
			continue
		}
		done, err := c.unpacker.Done(r.slot)
		if !done || err != nil {
			return err
		}
		c.unpacker.Return(r.slot)
		r.slot, r.unpackedAt = -1, clock.Now()
	}
	return nil
}

// consume ends the oldest receive if it is unpacked, and gives its pages back. It returns
// the receive's number and its size.
func (c *conn) consume() (number uint64, size int, ok bool, err error) {
	number = c.receiveConsumed
	if number == c.receiveLaunched {
		return number, 0, false, nil
	}
	r := &c.receives[number%requests]
	if r.slot >= 0 {
		if err := c.collect(); err != nil || r.slot >= 0 {
			return number, 0, false, c.fail(err)
		}
	}
	now := clock.Now()
	c.counters.bookConsumed(r, now)
	c.counters.traceRequest(traced{c.peer, &receiveTrace, number % requests, r.total,
		[...]int64{r.posted, r.arrivedAt, r.launchedAt, r.unpackedAt, now}})
	c.recycle(r)
	c.receiveConsumed++
	return number, r.total, true, nil
}

// recycle gives the pages of a receive back.
func (c *conn) recycle(r *receiveRequest) {
	c.memory.Give(r.fragments, r.reserved)
	c.holding -= r.reserved
	r.reserved, r.fragments, r.to = 0, r.fragments[:0], bounce.Buffer{}
}
