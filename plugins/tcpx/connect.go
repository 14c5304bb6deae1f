package tcpx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
	control "transportbench/core/fabric/endpoint"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// Of two workers the one with the smaller nonce dials all sockets of a connection.
//
// Control sockets and probes arrive at one port, and their hello names the dialling worker and
// the use of the socket. Data sockets arrive at another port, by which a NIC can steer them, and
// carry no hello: the control socket's hello lists the ports that they come from, and matchData
// finds their peer by these ports.
//
// Connect only begins; Poll and Flush go on with it through connect. That allocates, which
// is allowed because nothing is measured before all peers are connected.

// connector is what a worker needs to connect to its peers.
type connector struct {
	acceptor      sock.Acceptor // of control sockets and probes
	dataListeners []int         // for data sockets, in the order of their addresses
	connecting    []*peer       // not up yet
	lastConnect   int64         // when connect ran last
	dataSockets   []dataSocket  // accepted, not matched to a peer yet
}

// handshake is the part of a peer that matters until the connection is up.
type handshake struct {
	began   int64
	waited  int64 // time in which the worker polled and the peer was not connected
	sockets []int // not attached yet: the control socket first; -1 for none
	from    origin
	dialing []dialing // the control socket last
	dials   bool      // this side dials
	dialAt  int64     // when to dial anew, because the peer could not be reached; else 0
	failure error     // the last such failure
}

func newHandshake(s *settings) handshake {
	return handshake{began: clock.Now(), sockets: slices.Repeat([]int{-1}, s.sockets+1)}
}

// dialing is a dialled socket that is not connected or has not sent all of its hello.
type dialing struct {
	fd    int
	hello []byte // the unsent part; empty for a data socket
}

// dataSocket is an accepted data socket without a peer.
type dataSocket struct {
	fd       int
	from     netip.AddrPort
	listener int // number of the one at which it arrived
	since    int64
}

// origin is where the data sockets of a connection come from: the address of the control socket, or
// others of the peer.
type origin struct {
	address netip.Addr
	others  []netip.AddrPort
	ports   [maxSockets]uint16 // in the order of the sockets; 0 for none
}

// origin returns where the data sockets come from that the hello of an arrival lists. others are
// the peer's addresses of data sockets, if they are known.
func (h *hello) origin(a *sock.Arrival, others []netip.AddrPort) origin {
	return origin{address: a.Addr().Addr(), others: others, ports: h.Ports}
}

// index returns the number of the data socket that comes from an address to the listener with this
// number of the listeners, or -1. Sockets from different addresses may have the same port.
func (o origin) index(d dataSocket, listeners int) int {
	if o.address != d.from.Addr() && !slices.ContainsFunc(o.others,
		func(at netip.AddrPort) bool { return at.Addr() == d.from.Addr() }) {
		return -1
	}
	for i := d.listener; i < len(o.ports); i += listeners {
		if o.ports[i] == d.from.Port() {
			return i
		}
	}
	return -1
}

// listen makes a listening socket on a port of an address, or on a free one for 0.
func (s *settings) listen(address netip.Addr, port uint16) (fd int, at netip.AddrPort, err error) {
	options := s.sock
	options.Address = address
	fd, at, err = options.Listen(port)
	switch {
	case err == nil:
		return fd, at, nil
	case port != 0 && errors.Is(err, unix.EADDRINUSE):
		err = refuse("data-port", "port %d of %s is taken (`ss -tanp sport = %d` shows by which "+
			"process); use another one, or 0 for any, which ranks that share an address need", port,
			address, port)
	case port != 0 && errors.Is(err, unix.EACCES):
		err = refuse("data-port", "port %d is for privileged processes; use 1024 or more", port)
	default:
		option := "address"
		if address != s.sock.Address {
			option = "more-addresses"
		}
		err = refuse(option, "this host cannot listen on %s: %v", address, err)
	}
	return -1, at, err
}

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
	if w.peers.Len() >= w.settings.peers {
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
			return errors.Join(err, p.closeSockets(), w.freeMemory(p))
		}
	}
	w.peers.Add(id, nonce(a.Nonce), p)
	w.connecting = append(w.connecting, p)
	w.lastConnect = clock.Now()
	w.connect() // on one host this is often all that is needed
	return nil
}

// dial begins to connect all sockets of a peer.
func (p *peer) dial() error {
	options := &p.w.settings.sock
	h := hello{To: nonce(p.address.Nonce), From: p.w.nonce, Use: useControl}
	for i := range p.w.settings.sockets {
		fd, err := options.Dial(p.address.dataAddress(i))
		if err != nil {
			return err
		}
		p.sockets[1+i] = fd
		p.dialing = append(p.dialing, dialing{fd: fd})
		if h.Ports[i], err = sock.LocalPort(fd); err != nil {
			return err
		}
	}
	fd, err := options.Dial(p.address.At)
	if err != nil {
		return err
	}
	p.sockets[0] = fd
	if h.Port, err = sock.LocalPort(fd); err != nil {
		return err
	}
	p.dialing = append(p.dialing, dialing{fd: fd, hello: h.encode()})
	return nil
}

// dialEvery is how long a dialling side waits after it could not reach the peer.
const dialEvery = int64(20 * time.Millisecond)

