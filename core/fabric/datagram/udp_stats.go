package datagram

import "transportbench/core/transport"

// udpCounts are what ReadStats tells.
type udpCounts struct {
	sent, sentBytes, sendCalls, sendErrors, full, segmented, unsegmented                uint64
	received, receivedBytes, receiveCalls, receiveErrors, refused, coalesced, truncated uint64
	drops                                                                               uint64
}

// ReadStats implements [Port].
func (p *UDP) ReadStats(dst []transport.Stat) []transport.Stat {
	if !p.closed {
		// The kernel's counter has 32 bits.
		if counter, ok := dropsOf(p.fd); ok {
			p.counts.drops += uint64(counter - uint32(p.counts.drops))
		}
	}
	c := &p.counts
	return append(dst,
		transport.Stat{Name: "datagrams_sent", Help: "datagrams that the kernel took", Value: c.sent},
		transport.Stat{Name: "bytes_sent", Help: "bytes of these datagrams", Value: c.sentBytes},
		transport.Stat{Name: "send_calls", Help: "calls of sendto, sendmsg and sendmmsg, but for those that found the send buffer full", Value: c.sendCalls},
		transport.Stat{Name: "send_errors", Help: "datagrams that the kernel refused, and which are lost", Value: c.sendErrors},
		transport.Stat{Name: "send_buffer_full", Help: "times that the socket's send buffer was found full and a datagram had to wait", Value: c.full},
		transport.Stat{Name: "segmented", Help: "messages that the kernel cut into several datagrams (UDP_SEGMENT)", Value: c.segmented},
		transport.Stat{Name: "segmentation_refused", Help: "times that the kernel would not cut a message, after which datagrams go one by one", Value: c.unsegmented},
		transport.Stat{Name: "datagrams_received", Help: "datagrams handed out", Value: c.received},
		transport.Stat{Name: "bytes_received", Help: "bytes of these datagrams", Value: c.receivedBytes},
		transport.Stat{Name: "receive_calls", Help: "calls of recvmsg and recvmmsg that found something", Value: c.receiveCalls},
		transport.Stat{Name: "receive_errors", Help: "errors of the socket other than of a refusal", Value: c.receiveErrors},
		transport.Stat{Name: "refused", Help: "times that a host told that nobody listens on a port, which costs no other datagram", Value: c.refused},
		transport.Stat{Name: "coalesced", Help: "messages that were several datagrams (UDP_GRO)", Value: c.coalesced},
		transport.Stat{Name: "datagrams_too_long", Help: "datagrams thrown away since they were over the MTU", Value: c.truncated},
		transport.Stat{Name: "receive_drops", Help: "packets that the kernel threw away since the socket's receive buffer was full", Value: c.drops},
	)
}
