package sockets

import (
	"context"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/floor"
	"transportbench/core/transport"
)

var _ transport.Prober = (*worker)(nil)

// Probe implements [transport.Prober] over a socket of its own with the settings of the others.
func (w *worker) Probe(ctx context.Context, id transport.PeerID,
	probe transport.Probe) (transport.Floor, error) {
	p := w.peers.Get(id)
	return name.Probe(id, w.closed, p != nil && p.state != lost, func() (transport.Floor, error) {
		return floor.ProbeSockets(ctx, probe, p.dialProbe, p.acceptProbe)
	})
}

// dialProbe begins to connect the socket of a probe.
func (p *peer) dialProbe() (fd int, greeting []byte, err error) {
	if fd, greeting, err = p.dialFor(useProbe); err != nil {
		err = p.dialError(err)
	}
	return fd, greeting, err
}

// acceptProbe returns the socket of a probe that the peer has dialled, or -1.
func (p *peer) acceptProbe() (fd int, err error) {
	p.w.connect()
	fd, p.probe = p.probe, -1
	return fd, nil
}

// dropProbe closes the socket of a probe.
func (p *peer) dropProbe() {
	if p.probe >= 0 {
		_ = unix.Close(p.probe)
		p.probe = -1
	}
}
