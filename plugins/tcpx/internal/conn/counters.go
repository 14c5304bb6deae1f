package conn

import (
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// Counters are what a worker has counted over all of its connections. They only grow.
type Counters struct {
	Sends, Receives, Chunks                 uint64
	SentBytes, ReceivedBytes, UnpackedBytes uint64
	Calls                                   sock.Counts
	UnpackCallNS                            uint64 // in calls of the unpacker's Launch
	Launches, Descriptors                   uint64
	SendPeak, ReceivePeak, PendingPeak      uint64
	Retransmits, CPUNS                      uint64

	SendNS                        uint64 // posted to acknowledged
	ArriveNS, UnpackNS, ConsumeNS uint64 // posted to arrived, to unpacked, to consumed
	Consumes                      uint64
	FirstPost, LastConsume        int64
	time                          timeBreakdown // over all time
	series                        timeSeries    // over a window
	trace                         []traced      // up to its capacity

	SetupNS                  uint64
	Messages, Staged, Direct uint64
	Stagings                 uint64 // copies to the staging ring
	InlineSent               uint64 // messages on the control socket
	InlineSentBytes          uint64
	InlineReceived           uint64
	InlineReceivedBytes      uint64
	Full                     uint64
}

// Work returns what the worker, its helpers and its copiers have done for the messages of its
// connections. It leaves out copies that a GPU makes, and bytes that were received or unpacked,
// because that depends on the mode. It counts what helpers have done since the last time.
func (k *Counters) Work(conns []*Conn) control.Work {
	var sum control.Work
	for _, c := range conns {
		sum.HelperThreads += uint64(c.driver.count())
		sum.Syscalls += c.control.calls
		sum.KernelBytes += c.control.bytes
		if h := c.In.headers; h != nil {
			sum.Copies += h.copies
			sum.CopiedBytes += h.copiedBytes
		}
	}
	sum.Copies += k.Stagings + k.InlineSent + k.InlineReceived
	sum.CopiedBytes += k.Staged + k.InlineSentBytes + k.InlineReceivedBytes
	sum.Syscalls += k.Calls[sock.Sends] + k.Calls[sock.Receives] + k.Calls[sock.Others]
	sum.KernelBytes += k.Calls[sock.PlainBytes]
	if k.Calls[sock.ZeroCopyCopied] > 0 { // as on the loopback, where the kernel copies all of them
		sum.KernelBytes += k.Calls[sock.ZeroCopyBytes]
	}
	return sum
}

// bookConsumed books a receive that is consumed.
func (k *Counters) bookConsumed(r *receiveRequest, now int64) {
	if k.FirstPost == 0 {
		k.FirstPost = r.posted
	}
	k.LastConsume = now
	k.Consumes++
	k.ArriveNS += uint64(r.arrivedAt - r.posted)
	k.UnpackNS += uint64(r.unpackedAt - r.arrivedAt)
	k.ConsumeNS += uint64(now - r.unpackedAt)
}

// Append appends the counters of a worker's connections, after Work. strangers is how many sockets
// of strangers the worker has closed.
func (k *Counters) Append(dst []transport.Stat, conns []*Conn, strangers uint64) []transport.Stat {
	retransmits := k.Retransmits
	for _, c := range conns {
		retransmits += c.retransmits()
	}
	k.CPUNS = max(k.CPUNS, processTime())
	return append(dst,
		transport.Stat{Name: "messages", Help: "messages posted", Value: k.Messages},
		transport.Stat{Name: "full", Means: transport.MeansShortage,
			Help: "posts that found no room", Value: k.Full},
		transport.Stat{Name: "sends",
			Help: "requests sent; messages over sends is the messages per request", Value: k.Sends},
		transport.Stat{Name: "receives", Help: "requests announced", Value: k.Receives},
		transport.Stat{Name: "chunks", Help: "chunks sent", Value: k.Chunks},
		transport.Stat{Name: "sent_bytes", Help: "bytes sent over data sockets",
			Value: k.SentBytes},
		transport.Stat{Name: "received_bytes", Help: "bytes received over data sockets",
			Value: k.ReceivedBytes},
		transport.Stat{Name: "send_calls", Help: "system calls that sent data or tried to",
			Value: k.Calls[sock.Sends]},
		transport.Stat{Name: "receive_calls", Help: "system calls that received data or tried to",
			Value: k.Calls[sock.Receives]},
		transport.Stat{Name: "again", Help: "system calls that found a data socket full (EAGAIN)",
			Value: k.Calls[sock.Again]},
		transport.Stat{Name: "nobufs",
			Help:  "system calls for which the kernel had no memory (ENOBUFS)",
			Value: k.Calls[sock.NoBuffers]},
		transport.Stat{Name: "inline", Help: "messages posted that travel on the control socket",
			Value: k.InlineSent},
		transport.Stat{Name: "staged_bytes",
			Help:  "bytes copied by Post; over sent_bytes, copies per byte before the kernel's",
			Value: k.Staged},
		transport.Stat{Name: "direct_bytes", Help: "bytes sent by Post straight from the payload",
			Value: k.Direct},
		transport.Stat{Name: "unpacked_bytes",
			Help:  "bytes unpacked; over received_bytes, copies per byte after the kernel's",
			Value: k.UnpackedBytes},
		transport.Stat{Name: "unpacks", Help: "requests unpacked", Value: k.Launches},
		transport.Stat{Name: "descriptors", Help: "fragments unpacked; over unpacks, " +
			"descriptors per request", Value: k.Descriptors},
		transport.Stat{Name: "zero_copy_sends", Help: "system calls that sent with MSG_ZEROCOPY",
			Value: k.Calls[sock.ZeroCopySends]},
		transport.Stat{Name: "zero_copy_copied", Help: "zero_copy_sends that the kernel copied " +
			"after all", Value: k.Calls[sock.ZeroCopyCopied]},
		transport.Stat{Name: "retransmits", Means: transport.MeansRetransmission,
			Help:  "segments that TCP sent again (TCP_INFO)",
			Value: retransmits},
		transport.Stat{Name: "process_cpu_ns", Help: "CPU time of the process; over " +
			"received_bytes, the cost per byte", Value: k.CPUNS},
		transport.Stat{Name: "setup_ns", Help: "time from Connect until all sockets were " +
			"connected, over all peers; part of no transfer", Value: k.SetupNS},
		transport.Stat{Name: "strangers", Means: transport.MeansStranger,
			Help: "sockets closed because they belong to no " +
				"peer: they sent no proper hello in time, or were listed in none",
			Value: strangers},
	)
}

// AppendTimes appends where the time went.
func (k *Counters) AppendTimes(dst []transport.Stat) []transport.Stat {
	dst = append(dst,
		transport.Stat{Name: "span_ns", Help: "time from the first receive posted to the last " +
			"consumed; received_bytes over it is the bandwidth",
			Value: uint64(k.LastConsume - k.FirstPost)},
		transport.Stat{Name: "busy_ns", Help: "time in which a connection had anything under " +
			"way; stalls and occupancies are shares of it", Value: k.time[busyTime]},
		transport.Stat{Name: "send_window_ns",
			Help:  "sends under way times time; over busy_ns, the mean of the send window",
			Value: k.time[sendOccupancy]},
		transport.Stat{Name: "flight_window_ns",
			Help:  "receives in flight times time; over busy_ns, their mean",
			Value: k.time[flightOccupancy]},
		transport.Stat{Name: "pending_window_ns",
			Help:  "receives being unpacked times time; over busy_ns, their mean",
			Value: k.time[pendingOccupancy]},
		transport.Stat{Name: "send_window_full_ns", Means: transport.MeansShortage,
			Help:  "time in which the send window was full",
			Value: k.time[sendFullTime]},
		transport.Stat{Name: "receive_window_full_ns", Means: transport.MeansShortage,
			Help:  "time in which all receives of the window had begun",
			Value: k.time[receiveFullTime]},
		transport.Stat{Name: "send_window_peak", Help: "most sends under way at once",
			Value: k.SendPeak, Level: true},
		transport.Stat{Name: "receive_window_peak", Help: "most receives posted at once",
			Value: k.ReceivePeak, Level: true},
		transport.Stat{Name: "pending_window_peak", Help: "most receives being unpacked at once",
			Value: k.PendingPeak, Level: true},
		transport.Stat{Name: "sends_done_ns",
			Help: "time from posted to acknowledged, over all sends", Value: k.SendNS},
		transport.Stat{Name: "consumed", Help: "receives consumed; the times of their steps follow",
			Value: k.Consumes},
		transport.Stat{Name: "receives_done_ns",
			Help:  "time from posted to all bytes in bounce memory, over all receives",
			Value: k.ArriveNS},
		transport.Stat{Name: "receives_unpack_ns",
			Help: "time from there until unpacked, over all receives", Value: k.UnpackNS},
		transport.Stat{Name: "receives_consume_ns",
			Help: "time from there until consumed, over all receives", Value: k.ConsumeNS},
		transport.Stat{Name: "send_call_ns", Help: "time in system calls that sent data",
			Value: k.Calls[sock.SendNS]},
		transport.Stat{Name: "receive_call_ns",
			Help:  "time in system calls that received data or found none",
			Value: k.Calls[sock.ReceiveNS]},
	)
	for i := firstReason; i < breakdownCount; i++ {
		s := transport.Stat{Name: reasons[i].name, Help: reasons[i].help, Value: k.time[i]}
		if !slices.Contains(workReasons[:], stallReason(i)) {
			s.Means = transport.MeansShortage
		}
		dst = append(dst, s)
	}
	return dst
}

// processTime returns the CPU time of this process in nanoseconds.
func processTime() uint64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return uint64(u.Utime.Nano() + u.Stime.Nano())
}
