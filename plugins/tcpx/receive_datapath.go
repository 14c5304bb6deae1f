package tcpx

// irecv posts a receive and announces it to the peer. What arrives for it is unpacked
// to the buffer.
func (c *comm) irecv(to buffer, tag uint64) (number uint64, err error) {
	switch {
	case c.err != nil:
		return 0, c.err
	case c.receivePosted-c.receiveConsumed == requests:
		return 0, errNoFreeRequest
	case to.size > c.settings.request:
		return 0, errRequestSize
	case c.control.room() < recordSize+roomForLast:
		// Honest peers have room for a ring of credits: this one goes through receives
		// and reads nothing.
		c.err = errProtocol
		return 0, c.err
	}
	number = c.receivePosted
	r := &c.receives[number%requests]
	r.state, r.unpacked, r.tag, r.to = posted, false, tag, to
	r.total, r.announced, r.arrived, r.reserved, r.slot = 0, 0, 0, 0, -1
	r.fragments, r.descriptors = r.fragments[:0], r.descriptors[:0]
	r.posted = clock()
	c.receivePosted++
	c.counts.receives++
	c.counts.receivePeak = max(c.counts.receivePeak, c.receivePosted-c.receiveConsumed)
	c.control.put(record{kind: recordCredit, index: uint16(number % requests), size: uint32(to.size), tag: tag})
	c.counts.credits++
	return number, nil
}

// testReceive makes progress and says whether a receive is done: all of its bytes are
// in bounce memory, size of them. It takes the oldest one that was not done.
func (c *comm) testReceive(number uint64) (done bool, size int, err error) {
	switch {
	case number < c.receiveConsumed:
		return false, 0, errAlreadyConsumed
	case number < c.receiveDone:
		return true, c.receives[number%requests].total, nil
	case number != c.receiveDone || number >= c.receivePosted:
		return false, 0, errNotOldest
	}
	if err := c.progress(); err != nil {
		return false, 0, err
	}
	return c.doneReceive(), c.receives[number%requests].total, nil
}

// doneReceive moves the oldest receive to its second stage, if its bytes are there.
func (c *comm) doneReceive() bool {
	if c.receiveDone == c.receiveComplete {
		return false
	}
	c.receiveDone++
	return true
}

// consumed ends a receive: its pages are given back and its buffer has the bytes. It
// takes the oldest one, and fails with errUnpacking until it is unpacked.
func (c *comm) consumed(number uint64) error {
	switch {
	case number < c.receiveConsumed:
		return errAlreadyConsumed
	case number != c.receiveConsumed || number >= c.receivePosted:
		return errNotOldest
	case number >= c.receiveDone:
		return errNotArrived
	}
	r := &c.receives[number%requests]
	if !r.unpacked {
		if err := c.collect(); err != nil {
			return err
		}
		if !r.unpacked {
			return errUnpacking
		}
	}
	c.counts.received(r, clock())
	c.recycle(r)
	c.receiveConsumed++
	return nil
}

// recycle gives the pages of a receive back.
func (c *comm) recycle(r *receiveRequest) {
	c.intake.give(r.fragments, r.reserved)
	c.holding -= r.reserved
	r.state, r.reserved, r.fragments, r.descriptors, r.to = free, 0, r.fragments[:0], r.descriptors[:0], buffer{}
}

// expect takes in that a chunk is coming.
func (c *comm) expect(k *record) error {
	number := c.receiveAnnounced
	r := &c.receives[number%requests]
	offset, size, total := int(k.offset), int(k.size), int(k.total)
	switch {
	case number == c.receivePosted || uint64(k.index) != number%requests || int(k.lane) >= len(c.lanes),
		offset != r.announced, offset+size > total, size == 0 && total > 0, offset > 0 && total != r.total,
		// A chunk begins a page, and pages are set aside for the bytes of a request.
		size%pageSize != 0 && offset+size < total:
		return errProtocol
	case k.tag != r.tag:
		return c.refuse(refusalTag, errTagMismatch)
	case total > r.to.size:
		return c.refuse(refusalTruncated, errTruncated)
	}
	if offset == 0 {
		r.state, r.total = active, total
		c.stall.begin(c, clock())
		c.receiveBegun++
	}
	r.announced += size
	if size > 0 {
		l := &c.lanes[k.lane]
		if l.expected.full() {
			return errProtocol
		}
		*l.expected.push() = receiveTask{number: number, offset: offset, size: size, last: -1}
	}
	if r.announced == total {
		c.receiveAnnounced++
	}
	return nil
}

