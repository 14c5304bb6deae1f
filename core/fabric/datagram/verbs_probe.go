package datagram

import (
	"context"
	"fmt"

	"transportbench/core/transport"
)

var _ Prober = (*Verbs)(nil)

// Probe implements [Prober] on queue pairs of its own, so that its datagrams do not mix with those
// of the port.
func (p *Verbs) Probe(ctx context.Context, to Remote, probe transport.Probe) (transport.Floor, error) {
	if p.closed {
		return transport.Floor{}, ErrClosed
	}
	remote, err := p.probe.Open(p.remotes[to].probe)
	if err != nil {
		return transport.Floor{}, fmt.Errorf("opening the remote's probe port: %w", err)
	}
	defer p.probe.Release(remote)
	f, err := probePort(ctx, p.probe, remote, probe, &p.probed)
	switch {
	case f.RoundTrip > 0:
		f.Name = "UD ping-pong"
	case f.PerOp > 0:
		f.Name = "UD stream"
	}
	return f, err
}
