package erpc

import (
	"context"
	"fmt"
	"time"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// Probe implements [transport.Prober]: the floor is that of the port's datagrams.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, initiate bool, d time.Duration) (transport.Floor, error) {
	if w.closed {
		return transport.Floor{}, opError("probe", id, transport.ErrClosed)
	}
	if int(id) >= len(w.peers) || w.peers[id] == nil || w.peers[id].state == lost {
		return transport.Floor{}, opError("probe", id, transport.ErrPeerDown)
	}
	prober, ok := w.port.(datagram.Prober)
	if !ok {
		return transport.Floor{}, opError("probe", id, transport.ErrUnsupported)
	}
	floor, err := prober.Probe(ctx, w.peers[id].remote, initiate, d)
	if err != nil {
		return transport.Floor{}, opError("probe", id, fmt.Errorf("the peer does not take part: %w", err))
	}
	return floor, nil
}
