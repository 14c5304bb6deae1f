package sockets

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// Package dial makes the connections; this file implements its interfaces for a worker and a peer.

// connector is embedded in the worker for its Probe and Silence.
type connector = dial.Connector[peer, *peer]

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, encoded []byte) error {
	a, err := w.settings.decodeAddress(encoded)
	if err != nil {
		return name.PeerError("connect", id, err)
	}
	p, err := w.connector.Connect(id, dial.Nonce(a.Nonce), func() (*peer, error) {
		return w.newPeer(id, a)
	})
	if err != nil {
		return err
	}
	w.byIndex = append(w.byIndex, p)
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

// Socket implements [dial.Peer].
func (p *peer) Socket() int { return p.fd }

// Free implements [dial.Peer]: it releases the memory of a connection that has ended.
func (p *peer) Free() error { return errors.Join(p.out.ring.free(), p.in.ring.free()) }

var (
	_ transport.Prober     = (*worker)(nil)
	_ transport.PathReader = (*worker)(nil)
)
