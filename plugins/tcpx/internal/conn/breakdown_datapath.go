package conn

import (
	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/sock"
)

// The time of a connection is booked to one reason at a time in each direction: either its thread
// works, on this or another of its connections, or something stalls the connection. Of several
// stalls the one nearest to the wire counts: what is behind it would not help.

// timeBreakdown is time in nanoseconds by what it went into, and occupancies of windows
// times time.
type timeBreakdown [breakdownCount]uint64

// Indices of a [timeBreakdown]: times and occupancies first, then reasons, those of a sender
// first.
const (
	busyTime      = iota // a connection had anything under way
	sendOccupancy        // sends posted and not freed
	flightOccupancy
	pendingOccupancy
	sendFullTime
	receiveFullTime
	reasonSending
	reasonWindow // of sends: waits for acknowledgements
	reasonPool   // the ring of 16 requests is in use
	reasonCredit
	reasonTasks
	reasonAgain
	reasonNoBuffers
	reasonReceiving
	reasonUnpacking
	reasonPages
	reasonSlots
	reasonUnpack
	reasonData
	breakdownCount

	firstReason = reasonSending
)

// stallReason is an index of a [timeBreakdown] that is a reason, work or a stall, or 0 for none.
type stallReason int

// reasons are the names of reasons in results, and what would help against each.
var reasons = [breakdownCount]struct{ name, help, remedy string }{
	reasonSending: {"sending_ns", "time in which the kernel copied what is sent",
		"sockets, and threads that have cores"},
	reasonWindow: {"stall_send_window_ns",
		"time in which the send window was full and waited for acknowledgements",
		"a larger send-window, or larger requests"},
	reasonPool: {"stall_pool_ns", "time in which all 16 requests of the ring were in use",
		"larger requests"},
	reasonCredit: {"stall_credit_ns",
		"time in which sends waited for the peer to post a receive",
		"a peer that polls more often, a larger receive-window"},
	reasonTasks: {"stall_task_slots_ns",
		"time in which chunks waited for a task slot of a data socket", "more sockets"},
	reasonAgain: {"stall_again_ns",
		"time in which data sockets took no more (EAGAIN): the peer or the network is slower",
		"a faster peer or network, a larger socket-buffer"},
	reasonNoBuffers: {"stall_nobufs_ns",
		"time in which the kernel had no memory for zero-copy (ENOBUFS)",
		"a larger net.core.optmem_max"},
	reasonReceiving: {"receiving_ns", "time in which the kernel copied what has come",
		"sockets, and threads that have cores"},
	reasonUnpacking: {"unpacking_ns", "time in which the polling thread unpacked",
		"unpack-workers that have cores"},
	reasonPages: {"stall_bounce_pages_ns", "time in which receives waited for bounce pages",
		"fewer connections for each worker"},
	reasonSlots: {"stall_unpack_slots_ns",
		"time in which receives waited for a slot of the unpacker",
		"fewer connections for each worker"},
	reasonUnpack: {"stall_unpack_ns",
		"time in which receives waited to be unpacked, with nothing else to do",
		"more unpack-workers that have cores"},
	reasonData: {"stall_data_ns",
		"time in which announced bytes had not come: the peer or the network is slower",
		"a faster peer or network"},
}

// works is the number of reasons that are work.
const works = 3

// worked returns the thread's work times from the counters: sending, receiving, unpacking.
func (k *Counters) worked() [works]uint64 {
	return [works]uint64{k.Calls[sock.SendNS], k.Calls[sock.ReceiveNS], k.UnpackCallNS}
}

// workReasons are the reasons of worked, in its order.
var workReasons = [works]stallReason{reasonSending, reasonReceiving, reasonUnpacking}

// timer books the time of a connection.
type timer struct {
	last     int64 // until when time is booked; 0 while nothing is under way
	worked   [works]uint64
	received uint64 // bytes
}

// begin starts booking when there is something to do. now is 0 if the time is not known.
func (t *timer) begin(c *Conn, now int64) {
	if t.last != 0 {
		return
	}
	if now == 0 {
		now = clock.Now()
	}
	t.last, t.received, t.worked = now, c.counters.ReceivedBytes, c.counters.worked()
}

// book adds the time since the last poll to what it went into, and to the occupancy of the
// windows.
func (t *timer) book(c *Conn) {
	if t.last == 0 {
		return
	}
	sends, pending := uint64(c.Out.requests.Len()), c.In.pending()
	flight := c.In.begun - c.In.launched
	now := clock.Now()
	k := c.counters
	passed := uint64(now - t.last)
	t.last = now
	if c.Out.unchunked() == 0 && flight == 0 && pending == 0 && !c.Out.windowFull && c.idleLanes() {
		t.last = 0
	}
	var part timeBreakdown
	stalled := passed
	total := k.worked()
	for i := range total {
		worked := min(total[i]-t.worked[i], stalled)
		part[workReasons[i]] = worked
		stalled -= worked
	}
	t.worked = total
	received := k.ReceivedBytes != t.received
	t.received = k.ReceivedBytes
	part[sendOccupancy], part[flightOccupancy], part[pendingOccupancy] = passed*sends,
		passed*flight, passed*pending
	if int(sends) >= c.config.SendWindow {
		part[sendFullTime] = passed
	}
	if int(flight+pending) >= c.config.ReceiveWindow {
		part[receiveFullTime] = passed
	}
	part[c.sendStall()] += stalled
	part[c.receiveStall(received)] += stalled
	part[busyTime] = passed // also drops what was booked to no reason
	k.time.add(&part)
	k.series.add(now, &part)
}

func (t *timeBreakdown) add(part *timeBreakdown) {
	for i, n := range part {
		t[i] += n
	}
}

// addShare adds the share of a part that belongs to n nanoseconds of its time.
func (t *timeBreakdown) addShare(part *timeBreakdown, n int64) {
	if n == int64(part[busyTime]) {
		t.add(part)
		return
	}
	scale := float64(n) / float64(part[busyTime])
	t[busyTime] += uint64(n)
	for i := busyTime + 1; i < breakdownCount; i++ {
		t[i] += uint64(scale * float64(part[i]))
	}
}

// sendStall returns what stalls the sends, nearest to the wire first.
func (c *Conn) sendStall() stallReason {
	sending, _ := c.driver.moving()
	for i := range c.lanes {
		l := &c.lanes[i]
		switch {
		case l.tasks.Empty():
		case l.NoMemory:
			return reasonNoBuffers
		case l.Full:
			return reasonAgain
		case sending != 0:
			return sending
		}
	}
	switch out := &c.Out; {
	case out.WaitsForCredit():
		return reasonCredit
	case out.unchunked() > 0:
		return reasonTasks
	case out.windowFull && out.requests.Full():
		return reasonPool
	case out.windowFull:
		return reasonWindow
	}
	return 0
}

// receiveStall returns what stalls the receives, nearest to the wire first. received reports
// whether bytes have come.
func (c *Conn) receiveStall(received bool) stallReason {
	_, receiving := c.driver.moving()
	switch in := &c.In; {
	case in.waitsForPages():
		return reasonPages
	case in.complete():
		return reasonSlots
	case in.launched < in.reserved && received:
		return receiving
	case in.launched < in.reserved:
		return reasonData
	case in.pending() > 0 && in.requests.Head().slot >= 0:
		return reasonUnpack
	}
	return 0
}
