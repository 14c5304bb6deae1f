package sockets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
	control "transportbench/core/fabric/endpoint"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// Of two workers the one with the smaller nonce dials. Connect only begins; Poll and Flush go on
// with it through connect. That allocates, which is allowed because nothing is measured before all
// peers are connected.

// handshake is the part of a peer that matters until the connection is up.
type handshake struct {
	began   int64
	waited  int64  // time in which the worker polled and the peer was not connected
	dials   bool   // this side dials
	dialAt  int64  // when to dial anew, because the peer could not be reached; else 0
	hello   []byte // the unsent part
	failure error  // why the peer could not be reached
}

func newHandshake() handshake { return handshake{began: clock.Now()} }

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
	if err := w.peers.CheckNonce(nonce(a.Nonce)); err != nil {
		return err
	}
	p, err := w.newPeer(id, a)
	if err != nil {
		return err
	}
	if p.dials = bytes.Compare(w.nonce[:], a.Nonce) < 0; p.dials {
		if err := p.keepDialing(clock.Now()); err != nil {
			return errors.Join(err, p.end(), p.free())
		}
	}
	w.byIndex = append(w.byIndex, p)
	w.peers.Add(id, nonce(a.Nonce), p)
	w.connecting = append(w.connecting, p)
	w.lastConnect = clock.Now()
	w.connect() // on one host this is often all that is needed
	return nil
}

// dialEvery is how long a dialling side waits after it could not reach the peer.
const dialEvery = 20 * time.Millisecond

// keepDialing dials a peer, or continues to.
func (p *peer) keepDialing(now int64) (err error) {
	switch {
	case p.dialAt > now:
		return nil
	case p.fd < 0:
		p.dialAt = 0
		if err = p.dial(useMessages); err != nil {
			err = p.dialError(err)
		}
	default:
		err = p.sendHello()
	}
	// EAGAIN: connections of others have filled the queue of a Unix socket.
	if !control.Unreachable(err) && !errors.Is(err, unix.EAGAIN) {
		return err
	}
	p.failure, p.dialAt = err, now+int64(dialEvery)
	if p.fd >= 0 {
		err = unix.Close(p.fd)
		p.fd = -1
		return err
	}
	return nil
}

// dial begins to connect a socket for messages.
func (p *peer) dial(use uint32) (err error) {
	p.fd, p.hello, err = p.dialFor(use)
	return err
}

// dialFor begins to connect a socket and returns the hello to send on it.
func (p *peer) dialFor(use uint32) (fd int, greeting []byte, err error) {
	if fd, err = p.w.settings.sock.DialTo(p.address.socket); err != nil {
		return -1, nil, err
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		return -1, nil, errors.Join(fmt.Errorf("getsockname: %w", err), unix.Close(fd))
	}
	h := hello{To: nonce(p.address.Nonce), From: p.w.nonce, Use: use, Port: sock.PortOf(own)}
	return fd, h.encode(), nil
}

// sendHello sends the unsent part of the hello once the socket is connected.
func (p *peer) sendHello() error {
	connected, err := sock.Established(p.fd)
	if err != nil || !connected || len(p.hello) == 0 {
		return err
	}
	n, err := sock.SendBytes(p.fd, p.hello)
	p.hello = p.hello[n:]
	return err
}

// longestWait is how much of the time between two calls of connect counts as waiting: a
// worker that does not poll cannot know that a peer does not connect.
const longestWait = int64(100 * time.Millisecond)

// connect continues the connections that are not up yet.
func (w *worker) connect() {
	if err := w.acceptor.Accept(w.decide); err != nil {
		w.failures = append(w.failures, name.Error("poll", err))
	}
	now := clock.Now()
	passed := min(now-w.lastConnect, longestWait)
	w.lastConnect = now
	w.connecting = slices.DeleteFunc(w.connecting, func(p *peer) bool {
		if p.state != connecting {
			return true
		}
		p.waited += passed
		done, err := p.tryConnect(now)
		if err != nil {
			w.lose(p, err)
		}
		return done || err != nil
	})
}

// tryConnect continues one connection and reports whether it is up.
func (p *peer) tryConnect(now int64) (done bool, err error) {
	if limit := p.w.settings.connectTimeout; p.waited > int64(limit) {
		err := fmt.Errorf("no connection with %v within %v (connect-timeout)", p.address.At, limit)
		if p.failure != nil {
			err = fmt.Errorf("%w: %w", err, p.failure)
		}
		return false, err
	}
	if p.dials {
		if err := p.keepDialing(now); err != nil {
			return false, err
		}
	}
	if p.fd < 0 || len(p.hello) > 0 {
		return false, nil
	}
	p.state = up
	p.w.counters.setupNS += uint64(clock.Now() - p.began)
	if err := p.w.engine.attach(&p.conn); err != nil {
		return false, err
	}
	p.w.engine.send(&p.conn) // what was flushed before
	p.w.engine.submit()
	return true, nil
}

// decide gives an arrival to its peer.
func (w *worker) decide(a *sock.Arrival) sock.Verdict {
	h, ok := decodeHello(a.Hello, w.nonce, sock.PortOf(a.From))
	if !ok {
		return sock.Stranger
	}
	p := w.peers.Find(h.From)
	switch {
	case p == nil:
		return sock.Wait
	case p.state == lost:
	case h.Use == useProbe:
		p.dropProbe()
		p.probe = a.FD
		return sock.Taken
	case !p.dials && p.fd < 0 && p.state == connecting:
		p.fd = a.FD
		return sock.Taken
	}
	return sock.Close
}
