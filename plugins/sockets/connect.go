package sockets

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// Package dial makes the connections; this file implements its interfaces for a worker and a peer.

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, encoded []byte) error {
	return name.PeerError("connect", id, w.begin(id, encoded))
}

// begin begins to connect to a peer.
func (w *worker) begin(id transport.PeerID, encoded []byte) error {
	if w.closed {
		return transport.ErrClosed
	}
	if err := w.peers.CheckID(id); err != nil {
		return err
	}
	if len(w.byIndex) >= w.settings.peers {
		return fmt.Errorf("%w: the transport was opened for %d peers", transport.ErrUnsupported,
			w.settings.peers)
	}
	a, err := w.settings.decodeAddress(encoded)
	if err != nil {
		return err
	}
	if err := w.peers.CheckNonce(dial.Nonce(a.Nonce)); err != nil {
		return err
	}
	p, err := w.newPeer(id, a)
	if err != nil {
		return err
	}
	if err := w.connector.Begin(p); err != nil {
		return errors.Join(err, p.free())
	}
	w.byIndex = append(w.byIndex, p)
	w.peers.Add(id, p.Nonce, p)
	w.peers.Open(id, w.settings.payload, &p.errors)
	w.connect() // on one host this is often all that is needed
	return nil
}

// connect continues the connections that are not up yet.
func (w *worker) connect() {
	if err := w.connector.Accept(); err != nil {
		w.failures = append(w.failures, name.Error("poll", err))
	}
	w.connector.Continue(w.lose)
}

// Pending implements [dial.Peer].
func (p *peer) Pending() *dial.Link { return &p.Link }

// Dial implements [dial.Peer].
func (p *peer) Dial() (err error) {
	p.fd, err = p.DialGreeting(nil)
	return err
}

// CloseSockets implements [dial.Peer].
func (p *peer) CloseSockets() error {
	if p.fd < 0 {
		return nil
	}
	fd := p.fd
	p.fd = -1
	return unix.Close(fd)
}

// Accept implements [dial.Peer].
func (p *peer) Accept(a *sock.Arrival, _ *dial.Hello) bool {
	if p.fd >= 0 {
		return false
	}
	p.fd = a.FD
	return true
}

// Attach implements [dial.Peer].
func (p *peer) Attach() (isUp bool, err error) {
	if p.fd < 0 {
		return false, nil
	}
	p.State = dial.Up
	p.w.counters.setupNS += uint64(clock.Now() - p.Began())
	if err := p.w.engine.attach(&p.conn); err != nil {
		return false, err
	}
	p.w.engine.send(&p.conn) // what was flushed before
	p.w.engine.submit()
	return true, nil
}

var _ transport.Prober = (*worker)(nil)

// Probe implements [transport.Prober] over a socket of its own with the settings of the others.
func (w *worker) Probe(ctx context.Context, id transport.PeerID, probe transport.Probe) (
	transport.Floor, error) {
	p := w.peers.Get(id)
	up := p != nil && p.State != dial.Lost
	return name.Probe(id, w.closed, up, func() (transport.Floor, error) {
		return w.connector.Probe(ctx, p, probe)
	})
}

var _ transport.PathReader = (*worker)(nil)

// Silence implements [transport.PathReader].
func (w *worker) Silence(id transport.PeerID) error {
	if p := w.peers.Get(id); p != nil {
		return p.Silence(p.fd)
	}
	return nil
}
