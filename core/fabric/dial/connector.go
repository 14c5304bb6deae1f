package dial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/sock"
	"transportbench/core/transport"
)

const (
	// dialEvery is how long the dialling side waits after it could not reach the peer.
	dialEvery = 20 * time.Millisecond
	// maxStep is how much of the time between two calls of Continue counts as waiting: a worker
	// that does not poll cannot know that a peer does not connect.
	maxStep = int64(100 * time.Millisecond)
)

// Config configures the connections of a worker.
type Config struct {
	Name           control.Name // of the transport, in errors
	Own            Nonce
	Sockets        *sock.Options
	Payload        int           // bytes of the largest payload
	ConnectTimeout time.Duration // a peer is lost if it is not connected after this time
	// DialError makes the error for a peer at an address that cannot be dialled; nil for one that
	// names the address.
	DialError func(at string, err error) error
}

// Peer is a connection that a [Connector] makes. It embeds a [Link], and is called on the worker's
// thread.
type Peer interface {
	// Pending returns the Link.
	Pending() *Link
	// Dial begins to connect all sockets of the connection, of which none is open, with
	// [Link.Dial] and [Link.DialGreeting].
	Dial() error
	// CloseSockets closes the sockets of a connection that is not up.
	CloseSockets() error
	// Accept takes a socket that the peer has dialled, with its hello. It returns false if the
	// connection needs none.
	Accept(a *sock.Arrival, h *Hello) bool
	// Attach brings the connection up if it has all of its sockets, and reports whether it has.
	// Its error, such as that one of them has ended, ends the connection.
	Attach() (up bool, err error)
	// Socket returns the socket of a connection that is up by which [Connector.Silence] tells
	// whether packets come.
	Socket() int
	// Free releases the memory of a peer that cannot begin to connect.
	Free() error
}

// Connector makes the connections of one worker, whose peers are of type T. A worker that embeds it
// is a [transport.Prober].
type Connector[T any, P interface {
	*T
	Peer
}] struct {
	Acceptor sock.Acceptor
	config   Config
	peers    *control.Peers[T, Nonce]
	pending  []P
	last     int64 // when Continue ran last
}

// NewConnector returns the connector of a worker that listens on a socket, which it owns then.
// expected is the most sockets that peers may have waiting there; peers is the worker's table.
func NewConnector[T any, P interface {
	*T
	Peer
}](c Config, listener, expected int, peers *control.Peers[T, Nonce]) Connector[T, P] {
	return Connector[T, P]{config: c, peers: peers,
		Acceptor: sock.NewAcceptor(listener, c.Sockets, HelloSize, expected)}
}

// NewLink returns the link of a peer that listens at an address; at is its text for errors.
func (c *Connector[T, P]) NewLink(id transport.PeerID, nonce Nonce, address unix.Sockaddr,
	at string) Link {
	return Link{config: &c.config, Nonce: nonce, Errors: c.config.Name.PeerErrors(id),
		address: address, at: at, began: clock.Now(), probe: -1}
}

// Pending returns the peers that are not up yet.
func (c *Connector[T, P]) Pending() []P { return c.pending }

// Connect begins to connect to the worker with a nonce, and enters the peer into this worker's
// table. It calls open, which makes the peer, only if there is room for one.
func (c *Connector[T, P]) Connect(id transport.PeerID, nonce Nonce, open func() (P, error)) (P,
	error) {
	p, err := c.connect(id, nonce, open)
	return p, c.config.Name.PeerError("connect", id, err)
}

func (c *Connector[T, P]) connect(id transport.PeerID, nonce Nonce, open func() (P, error)) (P,
	error) {
	if err := c.peers.Check(id, nonce); err != nil {
		return nil, err
	}
	p, err := open()
	if err != nil {
		return nil, err
	}
	if err := c.begin(p); err != nil {
		return nil, errors.Join(err, p.Free())
	}
	c.peers.Add(id, nonce, p, c.config.Payload, &p.Pending().Errors)
	return p, nil
}

// begin begins to connect a peer. If it fails, the peer's sockets are closed.
func (c *Connector[T, P]) begin(p P) error {
	l := p.Pending()
	c.last = clock.Now()
	if l.Dials = bytes.Compare(c.config.Own[:], l.Nonce[:]) < 0; l.Dials {
		if _, err := c.keepDialing(p, c.last); err != nil {
			l.Stop()
			return errors.Join(err, p.CloseSockets())
		}
	}
	c.pending = append(c.pending, p)
	return nil
}

// Accept accepts the sockets that have come and gives them to their peers. It returns
// [sock.ErrInDmabuf] if this host could not read a hello.
func (c *Connector[T, P]) Accept() error { return c.Acceptor.Accept(c.decide) }

