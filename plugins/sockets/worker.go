package sockets

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	control "transportbench/core/fabric/endpoint"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// worker is one thread's connections. worker_datapath.go has what the measured loop calls.
type worker struct {
	settings *settings
	nonce    nonce // tells this worker from every other
	address  []byte
	engine   engine
	notifier sock.Notifier
	peers    control.Peers[peer, nonce]
	byIndex  []*peer // by conn.index

	acceptor    sock.Acceptor
	connecting  []*peer // not up yet
	lastConnect int64   // when connect ran last

	dirty     []*peer // posted to since the last Flush
	arrived   []*peer // with bytes or an end that Poll has not dealt with
	delivered []*peer // whose messages the last Poll handed out
	lost      control.LostPeers
	failures  []error // that Poll has not returned yet
	polls     uint
	pollFD    []unix.PollFd

	closed    bool
	destroyed bool
	counters  counters
	_         padding
}

// padding keeps the next object on the heap, which may be another thread's, off the cache lines of
// this one and off those that the processor fetches with them.
type padding [128]byte

// peerState is the state of a connection.
type peerState uint8

const (
	connecting peerState = iota
	up
	lost
)

// peer is one connection.
type peer struct {
	conn
	w       *worker
	id      transport.PeerID
	address address
	state   peerState
	handshake
	probe int // socket on which the peer wants to probe; -1 for none

	calls          pendingCalls
	pendingReplies []bool // by the number of the peer's call: delivered and not answered
	isDirty        bool
	errors         control.PeerErrors
	loss           error // why, in state lost
	_              padding
}

func newWorker(s *settings, index int) (*worker, error) {
	w := &worker{settings: s, acceptor: sock.Acceptor{Listener: -1},
		notifier: sock.Notifier{FD: -1}, lost: control.NewLostPeers(s.peers),
		dirty: make([]*peer, 0, s.peers), arrived: make([]*peer, 0, s.peers),
		delivered: make([]*peer, 0, s.peers),
		failures:  make([]error, 0, s.peers)}
	_, _ = rand.Read(w.nonce[:]) // never fails
	w.peers = control.NewPeers[peer](maxPeers, w.nonce)
	if err := w.open(index); err != nil {
		return nil, errors.Join(err, w.Close(), w.destroy())
	}
	return w, nil
}

// open acquires what a worker needs. If it fails, Close and destroy release what it has
// acquired.
func (w *worker) open(index int) error {
	s := w.settings
	at := s.network.local(s, w.nonce, index)
	fd, own, err := s.sock.ListenAt(at)
	if err != nil {
		return s.listenError(at, err)
	}
	// Each peer has a connection and one for a probe.
	w.acceptor = sock.NewAcceptor(fd, &s.sock, helloSize, 2*s.peers)
	a := address{Nonce: w.nonce[:], Network: s.network.name, InFlight: s.inFlight,
		Payload: s.payload}
	if a.At, err = s.network.announce(s, own); err != nil {
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
	p = &peer{w: w, id: id, address: a, handshake: newHandshake(), probe: -1,
		conn:  conn{fd: -1, index: len(w.byIndex)},
		calls: newPendingCalls(s.inFlight), pendingReplies: make([]bool, s.inFlight),
		errors: name.PeerErrors(id)}
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

var _ transport.SilenceReporter = (*worker)(nil)

// Silence implements [transport.SilenceReporter].
func (w *worker) Silence(id transport.PeerID) error {
	p := w.peers.Get(id)
	switch {
	case p == nil:
		return nil
	case p.state == connecting && p.failure != nil:
		return fmt.Errorf("no connection yet (connect-timeout is %v): %w",
			w.settings.connectTimeout, p.failure)
	case p.state == connecting:
		return fmt.Errorf("no connection with %v yet (connect-timeout is %v)", p.address.At,
			w.settings.connectTimeout)
	case p.state == up && sock.Silence(p.fd) > 2*time.Second: // else keepalive is answered
		return p.silence()
	}
	return p.loss
}

// silence returns for how long no packet has come.
func (p *peer) silence() error {
	return fmt.Errorf("no packet from %v for %v (timeout is %v)", p.address.At,
		sock.Silence(p.fd).Round(10*time.Millisecond), p.w.settings.sock.Timeout)
}

// lose ends a connection. Poll reports the loss, and before it the error if the peer broke the
// protocol.
func (w *worker) lose(p *peer, err error) {
	if p.state == lost {
		return
	}
	if p.state == up && control.Unreachable(err) {
		err = fmt.Errorf("%w: %w", p.silence(), err)
	}
	p.loss = err
	switch {
	case errors.Is(err, transport.ErrCorrupt):
		w.failures = append(w.failures, p.errors.Corrupt)
	case errors.Is(err, transport.ErrUnavailable):
		w.failures = append(w.failures, name.PeerError("poll", p.id, err))
	}
	w.lost.Add(p.id)
	_ = p.end()
}

// end closes the sockets of a connection, which is lost then.
func (p *peer) end() (err error) {
	p.dropProbe()
	p.w.counters.retransmits += p.retransmits()
	switch {
	case p.state == up:
		err = p.w.engine.detach(&p.conn)
	case p.fd >= 0:
		err = unix.Close(p.fd)
	}
	p.state, p.fd = lost, -1
	return err
}

// free releases the memory of a connection that has ended.
func (p *peer) free() error { return errors.Join(p.out.ring.free(), p.in.ring.free()) }

// Close implements [transport.Worker]. Payloads that Poll handed out stay readable until
// the transport closes.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	var errs []error
	for _, p := range w.byIndex {
		if p.state != lost {
			errs = append(errs, p.end())
		}
	}
	if w.engine != nil {
		errs = append(errs, w.engine.close())
	}
	return errors.Join(append(errs, w.acceptor.Close())...)
}

// destroy releases what Close has left.
func (w *worker) destroy() error {
	if w.destroyed {
		return nil
	}
	w.destroyed = true
	errs := []error{w.notifier.Close()}
	for _, p := range w.byIndex {
		errs = append(errs, p.free())
	}
	return errors.Join(errs...)
}
