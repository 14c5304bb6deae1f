package main

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// driver opens the transport.
type driver struct{}

// Info implements [transport.Driver].
func (driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: version,
		Summary:      "frames over one TCP connection for each peer",
		Choose:       "to see how a transport is written",
		Groups:       []transport.Group{transport.GroupSockets},
		Providers:    []string{"tcp"},
		Capabilities: capabilities,
		Limits:       transport.Limits{MaxPayload: maxPayload, Peers: maxPeers},
		Options:      schema,
		Roles:        roles,
		References:   references,
	}
}

// Open implements [transport.Driver].
func (driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	s, err := resolve(cfg)
	if err != nil {
		return nil, name.Error("open", err)
	}
	return &endpoint{s, control.NewWorkers[*worker](name, cfg.Workers)}, nil
}

// endpoint is the transport of one process.
type endpoint struct {
	settings
	workers *control.Workers[*worker]
}

// Properties implements [transport.Transport].
func (e *endpoint) Properties() transport.Properties {
	return transport.Properties{Provider: "tcp", Medium: transport.MediumTCP,
		Capabilities: capabilities, Integrity: "checksums of TCP",
		Limits: transport.Limits{MaxPayload: e.payload, Peers: maxPeers}}
}

// NewWorker implements [transport.Transport].
func (e *endpoint) NewWorker(index int) (transport.Worker, error) {
	return e.workers.New(index, func() (*worker, error) { return newWorker(&e.settings) })
}

// Close implements [transport.Transport].
func (e *endpoint) Close() error {
	return e.workers.Close(func(workers []*worker) error {
		return control.Each(workers, (*worker).Close)
	})
}

// worker is the connections of one thread. framed_datapath.go has the methods that the measured
// loop calls.
type worker struct {
	*settings
	address []byte
	connector
	peers    control.Peers[peer, dial.Nonce] // by PeerID, and by the nonce in an address
	lost     control.LostPeers
	first    int // the peer at which the next Poll begins
	polls    int
	counters counters
}

// peer is one connection.
type peer struct {
	dial.Link
	id      transport.PeerID
	fd      int // -1 if there is none
	in, out buffer
	calls   int   // that wait for a reply
	ended   error // of the connection, nothing of which is unread in the kernel
	broken  bool  // nothing can be sent
}

func newWorker(s *settings) (*worker, error) {
	own := dial.NewNonce()
	fd, at, err := s.sockets.Listen(0)
	if err != nil {
		return nil, err
	}
	w := &worker{settings: s, address: encode(own[:], at),
		peers: control.NewPeers[peer](maxPeers, s.peers, own), lost: control.NewLostPeers(s.peers)}
	w.connector = dial.NewConnector(dial.Config{Name: name, Own: own, Sockets: &s.sockets,
		Payload: s.payload, ConnectTimeout: s.connectTimeout}, fd, 2*s.peers, &w.peers)
	return w, nil
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// connector is embedded in the worker for its Probe and Silence.
type connector = dial.Connector[peer, *peer]

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, address []byte) error {
	nonce, at, err := decode(address)
	if err != nil {
		return name.PeerError("connect", id, err)
	}
	_, err = w.connector.Connect(id, nonce, func() (*peer, error) {
		return &peer{Link: w.connector.NewLink(id, nonce, sock.ToKernel(at), at.String()), id: id,
			fd: -1, in: newBuffer(w.buffer), out: newBuffer(w.buffer)}, nil
	})
	return err
}

// keepConnecting accepts connections, and continues those that are not up yet.
func (w *worker) keepConnecting() {
	_ = w.connector.Accept() // fails only in mode devmem of another transport
	w.connector.Continue(w.lose)
}

// Dial implements [dial.Peer].
func (p *peer) Dial() (err error) {
	p.fd, err = p.DialGreeting(nil)
	return err
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
func (p *peer) Attach() (up bool, err error) {
	if p.fd >= 0 {
		p.State = dial.Up
	}
	return p.fd >= 0, nil
}

// Socket implements [dial.Peer].
func (p *peer) Socket() int { return p.fd }

// Free implements [dial.Peer].
func (p *peer) Free() error { return nil }

// CloseSockets implements [dial.Peer].
func (p *peer) CloseSockets() error {
	fd := p.fd
	if p.fd = -1; fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// lose ends a connection, for Poll to report.
func (w *worker) lose(p *peer, err error) {
	w.counters.retransmits += p.retransmits()
	w.peers.Shut(p.id)
	w.lost.Add(p.id)
	p.Stop()
	p.SetLost(err, p.fd)
	_ = p.CloseSockets()
}

// Close implements [transport.Worker]. It sends no farewell: the kernel ends the connections, as it
// does when the process dies.
func (w *worker) Close() error {
	if !w.peers.Close() {
		return nil
	}
	errs := []error{w.connector.Close()}
	for _, p := range w.peers.ByID {
		if p != nil {
			p.Stop()
			errs = append(errs, p.CloseSockets())
		}
	}
	return errors.Join(errs...)
}
