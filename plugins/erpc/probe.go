package erpc

import (
	"context"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// Probe implements [transport.Prober]: the floor of the port's datagrams.
func (w *worker) Probe(ctx context.Context, id transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	p := w.peers.Get(id)
	return name.Probe(id, w.peers.Closed(), p != nil && !p.isLost(),
		func() (transport.Floor, error) {
			prober, ok := w.port.(datagram.Prober)
			if !ok {
				return transport.Floor{}, transport.ErrUnsupported
			}
			return prober.Probe(ctx, p.remote, probe)
		})
}
