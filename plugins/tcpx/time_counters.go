package tcpx

import (
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/dial"
	control "transportbench/core/fabric/endpoint"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

// counters are what a worker has counted over all of its connections. They only grow.
type counters struct {
	sends, receives, chunks                 uint64
	sentBytes, receivedBytes, unpackedBytes uint64
	calls                                   sock.Counts
	unpackCallNS                            uint64 // in calls of the unpacker's Launch
	launches, descriptors                   uint64
	sendPeak, receivePeak, pendingPeak      uint64
	retransmits, cpuNS                      uint64

	sendNS                        uint64 // posted to acknowledged
	arriveNS, unpackNS, consumeNS uint64 // posted to arrived, to unpacked, to consumed
	consumes                      uint64
	firstPost, lastConsume        int64
	time                          timeBreakdown // over all time
	series                        timeSeries    // over a window
	trace                         []traced      // up to its capacity

	setupNS                  uint64
	messages, staged, direct uint64
	stagings                 uint64 // copies to the staging ring
	inlineSent               uint64 // messages on the control socket
	inlineSentBytes          uint64
	inlineReceived           uint64
	inlineReceivedBytes      uint64
	full                     uint64
}

// work returns what the worker, its helpers and its copiers have done for the messages. It leaves
// out copies that a GPU makes, and bytes that the NIC puts into device memory.
func (w *worker) work() control.Work {
	k := &w.counters
	sum := control.Work{
		Copies:      k.stagings + k.inlineSent + k.inlineReceived,
		CopiedBytes: k.staged + k.inlineSentBytes + k.inlineReceivedBytes,
		Syscalls:    k.calls[sock.Sends] + k.calls[sock.Receives] + k.calls[sock.Others],
		KernelBytes: k.calls[sock.PlainBytes],
	}
	if k.calls[sock.ZeroCopyCopied] > 0 { // as on the loopback, where the kernel copies all of them
		sum.KernelBytes += k.calls[sock.ZeroCopyBytes]
	}
	if w.settings.mode.name != modeDevmem {
		sum.KernelBytes += k.receivedBytes
	}
	if w.settings.unpack == unpackCPU {
		sum.Copies += k.descriptors
		sum.CopiedBytes += k.unpackedBytes
		sum.HelperThreads += uint64(w.settings.unpackWorkers)
	}
	for _, p := range w.peers.ByID {
		if p == nil {
			continue
		}
		sum.Syscalls += p.conn.control.calls
		sum.KernelBytes += p.conn.control.bytes
		sum.HelperThreads += uint64(len(p.conn.helpers))
		if h := p.conn.headers; h != nil {
			sum.Copies += h.copies
			sum.CopiedBytes += h.copiedBytes
		}
	}
	return sum
}

// bookConsumed books a receive that is consumed.
func (k *counters) bookConsumed(r *receiveRequest, now int64) {
	if k.firstPost == 0 {
		k.firstPost = r.posted
	}
	k.lastConsume = now
	k.consumes++
	k.arriveNS += uint64(r.arrivedAt - r.posted)
	k.unpackNS += uint64(r.unpackedAt - r.arrivedAt)
	k.consumeNS += uint64(now - r.unpackedAt)
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	k := &w.counters
	retransmitted := k.retransmits
	for _, p := range w.peers.ByID {
		if p == nil {
			continue
		}
		if p.State == dial.Up {
			retransmitted += p.conn.retransmits()
		}
		for _, h := range p.conn.helpers {
			p.conn.takeCounts(h)
		}
	}
	k.cpuNS = max(k.cpuNS, processTime())
	dst = append(w.work().Append(dst),
		transport.Stat{Name: "messages", Help: "messages posted", Value: k.messages},
		transport.Stat{Name: "full", Help: "posts that found no room", Value: k.full},
		transport.Stat{Name: "sends",
			Help: "requests sent; messages over sends is the messages per request", Value: k.sends},
		transport.Stat{Name: "receives", Help: "requests announced", Value: k.receives},
		transport.Stat{Name: "chunks", Help: "chunks sent", Value: k.chunks},
		transport.Stat{Name: "sent_bytes", Help: "bytes sent over data sockets",
			Value: k.sentBytes},
		transport.Stat{Name: "received_bytes", Help: "bytes received over data sockets",
			Value: k.receivedBytes},
		transport.Stat{Name: "send_calls", Help: "system calls that sent data or tried to",
			Value: k.calls[sock.Sends]},
		transport.Stat{Name: "receive_calls", Help: "system calls that received data or tried to",
			Value: k.calls[sock.Receives]},
		transport.Stat{Name: "again", Help: "system calls that found a data socket full (EAGAIN)",
			Value: k.calls[sock.Again]},
		transport.Stat{Name: "nobufs",
			Help:  "system calls for which the kernel had no memory (ENOBUFS)",
			Value: k.calls[sock.NoBuffers]},
		transport.Stat{Name: "inline", Help: "messages posted that travel on the control socket",
			Value: k.inlineSent},
		transport.Stat{Name: "staged_bytes",
			Help:  "bytes copied by Post; over sent_bytes, copies per byte before the kernel's",
			Value: k.staged},
		transport.Stat{Name: "direct_bytes", Help: "bytes sent by Post straight from the payload",
			Value: k.direct},
		transport.Stat{Name: "unpacked_bytes",
			Help:  "bytes unpacked; over received_bytes, copies per byte after the kernel's",
			Value: k.unpackedBytes},
		transport.Stat{Name: "unpacks", Help: "requests unpacked", Value: k.launches},
		transport.Stat{Name: "descriptors", Help: "fragments unpacked; over unpacks, " +
			"descriptors per request", Value: k.descriptors},
		transport.Stat{Name: "zero_copy_sends", Help: "system calls that sent with MSG_ZEROCOPY",
			Value: k.calls[sock.ZeroCopySends]},
		transport.Stat{Name: "zero_copy_copied", Help: "zero_copy_sends that the kernel copied " +
			"after all", Value: k.calls[sock.ZeroCopyCopied]},
		transport.Stat{Name: "retransmits", Help: "segments that TCP sent again (TCP_INFO)",
			Value: retransmitted},
		transport.Stat{Name: "process_cpu_ns", Help: "CPU time of the process; over " +
			"received_bytes, the cost per byte", Value: k.cpuNS},
		transport.Stat{Name: "setup_ns", Help: "time from Connect until all sockets were " +
			"connected, over all peers; part of no transfer", Value: k.setupNS},
		transport.Stat{Name: "strangers", Help: "sockets closed because they belong to no " +
			"peer: they sent no proper hello in time, or were listed in none",
			Value: w.connector.Acceptor.Strangers},
	)
	for _, part := range []any{bounce.Inner(w.unpacker.Unpacker), w.memory} {
		if c, counts := part.(bounce.Counter); counts {
			dst = c.Counters(dst)
		}
	}
	return k.readTimes(dst)
}

// readTimes appends where the time went.
func (k *counters) readTimes(dst []transport.Stat) []transport.Stat {
	dst = append(dst,
		transport.Stat{Name: "span_ns", Help: "time from the first receive posted to the last " +
			"consumed; received_bytes over it is the bandwidth",
			Value: uint64(k.lastConsume - k.firstPost)},
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
		transport.Stat{Name: "send_window_full_ns", Help: "time in which the send window was full",
			Value: k.time[sendFullTime]},
		transport.Stat{Name: "receive_window_full_ns",
			Help:  "time in which all receives of the window had begun",
			Value: k.time[receiveFullTime]},
		transport.Stat{Name: "send_window_peak", Help: "most sends under way at once",
			Value: k.sendPeak, Level: true},
		transport.Stat{Name: "receive_window_peak", Help: "most receives posted at once",
			Value: k.receivePeak, Level: true},
		transport.Stat{Name: "pending_window_peak", Help: "most receives being unpacked at once",
			Value: k.pendingPeak, Level: true},
		transport.Stat{Name: "sends_done_ns",
			Help: "time from posted to acknowledged, over all sends", Value: k.sendNS},
		transport.Stat{Name: "consumed", Help: "receives consumed; the times of their steps follow",
			Value: k.consumes},
		transport.Stat{Name: "receives_done_ns",
			Help:  "time from posted to all bytes in bounce memory, over all receives",
			Value: k.arriveNS},
		transport.Stat{Name: "receives_unpack_ns",
			Help: "time from there until unpacked, over all receives", Value: k.unpackNS},
		transport.Stat{Name: "receives_consume_ns",
			Help: "time from there until consumed, over all receives", Value: k.consumeNS},
		transport.Stat{Name: "send_call_ns", Help: "time in system calls that sent data",
			Value: k.calls[sock.SendNS]},
		transport.Stat{Name: "receive_call_ns",
			Help:  "time in system calls that received data or found none",
			Value: k.calls[sock.ReceiveNS]},
	)
	for i := firstReason; i < breakdownCount; i++ {
		dst = append(dst, transport.Stat{Name: reasons[i].name, Help: reasons[i].help,
			Value: k.time[i]})
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