// decide gives an arrival to its peer.
func (c *Connector[T, P]) decide(a *sock.Arrival) sock.Verdict {
	h, ok := DecodeHello(a.Hello, c.config.Own, sock.PortOf(a.From))
	if !ok {
		return sock.Stranger
	}
	p := P(c.peers.Find(h.From))
	if p == nil {
		return sock.Wait
	}
	l := p.Pending()
	switch {
	case l.State == Lost:
	case h.Use == Probe:
		l.dropProbe()
		l.probe = a.FD
		return sock.Taken
	case l.State == Connecting && !l.Dials && p.Accept(a, &h):
		return sock.Taken
	}
	return sock.Close
}

// Since returns the time since Continue ran last, in nanoseconds.
func (c *Connector[T, P]) Since() int64 { return clock.Now() - c.last }

// Continue continues the connections that are not up yet. It calls lose for each that fails.
func (c *Connector[T, P]) Continue(lose func(P, error)) {
	now := clock.Now()
	passed := min(now-c.last, maxStep)
	c.last = now
	c.pending = slices.DeleteFunc(c.pending, func(p P) bool {
		l := p.Pending()
		if l.State != Connecting {
			return true
		}
		l.waited += passed
		up, err := c.try(p, now)
		if err != nil {
			lose(p, err)
		}
		return up || err != nil
	})
}

// try continues one connection and reports whether it is up.
func (c *Connector[T, P]) try(p P, now int64) (up bool, err error) {
	l := p.Pending()
	if limit := c.config.ConnectTimeout; l.waited > int64(limit) {
		err := fmt.Errorf("no connection with %s within %v (connect-timeout)", l.at, limit)
		if l.failure != nil {
			err = fmt.Errorf("%w: %w", err, l.failure)
		}
		return false, err
	}
	if l.Dials {
		if done, err := c.keepDialing(p, now); err != nil || !done {
			return false, err
		}
	}
	return p.Attach()
}

// keepDialing dials a peer, or goes on with that, and reports whether all sockets are connected.
// While the peer cannot be reached, it dials all sockets anew: a hello lists the ports of them all.
func (c *Connector[T, P]) keepDialing(p P, now int64) (done bool, err error) {
	l := p.Pending()
	switch {
	case l.again > now:
		return false, nil
	case !l.dialled:
		l.dialled, l.again = true, 0
		err = p.Dial()
	default:
		done, err = l.greet()
	}
	// EAGAIN: the queue of a Unix socket is full of the connections of others.
	if !control.Unreachable(err) && !errors.Is(err, unix.EAGAIN) {
		return done, err
	}
	l.failure, l.again, l.dialing, l.dialled = err, now+int64(dialEvery), nil, false
	return false, p.CloseSockets()
}

// Interests appends what poll(2) has to watch for connections that are not up: sockets on which
// something arrives, and then those that are being connected. It returns how many of the first kind
// there are, and timeout, shortened to when a peer is to be dialled anew.
func (c *Connector[T, P]) Interests(list []unix.PollFd, timeout time.Duration) (_ []unix.PollFd,
	arrivals int, _ time.Duration) {
	begin := len(list)
	list = c.Acceptor.Interests(list)
	arrivals = len(list) - begin
	for _, p := range c.pending {
		l := p.Pending()
		if l.again > 0 {
			timeout = min(timeout, dialEvery)
		}
		for _, s := range l.dialing {
			list = append(list, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLOUT})
		}
	}
	return list, arrivals, timeout
}

// Probe implements [transport.Prober]. It opens a socket with the settings of the connections.
// Connections that are not up yet make no progress until it returns.
func (c *Connector[T, P]) Probe(ctx context.Context, id transport.PeerID, probe transport.Probe) (
	transport.Floor, error) {
	var l *Link
	if p := P(c.peers.Get(id)); p != nil {
		l = p.Pending()
	}
	return c.config.Name.Probe(id, c.peers.Closed(), l != nil && l.State != Lost,
		func() (transport.Floor, error) {
			dial := func() (fd int, hello []byte, err error) { return l.dial(Probe, nil) }
			return floor.ProbeSockets(ctx, probe, dial, func() (fd int, err error) {
				err = c.Accept()
				fd, l.probe = l.probe, -1
				return fd, err
			})
		})
}

// Silence implements the method of [transport.PathReader].
func (c *Connector[T, P]) Silence(id transport.PeerID) error {
	if p := P(c.peers.Get(id)); p != nil {
		return p.Pending().silence(p.Socket())
	}
	return nil
}

// Close closes the listener and the sockets without a peer.
func (c *Connector[T, P]) Close() error {
	return c.Acceptor.Close()
}
