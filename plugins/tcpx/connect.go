package tcpx

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/dial"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

// Package dial connects the control sockets and those of probes, which arrive at one port. Data
// sockets arrive at another port, by which a NIC can steer them, and carry no hello: the hello of
// the control socket lists the ports that they come from, and matchData finds their peer by these
// ports.

// connector is what a worker needs to connect to its peers. It is embedded in the worker for its
// Probe and Silence.
type connector struct {
	dial.Connector[peer, *peer]
	dataListeners []int        // for data sockets, in the order of their addresses
	dataSockets   []dataSocket // accepted, not matched to a peer yet
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

// originOf returns where the data sockets come from that a hello lists. others are the peer's
// addresses of data sockets, if they are known.
func originOf(a *sock.Arrival, h *dial.Hello, others []netip.AddrPort) origin {
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
	a, err := w.settings.decodeAddress(encoded)
	if err != nil {
		return name.PeerError("connect", id, err)
	}
	_, err = w.connector.Connect(id, dial.Nonce(a.Nonce), func() (*peer, error) {
		return w.newPeer(id, a)
	})
	if err == nil {
		w.connect() // on one host this is often all that is needed
	}
	return err
}

// connect continues the connections that are not up yet.
func (w *worker) connect() {
	w.acceptAll()
	w.connector.Continue(w.lose)
}

// Dial implements [dial.Peer].
func (p *peer) Dial() (err error) {
	ports := make([]uint16, p.w.settings.sockets)
	for i := range ports {
		fd, err := p.Link.Dial(sock.ToKernel(p.address.dataAddress(i)))
		if err != nil {
			return err
		}
		p.sockets[1+i] = fd
		if ports[i], err = sock.LocalPort(fd); err != nil {
			return err
		}
	}
	p.sockets[0], err = p.DialGreeting(ports)
	return err
}

// CloseSockets implements [dial.Peer].
func (p *peer) CloseSockets() (err error) {
	for i, fd := range p.sockets {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
			p.sockets[i] = -1
		}
	}
	return err
}

// Accept implements [dial.Peer].
func (p *peer) Accept(a *sock.Arrival, h *dial.Hello) bool {
	if p.sockets[0] >= 0 {
		return false
	}
	p.sockets[0], p.from = a.FD, originOf(a, h, p.address.Data)
	return true
}

// Attach implements [dial.Peer]. It gives the sockets to the conn once all have come.
func (p *peer) Attach() (isUp bool, err error) {
	if !slices.Contains(p.sockets, -1) {
		return true, p.attach()
	}
	// A socket that ended before the others came belongs to a peer that will not dial them any
	// more.
	for _, fd := range p.sockets {
		if fd >= 0 {
			if err := sock.Peek(fd); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// attach gives a peer's sockets to its conn, which is up then.
func (p *peer) attach() error {
	w, controlFD := p.w, p.sockets[0]
	err := p.conn.Attach(controlFD, p.sockets[1:])
	for i := range p.sockets {
		p.sockets[i] = -1
	}
	p.State = dial.Up
	if err != nil {
		return err
	}
	w.counters.SetupNS += uint64(clock.Now() - p.Began())
	if w.settings.zeroCopyTo(p.address.At.Addr()) {
		if err := p.conn.UseZeroCopy(); err != nil {
			return err
		}
	}
	if w.source.nic != nil {
		if err := p.conn.UseDmabufs(w.settings.memory.NIC()); err != nil {
			return err
		}
	}
	if err := p.conn.StartHelpers(&w.notifier); err != nil {
		return err
	}
	return w.watch(controlFD, uint32(p.id))
}

// strangersHeld is how many sockets of strangers the listener for data sockets may hold.
const strangersHeld = 64

// acceptAll accepts the sockets that have come and finds their peers. Of data sockets that may be
// strangers' it keeps the latest: a peer's socket is listed in a hello at once.
func (w *worker) acceptAll() {
	if err := w.connector.Accept(); err != nil {
		w.failures = append(w.failures, name.Error("poll", err))
	}
	// Peers, other than strangers, have no more data sockets waiting than those of all connections
	// and their probes.
	limit := 2*w.settings.peers*(w.settings.sockets+1) + strangersHeld
	for number, listener := range w.connector.dataListeners {
		for range limit {
			fd, from, err := w.settings.sock.Accept(listener)
			if err != nil || fd < 0 {
				break
			}
			w.connector.dataSockets = append(w.connector.dataSockets,
				dataSocket{fd: fd, from: from, listener: number, since: clock.Now()})
		}
	}
	w.connector.dataSockets = slices.DeleteFunc(w.connector.dataSockets, w.matchData)
	surplus := len(w.connector.dataSockets) - limit
	w.connector.dataSockets = slices.DeleteFunc(w.connector.dataSockets, func(d dataSocket) bool {
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
	w.connector.Acceptor.Strangers++
	_ = unix.Close(fd)
}

// listed reports whether a hello lists a data socket.
func (w *worker) listed(d dataSocket) bool {
	return slices.ContainsFunc(w.connector.Acceptor.Waiting, func(a *sock.Arrival) bool {
		h, ok := dial.DecodeHello(a.Hello, w.own, uint32(a.Addr().Port()))
		if !ok {
			return false
		}
		var others []netip.AddrPort
		if p := w.peers.Find(h.From); p != nil {
			others = p.address.Data
		}
		return originOf(a, &h, others).index(d, len(w.connector.dataListeners)) >= 0
	})
}

// matchData gives a data socket to its peer, or closes it, and reports whether it did
// either. It waits as long as an arrival that lists it waits, and otherwise for timeout.
func (w *worker) matchData(d dataSocket) bool {
	for _, p := range w.connector.Pending() {
		i := p.from.index(d, len(w.connector.dataListeners))
		if i >= 0 && 1+i < len(p.sockets) && p.sockets[1+i] < 0 && p.State == dial.Connecting {
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

// Socket implements [dial.Peer].
func (p *peer) Socket() int { return p.conn.ControlFD() }

// Free implements [dial.Peer].
func (p *peer) Free() error {
	p.conn.Leave()
	return p.w.freeMemory(p)
}

var (
	_ transport.Prober     = (*worker)(nil)
	_ transport.PathReader = (*worker)(nil)
)
