package main

import (
	"context"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

// Probe implements [transport.Prober]: a ping-pong of datagrams with the payloads, with only the
// kernel between the two threads.
func (w *worker) Probe(ctx context.Context, id transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	p := w.peers.Get(id)
	return name.Probe(id, w.closed, p != nil && !p.lost, func() (transport.Floor, error) {
		if probe.Kind != transport.ProbeMedium {
			return transport.Floor{}, transport.ErrUnsupported
		}
		size := probe.Forth
		if !probe.Initiate {
			size = probe.Back
		}
		p.pings.Medium = pings{w, p, make([]byte, size)}
		return p.pings.Run(ctx, probe.Initiate, probe.Duration)
	})
}

// pings is the medium of a ping-pong with one peer.
type pings struct {
	worker  *worker
	peer    *peer
	payload []byte
}

func newPings() floor.PingPong {
	return floor.PingPong{Name: "raw datagram ping-pong"}
}

// Post implements [floor.Medium].
func (m pings) Post(number uint64) error {
	return m.worker.send(m.peer, kindPing, number, m.payload)
}

// Take implements [floor.Medium].
func (m pings) Take() (number uint64, ok bool, err error) {
	datagram := m.worker.receive(m.worker.in[0])
	from, kind, token := m.worker.parse(datagram)
	return token, from == m.peer && kind == kindPing, nil
}
