package tcpx

import (
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// started is what clock counts from.
var started = time.Now()

// clock is the time in nanoseconds, from some start.
func clock() int64 { return int64(time.Since(started)) }

// counts are what a worker has counted, over all of its connections. They only grow.
type counts struct {
	sends, receives, credits, chunks        uint64
	sentBytes, receivedBytes, unpackedBytes uint64
	calls                                   callCounts
	launches, descriptors                   uint64
	sendPeak, receivePeak, pendingPeak      uint64
	retransmits, cpuNS                      uint64

	sendNS                                           uint64 // posted to acknowledged
	arriveNS, unpackNS, consumeNS                    uint64 // posted, complete, unpacked, consumed
	consumes                                         uint64
	firstPost, lastConsume                           int64
	stalls                                           [causes]uint64
	busyNS                                           uint64
	sendOccupancy, flightOccupancy, pendingOccupancy uint64
	sendFullNS, receiveFullNS                        uint64

	setupNS                  uint64
	messages, staged, direct uint64
	full                     uint64
}

// received books a receive that is consumed.
func (k *counts) received(r *receiveRequest, now int64) {
	if k.firstPost == 0 {
		k.firstPost = r.posted
	}
	k.lastConsume = now
	k.consumes++
	k.arriveNS += uint64(r.complete - r.posted)
	k.unpackNS += uint64(r.copied - r.complete)
	k.consumeNS += uint64(now - r.copied)
}

// cause is why a connection did not move on.
type cause int

// Causes, those of a sender first.
const (
	causeWindow cause = iota // of sends: waits for acknowledgements
	causePool                // the ring of 16 requests is in use
	causeCredit
	causeTasks
	causeAgain
	causeNoBuffers
	causePages
	causeSlots
	causeUnpack
	causeData
	causes
)

var causeNames = [causes]struct{ name, help string }{
	causeWindow:    {"stall_send_window_ns", "time in which the send window was full, and so waited for acknowledgements"},
	causePool:      {"stall_pool_ns", "time in which all 16 requests of the ring were in use"},
	causeCredit:    {"stall_credit_ns", "time in which sends waited for the peer to post a receive"},
	causeTasks:     {"stall_task_slots_ns", "time in which chunks waited for a task slot of a data socket"},
	causeAgain:     {"stall_again_ns", "time in which data sockets took no more (EAGAIN): the peer or the network is slower"},
	causeNoBuffers: {"stall_nobufs_ns", "time in which the kernel had no memory for zero-copy (ENOBUFS)"},
	causePages:     {"stall_bounce_pages_ns", "time in which receives waited for bounce pages"},
	causeSlots:     {"stall_unpack_slots_ns", "time in which receives waited for a slot of the unpacker"},
	causeUnpack:    {"stall_unpack_ns", "time in which receives waited to be unpacked, with nothing else to do"},
	causeData:      {"stall_data_ns", "time in which announced bytes had not come: the peer or the network is slower"},
}

// stalls attributes the time of a connection to causes.
type stalls struct {
	last    int64 // 0 while nothing is under way
	waiting bool  // the worker has bytes that it cannot post
}

// book adds the time since the last progress to what held the connection up then, and
// to the occupancy of its windows.
func (s *stalls) book(c *comm) {
	sends, flight, pending := c.sendPosted-c.sendFreed, c.receiveBegun-c.receiveComplete, c.receiveComplete-c.receiveConsumed
	if c.sendCut == c.sendPosted && flight == 0 && pending == 0 && !s.waiting && c.idleLanes() {
		s.last = 0
		return
	}
	now := clock()
	if s.last == 0 {
		s.last = now
		return
	}
	k, passed := c.counts, uint64(now-s.last)
	s.last = now
	k.busyNS += passed
	k.sendOccupancy += passed * sends
	k.flightOccupancy += passed * flight
	k.pendingOccupancy += passed * pending
	if int(sends) >= c.settings.sendWindow {
		k.sendFullNS += passed
	}
	if int(flight+pending) >= c.settings.receiveWindow {
		k.receiveFullNS += passed
	}
	if why, is := c.sendCause(); is {
		k.stalls[why] += passed
	}
	if why, is := c.receiveCause(); is {
		k.stalls[why] += passed
	}
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

// receiveCause is what holds receives up, nearest to the wire first.
func (c *comm) receiveCause() (cause, bool) {
	switch {
	case c.receiveReserved < c.receiveBegun:
		return causePages, true
	case c.receiveComplete < c.receiveReserved:
		return causeData, true
	case c.receiveLaunched < c.receiveComplete:
		return causeSlots, true
	case c.receiveUnpacked < c.receiveLaunched:
		return causeUnpack, true
	}
	return 0, false
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	k := &w.counts
	retransmitted := k.retransmits
	for _, p := range w.peers {
		if p != nil && p.state == up {
			retransmitted += p.comm.retransmits()
		}
	}
	for _, p := range w.peers {
		if p == nil {
			continue
		}
		for _, h := range p.comm.helpers {
			p.comm.takeCalls(h)
		}
	}
	k.cpuNS = max(k.cpuNS, processTime())
	dst = append(dst,
		transport.Stat{Name: "messages", Help: "messages posted", Value: k.messages},
		transport.Stat{Name: "full", Help: "posts that found no room", Value: k.full},
		transport.Stat{Name: "sends", Help: "requests sent; messages over sends, the messages of one", Value: k.sends},
		transport.Stat{Name: "receives", Help: "requests announced", Value: k.receives},
		transport.Stat{Name: "chunks", Help: "chunks sent", Value: k.chunks},
		transport.Stat{Name: "sent_bytes", Help: "bytes sent over data sockets", Value: k.sentBytes},
		transport.Stat{Name: "received_bytes", Help: "bytes that came over data sockets", Value: k.receivedBytes},
		transport.Stat{Name: "send_calls", Help: "system calls that sent data or tried to", Value: k.calls[callSends]},
		transport.Stat{Name: "receive_calls", Help: "system calls that received data or tried to", Value: k.calls[callReceives]},
		transport.Stat{Name: "again", Help: "system calls that found a data socket full (EAGAIN)", Value: k.calls[callAgain]},
		transport.Stat{Name: "nobufs", Help: "system calls for which the kernel had no memory (ENOBUFS)", Value: k.calls[callNoBuffers]},
		transport.Stat{Name: "staged_bytes", Help: "bytes copied by Post; over sent_bytes, the copies of a byte before the kernel's", Value: k.staged},
		transport.Stat{Name: "direct_bytes", Help: "bytes sent by Post right from the payload", Value: k.direct},
		transport.Stat{Name: "unpacked_bytes", Help: "bytes unpacked; over received_bytes, the copies of a byte after the kernel's", Value: k.unpackedBytes},
		transport.Stat{Name: "unpacks", Help: "requests unpacked", Value: k.launches},
		transport.Stat{Name: "descriptors", Help: "fragments unpacked; over unpacks, the descriptors of a request", Value: k.descriptors},
		transport.Stat{Name: "zero_copy_sends", Help: "system calls that sent with MSG_ZEROCOPY", Value: k.calls[callZeroSends]},
		transport.Stat{Name: "zero_copy_copied", Help: "of them, those that the kernel copied after all", Value: k.calls[callZeroCopied]},
		transport.Stat{Name: "retransmits", Help: "segments that TCP sent again (TCP_INFO)", Value: retransmitted},
		transport.Stat{Name: "process_cpu_ns", Help: "processor time of the whole process; over received_bytes, what a byte costs", Value: k.cpuNS},
		transport.Stat{Name: "setup_ns", Help: "time from Connect until the sockets were there, over all peers; not part of any transfer", Value: k.setupNS},
	)
	for _, part := range []any{w.unpacks.unpacker, w.intake} {
		if c, counts := part.(counter); counts {
			dst = c.counters(dst)
		}
	}
	return k.appendTimes(dst)
}

// appendTimes appends where time went.
func (k *counts) appendTimes(dst []transport.Stat) []transport.Stat {
	dst = append(dst,
		transport.Stat{Name: "span_ns", Help: "time from the first receive posted to the last consumed; received_bytes over it is the bandwidth", Value: uint64(k.lastConsume - k.firstPost)},
		transport.Stat{Name: "busy_ns", Help: "time in which a connection had anything under way; stalls and occupancies are shares of it", Value: k.busyNS},
		transport.Stat{Name: "send_window_ns", Help: "sends under way times time; over busy_ns, the mean of the send window", Value: k.sendOccupancy},
		transport.Stat{Name: "flight_window_ns", Help: "receives in flight times time; over busy_ns, their mean", Value: k.flightOccupancy},
		transport.Stat{Name: "pending_window_ns", Help: "receives being unpacked times time; over busy_ns, their mean", Value: k.pendingOccupancy},
		transport.Stat{Name: "send_window_full_ns", Help: "time in which the send window was full", Value: k.sendFullNS},
		transport.Stat{Name: "receive_window_full_ns", Help: "time in which all receives of the window had begun", Value: k.receiveFullNS},
		transport.Stat{Name: "send_window_peak", Help: "most sends under way at once", Value: k.sendPeak},
		transport.Stat{Name: "receive_window_peak", Help: "most receives posted at once", Value: k.receivePeak},
		transport.Stat{Name: "pending_window_peak", Help: "most receives being unpacked at once", Value: k.pendingPeak},
		transport.Stat{Name: "sends_done_ns", Help: "time from posted to acknowledged, over all sends", Value: k.sendNS},
		transport.Stat{Name: "consumed", Help: "receives consumed; the times of their stages follow", Value: k.consumes},
		transport.Stat{Name: "receives_done_ns", Help: "time from posted to all bytes in bounce memory, over all receives", Value: k.arriveNS},
		transport.Stat{Name: "receives_unpack_ns", Help: "time from there to unpacked, over all receives", Value: k.unpackNS},
		transport.Stat{Name: "receives_consume_ns", Help: "time from there to consumed, over all receives", Value: k.consumeNS},
		transport.Stat{Name: "send_call_ns", Help: "time in system calls that sent data", Value: k.calls[callSendNS]},
		transport.Stat{Name: "receive_call_ns", Help: "time in system calls that received data", Value: k.calls[callReceiveNS]},
	)
	for i, c := range causeNames {
		dst = append(dst, transport.Stat{Name: c.name, Help: c.help, Value: k.stalls[i]})
	}
	return dst
}

// processTime is the processor time of this process.
func processTime() uint64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return uint64(u.Utime.Nano() + u.Stime.Nano())
}
