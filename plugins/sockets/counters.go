package sockets

import (
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// counters are one worker's. The engine counts its system calls and the kernel's bytes.
type counters struct {
	control.Work
	full    uint64
	blocked uint64
	direct  uint64
	setupNS uint64
	// retransmits counts those of connections that have ended.
	retransmits uint64
}

var _ transport.StatsReader = (*worker)(nil)

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	retransmits := w.counters.retransmits
	for _, p := range w.byIndex {
		retransmits += p.retransmits()
	}
	return append(w.counters.Append(dst),
		transport.Stat{Name: "ring_full", Means: transport.MeansShortage,
			Help: "posts that found no room in a connection's " +
				"ring, or as many calls in flight as the run has", Value: w.counters.full},
		transport.Stat{Name: "socket_full", Means: transport.MeansShortage,
			Help: "sends of which the socket took a part or " +
				"nothing, because the peer had not read", Value: w.counters.blocked},
		transport.Stat{Name: "direct_bytes", Help: "bytes that were sent from the caller's " +
			"memory, without a copy to the ring", Value: w.counters.direct},
		transport.Stat{Name: "retransmits", Means: transport.MeansRetransmission,
			Help:  "segments that TCP sent again (TCP_INFO)",
			Value: retransmits},
		transport.Stat{Name: "setup_ns", Help: "time from Connect until the socket was " +
			"connected, over all peers; part of no transfer", Value: w.counters.setupNS},
		transport.Stat{Name: "strangers", Means: transport.MeansStranger,
			Help: "connections that were closed because they " +
				"sent no proper hello in time", Value: w.connector.Acceptor.Strangers},
	)
}

// retransmits returns how many segments TCP has sent again on a connection that has not ended.
func (p *peer) retransmits() uint64 {
	if p.State != dial.Up || p.w.settings.network.medium != transport.MediumTCP {
		return 0
	}
	return sock.Retransmits(p.fd)
}
