package tcpx

// Where the time of a connection goes: either its thread works, on this or another of its
// connections, or something holds the connection up. Both directions are booked apart.

// cause is what the time of one direction went into.
type cause int

// Causes, those of a sender first.
const (
	causeSending cause = iota
	causeWindow        // of sends: waits for acknowledgements
	causePool          // the ring of 16 requests is in use
	causeCredit
	causeTasks
	causeAgain
	causeNoBuffers
	causeReceiving
	causeUnpacking
	causePages
	causeSlots
	causeUnpack
	causeData
	causes
)

// causeNames are what causes are called, and what would make them less.
var causeNames = [causes]struct{ name, help, remedy string }{
	causeSending:   {"sending_ns", "time in which the kernel copied what is sent", "sockets, and threads that have cores"},
	causeWindow:    {"stall_send_window_ns", "time in which the send window was full, and so waited for acknowledgements", "a larger send-window, or larger requests"},
	causePool:      {"stall_pool_ns", "time in which all 16 requests of the ring were in use", "larger requests"},
	causeCredit:    {"stall_credit_ns", "time in which sends waited for the peer to post a receive", "a peer that polls more often, a larger receive-window"},
	causeTasks:     {"stall_task_slots_ns", "time in which chunks waited for a task slot of a data socket", "more sockets"},
	causeAgain:     {"stall_again_ns", "time in which data sockets took no more (EAGAIN): the peer or the network is slower", "a faster peer or network, a larger socket-buffer"},
	causeNoBuffers: {"stall_nobufs_ns", "time in which the kernel had no memory for zero-copy (ENOBUFS)", "a larger net.core.optmem_max"},
	causeReceiving: {"receiving_ns", "time in which the kernel copied what has come", "sockets, and threads that have cores"},
	causeUnpacking: {"unpacking_ns", "time in which the polling thread unpacked", "unpack-workers that have cores"},
	causePages:     {"stall_bounce_pages_ns", "time in which receives waited for bounce pages", "fewer connections for each worker"},
	causeSlots:     {"stall_unpack_slots_ns", "time in which receives waited for a slot of the unpacker", "fewer connections for each worker"},
	causeUnpack:    {"stall_unpack_ns", "time in which receives waited to be unpacked, with nothing else to do", "more unpack-workers that have cores"},
	causeData:      {"stall_data_ns", "time in which announced bytes had not come: the peer or the network is slower", "a faster peer or network"},
}

// spent is time in nanoseconds, and windows times time.
type spent struct {
	busy                  uint64 // a connection had anything under way
	send, flight, pending uint64 // occupancies
	sendFull, receiveFull uint64
	by                    [causes]uint64
}

// works are the causes in which a thread works, and what counts their time.
var works = [...]struct {
	cause cause
	call  int
}{{causeSending, callSendNS}, {causeReceiving, callReceiveNS}, {causeUnpacking, callUnpackNS}}

// stalls attributes the time of a connection to causes.
type stalls struct {
	last     int64              // 0 while nothing is under way
	waiting  bool               // the worker has bytes that it cannot post
	worked   [len(works)]uint64 // what the thread had worked at last
	received uint64             // bytes
}

// begin is called when there is something to do, and books from then on.
func (s *stalls) begin(c *comm, now int64) {
	if s.last != 0 {
		return
	}
	s.last, s.received = now, c.counts.receivedBytes
	for i := range works {
		s.worked[i] = c.counts.calls[works[i].call]
	}
}

// book adds the time since the last progress to what it went into, and to the occupancy of
// the connection's windows.
func (s *stalls) book(c *comm) {
	if s.last == 0 {
		return
	}
	sends, flight, pending := c.sendPosted-c.sendFreed, c.receiveBegun-c.receiveComplete, c.receiveComplete-c.receiveConsumed
	now := clock()
	k := c.counts
	passed := uint64(now - s.last)
	s.last = now
	if c.sendCut == c.sendPosted && flight == 0 && pending == 0 && !s.waiting && c.idleLanes() {
		s.last = 0
	}
	var part spent
	waited := passed
	for i := range works {
		total := k.calls[works[i].call]
		worked := min(total-s.worked[i], waited)
		s.worked[i] = total
		part.by[works[i].cause] = worked
		waited -= worked
	}
	received := k.receivedBytes != s.received
	s.received = k.receivedBytes
	part.busy = passed
	part.send, part.flight, part.pending = passed*sends, passed*flight, passed*pending
	if int(sends) >= c.settings.sendWindow {
		part.sendFull = passed
	}
	if int(flight+pending) >= c.settings.receiveWindow {
		part.receiveFull = passed
	}
	if why, is := c.sendCause(); is {
		part.by[why] += waited
	}
	if why, is := c.receiveCause(received); is {
		part.by[why] += waited
	}
	k.spent.add(&part)
	k.trace.add(now, &part)
}

func (s *spent) add(part *spent) {
	s.busy += part.busy
	s.send += part.send
	s.flight += part.flight
	s.pending += part.pending
	s.sendFull += part.sendFull
	s.receiveFull += part.receiveFull
	for i, n := range part.by {
		s.by[i] += n
	}
}

// addShare adds what is for n nanoseconds of the time of a part.
func (s *spent) addShare(part *spent, n int64) {
	if n == int64(part.busy) {
		s.add(part)
		return
	}
	scale := float64(n) / float64(part.busy)
	of := func(n uint64) uint64 { return uint64(scale * float64(n)) }
	share := spent{busy: uint64(n), send: of(part.send), flight: of(part.flight), pending: of(part.pending),
		sendFull: of(part.sendFull), receiveFull: of(part.receiveFull)}
	for i, n := range part.by {
		share.by[i] = of(n)
	}
	s.add(&share)
}

// idleLanes says whether no data socket has anything to send.
func (c *comm) idleLanes() bool {
	for i := range c.lanes {
		if c.lanes[i].count > 0 {
			return false
		}
	}
	return true
}

// sendCause is what holds sends up, nearest to the wire first.
func (c *comm) sendCause() (cause, bool) {
	for i := range c.lanes {
		switch l := &c.lanes[i]; {
		case l.count > 0 && l.starved:
			return causeNoBuffers, true
		case l.count > 0 && l.full:
			return causeAgain, true
		case l.count > 0 && l.served != nil:
			return causeSending, true // its helper is at it
		}
	}
	switch {
	case c.sendActive < c.sendPosted:
		return causeCredit, true
	case c.sendCut < c.sendActive:
		return causeTasks, true
	case c.stall.waiting && c.sendPosted-c.sendFreed == requests:
		return causePool, true
	case c.stall.waiting:
		return causeWindow, true
	}
	return 0, false
}

// receiveCause is what holds receives up, nearest to the wire first. received says whether
// bytes have come.
func (c *comm) receiveCause(received bool) (cause, bool) {
	switch {
	case c.receiveReserved < c.receiveBegun:
		return causePages, true
	case c.receiveComplete < c.receiveReserved && received && len(c.helpers) > 0:
		return causeReceiving, true
	case c.receiveComplete < c.receiveReserved:
		return causeData, true
	case c.receiveLaunched < c.receiveComplete:
		return causeSlots, true
	case c.receiveUnpacked < c.receiveLaunched:
		return causeUnpack, true
	}
	return 0, false
}
