package main

import (
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// ReadPaths implements [transport.PathReader]. The runtime asks the sockets for the rest.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	return append(dst, transport.Path{Carrier: transport.MediumTCP, Overhead: headerSize})
}

// counters are a worker's.
type counters struct {
	control.Work
	full        uint64
	retransmits uint64 // of connections that have ended
}

// moved counts a system call that moved that many bytes.
func (c *counters) moved(bytes int) {
	c.Syscalls++
	c.KernelBytes += uint64(bytes)
}

// ReadStats implements [transport.StatsReader].
func (w *worker) ReadStats(dst []transport.Stat) []transport.Stat {
	retransmits := w.counters.retransmits
	for _, p := range w.peers.ByID {
		if p != nil {
			retransmits += p.retransmits()
		}
	}
	return append(w.counters.Append(dst),
		transport.Stat{Name: "buffer_full", Means: transport.MeansShortage,
			Help:  "posts for which a connection's buffer had no room",
			Value: w.counters.full},
		transport.Stat{Name: "retransmits", Means: transport.MeansRetransmission,
			Help:  "segments that TCP sent again (TCP_INFO)",
			Value: retransmits},
		transport.Stat{Name: "strangers", Means: transport.MeansStranger,
			Help:  "connections that were closed because they sent no proper hello in time",
			Value: w.connector.Acceptor.Strangers},
	)
}

// retransmits returns how many segments TCP has sent again on a connection that has not ended.
func (p *peer) retransmits() uint64 {
	if p.State != dial.Up {
		return 0
	}
	return sock.Retransmits(p.fd)
}
