package ucxam

import (
	"context"
	"fmt"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

var _ transport.Prober = (*worker)(nil)

// Probe implements [transport.Prober]: two loops in C bounce a header alone over
// the connection's own lane, and there is no ring, no crossing and no Go in it.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, initiate bool, d time.Duration) (transport.Floor, error) {
	if w.closed {
		return transport.Floor{}, opError("probe", id, transport.ErrClosed)
	}
	if int(id) >= len(w.peers) || w.peers[id] == nil || w.peers[id].state != peerUp {
		return transport.Floor{}, opError("probe", id, transport.ErrPeerDown)
	}
	p := w.peers[id]
	if !initiate {
		session, err := w.ucp.Follow(ctx, int(id), p.probes.followed)
		p.probes.followed = max(p.probes.followed, session)
		if err != nil {
			return transport.Floor{}, opError("probe", id, fmt.Errorf("the peer does not take part: %w", err))
		}
		return transport.Floor{}, nil
	}
	p.probes.led++
	trips, batch, err := w.ucp.Lead(ctx, int(id), p.probes.led, d)
	if err != nil {
		return transport.Floor{}, opError("probe", id, fmt.Errorf("the peer does not take part: %w", err))
	}
	return transport.Floor{
		Name:      "UCX ping-pong in C over " + p.lane.transport,
		RoundTrip: floor.Median(trips),
		Samples:   len(trips) * batch,
	}, nil
}
