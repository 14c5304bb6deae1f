package datagram

import "transportbench/core/transport"

// verbsCounts are what ReadStats tells.
type verbsCounts struct {
	sent, sentBytes, doorbells, signaled, full         uint64
	received, receivedBytes, polls, refills, truncated uint64
}

// ReadStats implements [Port].
func (p *Verbs) ReadStats(dst []transport.Stat) []transport.Stat {
	c := &p.counts
	notReady := uint64(0)
	if !p.closed {
		notReady = p.device.ReceiverNotReady()
	}
	return append(dst,
		transport.Stat{Name: "datagrams_sent", Help: "datagrams that the device took", Value: c.sent},
		transport.Stat{Name: "bytes_sent", Help: "bytes of these datagrams", Value: c.sentBytes},
		transport.Stat{Name: "send_calls", Help: "postlists: doorbells rung for datagrams", Value: c.doorbells},
		transport.Stat{Name: "sends_signaled", Help: "datagrams that asked for a completion", Value: c.signaled},
		transport.Stat{Name: "send_queue_full", Help: "times that the send queue was found full and a datagram had to wait", Value: c.full},
		transport.Stat{Name: "datagrams_received", Help: "datagrams handed out", Value: c.received},
		transport.Stat{Name: "bytes_received", Help: "bytes of these datagrams", Value: c.receivedBytes},
		transport.Stat{Name: "receive_calls", Help: "polls of the completion queue that found something", Value: c.polls},
		transport.Stat{Name: "receive_refills", Help: "postlists of receives", Value: c.refills},
		transport.Stat{Name: "datagrams_too_long", Help: "datagrams thrown away since they were over the MTU", Value: c.truncated},
		transport.Stat{Name: "receive_drops", Help: "datagrams that found no receive, of all ports of the device as far as it tells", Value: notReady},
	)
}
