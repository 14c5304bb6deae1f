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

	sendNS                        uint64 // posted to acknowledged
	arriveNS, unpackNS, consumeNS uint64 // posted, complete, unpacked, consumed
	consumes                      uint64
	firstPost, lastConsume        int64
	spent                         spent // over all time
	trace                         trace // over a window

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
		transport.Stat{Name: "busy_ns", Help: "time in which a connection had anything under way; stalls and occupancies are shares of it", Value: k.spent.busy},
		transport.Stat{Name: "send_window_ns", Help: "sends under way times time; over busy_ns, the mean of the send window", Value: k.spent.send},
		transport.Stat{Name: "flight_window_ns", Help: "receives in flight times time; over busy_ns, their mean", Value: k.spent.flight},
		transport.Stat{Name: "pending_window_ns", Help: "receives being unpacked times time; over busy_ns, their mean", Value: k.spent.pending},
		transport.Stat{Name: "send_window_full_ns", Help: "time in which the send window was full", Value: k.spent.sendFull},
		transport.Stat{Name: "receive_window_full_ns", Help: "time in which all receives of the window had begun", Value: k.spent.receiveFull},
		transport.Stat{Name: "send_window_peak", Help: "most sends under way at once", Value: k.sendPeak},
		transport.Stat{Name: "receive_window_peak", Help: "most receives posted at once", Value: k.receivePeak},
		transport.Stat{Name: "pending_window_peak", Help: "most receives being unpacked at once", Value: k.pendingPeak},
		transport.Stat{Name: "sends_done_ns", Help: "time from posted to acknowledged, over all sends", Value: k.sendNS},
		transport.Stat{Name: "consumed", Help: "receives consumed; the times of their stages follow", Value: k.consumes},
		transport.Stat{Name: "receives_done_ns", Help: "time from posted to all bytes in bounce memory, over all receives", Value: k.arriveNS},
		transport.Stat{Name: "receives_unpack_ns", Help: "time from there to unpacked, over all receives", Value: k.unpackNS},
		transport.Stat{Name: "receives_consume_ns", Help: "time from there to consumed, over all receives", Value: k.consumeNS},
		transport.Stat{Name: "send_call_ns", Help: "time in system calls that sent data", Value: k.calls[callSendNS]},
		transport.Stat{Name: "receive_call_ns", Help: "time in system calls that received data, those included that found nothing", Value: k.calls[callReceiveNS]},
	)
	for i, c := range causeNames {
		dst = append(dst, transport.Stat{Name: c.name, Help: c.help, Value: k.spent.by[i]})
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