// keepDialing dials a peer, or continues to. While the peer cannot be reached, it dials all sockets
// anew: a hello lists the ports of them all.
func (p *peer) keepDialing(now int64) (err error) {
	switch {
	case p.dialAt > now:
		return nil
	case slices.Contains(p.sockets, -1):
		p.dialAt = 0
		err = p.dial()
	default:
		err = p.sendHellos()
	}
	if !control.Unreachable(err) {
		return err
	}
	p.failure, p.dialAt, p.dialing = err, now+dialEvery, nil
	return p.dropSockets()
}

// longestWait is how much of the time between two calls of connect counts as waiting: a
// worker that does not poll cannot know that a peer does not connect.
const longestWait = int64(100 * time.Millisecond)

// connect continues the connections that are not up yet.
func (w *worker) connect() {
	w.acceptAll()
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
		if err := p.keepDialing(now); err != nil || p.dialAt > 0 || len(p.dialing) > 0 {
			return false, err
		}
	}
	if !slices.Contains(p.sockets, -1) {
		return true, p.attach()
	}
	// A socket that ended before the others came belongs to a peer that will not dial
	// them any more.
	for _, fd := range p.sockets {
		if fd >= 0 {
			if err := sock.Peek(fd); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// sendHellos sends the unsent parts of hellos, and removes the sockets that are connected and done.
// The hello waits for the sockets before it: the peer takes it as the word that all it lists will
// come.
func (p *peer) sendHellos() error {
	left := p.dialing[:0]
	for _, d := range p.dialing {
		connected, err := sock.Established(d.fd)
		if err != nil {
			return err
		}
		if connected && len(d.hello) > 0 && len(left) == 0 {
			n, err := sock.SendBytes(d.fd, d.hello)
			if err != nil {
				return err
			}
			d.hello = d.hello[n:]
		}
		if !connected || len(d.hello) > 0 {
			left = append(left, d)
		}
	}
	p.dialing = left
	return nil
}

// attach gives a peer's sockets to its connection, which is up then.
func (p *peer) attach() error {
	w, controlFD := p.w, p.sockets[0]
	err := p.conn.attach(controlFD, p.sockets[1:])
	for i := range p.sockets {
		p.sockets[i] = -1
	}
	p.state = up
	if err != nil {
		return err
	}
	w.counters.setupNS += uint64(clock.Now() - p.began)
	if w.settings.zeroCopyTo(p.address.At.Addr()) {
		if err := p.conn.useZeroCopy(); err != nil {
			return err
		}
	}
	if err := p.conn.startHelpers(&w.notifier); err != nil {
		return err
	}
	return w.watch(controlFD, uint32(p.id))
}

// strangersHeld is how many sockets of strangers the listener for data sockets may hold.
const strangersHeld = 64

// acceptAll accepts the sockets that have come and finds their peers. Of data sockets that may be
// strangers' it keeps the latest: a peer's socket is listed in a hello at once.
func (w *worker) acceptAll() {
	if err := w.acceptor.Accept(w.decide); err != nil {
		w.failures = append(w.failures, name.Error("poll", err))
	}
	// Peers, other than strangers, have no more data sockets waiting than those of all connections
	// and their probes.
	most := 2*w.settings.peers*(w.settings.sockets+1) + strangersHeld
	for number, listener := range w.dataListeners {
		for range most {
			fd, from, err := w.settings.sock.Accept(listener)
			if err != nil || fd < 0 {
				break
			}
			w.dataSockets = append(w.dataSockets, dataSocket{fd: fd, from: from, listener: number,
				since: clock.Now()})
		}
	}
	w.dataSockets = slices.DeleteFunc(w.dataSockets, w.matchData)
	surplus := len(w.dataSockets) - most
	w.dataSockets = slices.DeleteFunc(w.dataSockets, func(d dataSocket) bool {
		drop := surplus > 0 && !w.listed(d)
		if drop {
			surplus--
			w.dropStranger(d.fd)
		}
		return drop
	})
}

// dropStranger closes a data socket that belongs to no peer.
func (w *worker) dropStranger(fd int) {
	w.acceptor.Strangers++
	_ = unix.Close(fd)
}

// listed reports whether a hello lists a data socket.
func (w *worker) listed(d dataSocket) bool {
	return slices.ContainsFunc(w.acceptor.Waiting, func(a *sock.Arrival) bool {
		h, ok := decodeHello(a.Hello, w.nonce, a.Addr().Port())
		if !ok {
			return false
		}
		var others []netip.AddrPort
		if p := w.peers.Find(h.From); p != nil {
			others = p.address.Data
		}
		return h.origin(a, others).index(d, len(w.dataListeners)) >= 0
	})
}

// decide gives an arrival to its peer.
func (w *worker) decide(a *sock.Arrival) sock.Verdict {
	h, ok := decodeHello(a.Hello, w.nonce, a.Addr().Port())
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
	case p.sockets[0] < 0 && p.state == connecting:
		p.sockets[0], p.from = a.FD, h.origin(a, p.address.Data)
		return sock.Taken
	}
	return sock.Close
}

// matchData gives a data socket to its peer, or closes it, and reports whether it did
// either. It waits as long as an arrival that lists it waits, and otherwise for timeout.
func (w *worker) matchData(d dataSocket) bool {
	for _, p := range w.connecting {
		if i := p.from.index(d, len(w.dataListeners)); i >= 0 && 1+i < len(p.sockets) &&
			p.sockets[1+i] < 0 && p.state == connecting {
			p.sockets[1+i] = d.fd
			return true
		}
	}
	if (w.listed(d) || clock.Now()-d.since <= int64(w.settings.sock.Timeout)) && !sock.Ended(d.fd) {
		return false
	}
	w.dropStranger(d.fd)
	return true
}
