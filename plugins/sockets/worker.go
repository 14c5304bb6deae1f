package sockets

import (
	"encoding/json"
	"errors"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/calltable"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// worker is one thread's connections. worker_datapath.go has what the measured loop calls.
type worker struct {
	settings *settings
	address  []byte
	engine   engine
	notifier sock.Notifier
	peers    control.Peers[peer, dial.Nonce]
	byIndex  []*peer // by conn.index

	connector

	dirty     []*peer // posted to since the last Flush
	arrived   []*peer // with bytes or an end that Poll has not handled
	delivered []*peer // whose messages the last Poll handed out
	lost      control.LostPeers
	failures  []error // that Poll has not returned yet
	polls     uint
	pollFD    []unix.PollFd

	destroyed bool
	counters  counters
	_         padding
}

// padding keeps the next object on the heap, which may be another thread's, off the cache lines of
// this one and off those that the processor fetches with them.
type padding [128]byte

// peer is one connection.
type peer struct {
	conn
	dial.Link
	w        *worker
	id       transport.PeerID
	calls    calltable.Calls
	requests calltable.Requests
	isDirty  bool
	_        padding
}

func newWorker(s *settings, index int) (*worker, error) {
	w := &worker{settings: s, notifier: sock.Notifier{FD: -1}, lost: control.NewLostPeers(s.peers),
		dirty: make([]*peer, 0, s.peers), arrived: make([]*peer, 0,
			s.peers), delivered: make([]*peer, 0, s.peers),
		failures: make([]error, 0, s.peers)}
	w.connector.Acceptor.Listener = -1
	if err := w.open(index); err != nil {
		return nil, errors.Join(err, w.Close(), w.destroy())
	}
	return w, nil
}

// open acquires what a worker needs. If it fails, Close and destroy release what it has
// acquired.
func (w *worker) open(index int) error {
	s := w.settings
	own := dial.NewNonce()
	w.peers = control.NewPeers[peer](maxPeers, s.peers, own)
	at := s.network.local(s, own, index)
	fd, bound, err := s.sock.ListenAt(at)
	if err != nil {
		return s.listenError(at, err)
	}
	// Each peer has a connection and one for a probe.
	w.connector = dial.NewConnector(dial.Config{Name: name, Own: own, Sockets: &s.sock,
		Payload: s.payload, ConnectTimeout: s.connectTimeout, DialError: dialError}, fd, 2*s.peers,
		&w.peers)
	a := address{Nonce: own[:], Network: s.network.name, InFlight: s.inFlight, Payload: s.payload}
	if a.At, err = s.network.announce(s, bound); err != nil {
		return err
	}
	if w.address, err = json.Marshal(a); err != nil {
		return err
	}
	if err := w.notifier.Open(); err != nil {
		return err
	}
	w.engine, err = enginesByName[s.engine](w)
	return err
}

// newPeer makes the memory of a connection.
func (w *worker) newPeer(id transport.PeerID, a address) (p *peer, err error) {
	s := w.settings
	p = &peer{w: w, id: id, Link: w.connector.NewLink(id, dial.Nonce(a.Nonce), a.socket, a.At),
		conn:  conn{fd: -1, index: len(w.byIndex)},
		calls: calltable.NewCalls(s.inFlight), requests: calltable.NewRequests(s.inFlight)}
	if p.out.ring, err = newRing(s.buffer); err != nil {
		return nil, err
	}
	if p.in.ring, err = newRing(s.buffer); err != nil {
		return nil, errors.Join(err, p.out.ring.free())
	}
	return p, nil
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// lose ends a connection. Poll reports the loss, preceded by the error if the peer broke the
// protocol.
func (w *worker) lose(p *peer, err error) {
	if p.State == dial.Lost {
		return
	}
	w.peers.Shut(p.id)
	switch {
	case errors.Is(err, transport.ErrCorrupt):
		w.failures = append(w.failures, p.Errors.Corrupt)
	case errors.Is(err, transport.ErrUnavailable):
		w.failures = append(w.failures, name.PeerError("poll", p.id, err))
	}
	w.lost.Add(p.id)
	_ = p.end(err)
}

// end closes the sockets of a connection, which is lost for the reason in loss.
func (p *peer) end(loss error) (err error) {
	p.Stop()
	p.w.counters.retransmits += p.retransmits()
	if p.State == dial.Up {
		p.SetLost(loss, p.fd)
		err = p.w.engine.detach(&p.conn)
		p.fd = -1
		return err
	}
	p.SetLost(loss, -1)
	return p.CloseSockets()
}

// Close implements [transport.Worker]. Payloads that Poll handed out stay readable until
// the transport closes.
func (w *worker) Close() error {
	if !w.peers.Close() {
		return nil
	}
	var errs []error
	for _, p := range w.byIndex {
		if p.State != dial.Lost {
			errs = append(errs, p.end(transport.ErrClosed))
		}
	}
	if w.engine != nil {
		errs = append(errs, w.engine.close())
	}
	return errors.Join(append(errs, w.connector.Close())...)
}

// destroy releases what Close has left.
func (w *worker) destroy() error {
	if w.destroyed {
		return nil
	}
	w.destroyed = true
	errs := []error{w.notifier.Close()}
	for _, p := range w.byIndex {
		errs = append(errs, p.Free())
	}
	return errors.Join(errs...)
}