// progressReceives sets pages aside for what has begun, takes in what has come, and
// has it unpacked.
func (c *comm) progressReceives() error {
	if c.receiveBegun == c.receiveConsumed {
		return nil
	}
	for c.receiveReserved < c.receiveBegun {
		r := &c.receives[c.receiveReserved%requests]
		pages := (r.total + pageSize - 1) / pageSize
		if !c.intake.reserve(pages, c.holding > 0) {
			break
		}
		r.reserved = pages
		c.holding += pages
		c.receiveReserved++
	}
	if err := c.receiveTasks(); err != nil {
		return err
	}
	for c.receiveComplete < c.receiveReserved {
		r := &c.receives[c.receiveComplete%requests]
		if r.arrived < r.total || c.receiveComplete >= c.receiveAnnounced {
			break
		}
		r.state, r.complete = inactive, clock()
		c.receiveComplete++
	}
	if err := c.launch(); err != nil {
		return err
	}
	return c.collect()
}

// mostReceived bounds what one progress receives. What has come is then unpacked while it
// is in the caches, and its pages are used again.
const mostReceived = 512 << 10

// receiveTasks takes in what has come over data sockets, for the oldest requests first.
func (c *comm) receiveTasks() error {
	if c.helpers != nil {
		c.handReceives()
		c.takeReceived()
		return nil
	}
	empty := 0 // set of sockets that have nothing
	for received := 0; received < mostReceived; {
		at := c.oldestTask(empty)
		if at < 0 {
			break
		}
		l := &c.lanes[at]
		t := l.expected.head()
		n, err := c.receiveTask(l, t, &c.receives[t.number%requests])
		if err != nil {
			return err
		}
		if n == 0 {
			empty |= 1 << at
			continue
		}
		received += n
		if t.done == t.size {
			l.expected.pop()
		}
	}
	return nil
}

// oldestTask is the data socket with the oldest chunk that can be received, without those
// of a set; -1 for none.
func (c *comm) oldestTask(without int) int {
	best, oldest := -1, c.receiveReserved
	for i := range c.lanes {
		l := &c.lanes[i]
		if without&(1<<i) != 0 || l.expected.empty() {
			continue
		}
		if number := l.expected.head().number; number < oldest {
			best, oldest = i, number
		}
	}
	return best
}

// receiveTask takes in what has come of a chunk.
func (c *comm) receiveTask(l *lane, t *receiveTask, r *receiveRequest) (n int, err error) {
	var last fragment
	if t.last >= 0 {
		last = r.fragments[t.last]
	}
	have := len(r.fragments)
	begin := clock()
	grown, count, err := c.intake.receive(l.fd, t.size-t.done, last, r.fragments[have:cap(r.fragments)])
	c.caller.received(begin)
	if err != nil || grown == 0 && count == 0 {
		return 0, err
	}
	r.state = transmitting
	if grown > 0 {
		r.fragments[t.last].length += grown
		r.descriptors[t.last].length += grown
		t.done += int(grown)
	}
	r.fragments = r.fragments[:have+count]
	for i := range r.fragments[have:] {
		f := &r.fragments[have+i]
		r.descriptors = append(r.descriptors, descriptor{source: f.source, length: f.length, destination: uint64(t.offset + t.done)})
		t.done += int(f.length)
		n += int(f.length)
	}
	if count > 0 {
		t.last = have + count - 1
	}
	n += int(grown)
	r.arrived += n
	c.counts.receivedBytes += uint64(n)
	return n, nil
}

// launch has complete receives unpacked, in order, as far as the unpacker has slots.
func (c *comm) launch() error {
	for c.receiveLaunched < c.receiveComplete {
		r := &c.receives[c.receiveLaunched%requests]
		if r.total > 0 && c.settings.unpack != unpackNone {
			last := len(c.unpacks.idle) - 1
			if last < 0 {
				return nil
			}
			if c.heads != nil {
				if err := c.heads.take(&c.inbox, c.intake.memory(), r); err != nil {
					return err
				}
			}
			r.slot = c.unpacks.idle[last]
			begin := clock()
			if err := c.unpacks.launch(r.slot, r.descriptors, r.to); err != nil {
				r.slot = -1
				return err
			}
			c.counts.calls[callUnpackNS] += uint64(clock() - begin)
			c.unpacks.idle = c.unpacks.idle[:last]
			c.counts.launches++
			c.counts.descriptors += uint64(len(r.descriptors))
			c.counts.unpackedBytes += uint64(r.total)
		}
		c.receiveLaunched++
		c.counts.pendingPeak = max(c.counts.pendingPeak, c.receiveLaunched-c.receiveConsumed)
	}
	return nil
}

// collect looks for receives that are unpacked.
func (c *comm) collect() error {
	for c.receiveUnpacked < c.receiveLaunched {
		r := &c.receives[c.receiveUnpacked%requests]
		if r.slot >= 0 {
			done, err := c.unpacks.done(r.slot)
			if err != nil {
				return err
			}
			if !done {
				return nil
			}
			c.unpacks.idle = append(c.unpacks.idle, r.slot)
			r.slot = -1
		}
		r.unpacked, r.copied = true, clock()
		c.receiveUnpacked++
	}
	return nil
}
