package tcpx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// Of two workers the one with the smaller nonce dials all sockets of a connection, and
// says with the first bytes of each who it is and what the socket is for. Poll drives
// that; it allocates then, before there is anything to measure.

// dialing is a socket that was dialled and has not said hello in full.
type dialing struct {
	fd    int
	hello []byte // what is left of it
}

// arrival is a socket that was accepted.
type arrival struct {
	fd     int
	hello  []byte
	have   int
	since  int64
	caller [nonceSize]byte // once hello is complete
	use    uint8
}

// Connect implements [transport.Worker].
func (w *worker) Connect(_ context.Context, id transport.PeerID, encoded []byte) error {
	if w.closed {
		return opError("connect", id, transport.ErrClosed)
	}
	if int(id) < len(w.peers) && w.peers[id] != nil {
		return opError("connect", id, errors.New("already connected"))
	}
	if int(id) >= maxPeers || len(w.byNonce) >= w.settings.peers {
		return opError("connect", id, fmt.Errorf("%w: the transport was opened for %d peers, numbered below %d", transport.ErrUnsupported, w.settings.peers, maxPeers))
	}
	a, err := w.settings.decodeAddress(encoded)
	if err != nil {
		return opError("connect", id, err)
	}
	nonce := [nonceSize]byte(a.Nonce)
	if _, twice := w.byNonce[nonce]; twice || bytes.Equal(a.Nonce, w.nonce) {
		return opError("connect", id, errors.New("the address is connected already, or the worker's own"))
	}
	p, err := w.newPeer(id, a)
	if err != nil {
		return opError("connect", id, err)
	}
	if bytes.Compare(w.nonce, a.Nonce) < 0 {
		if err := p.dial(); err != nil {
			return opError("connect", id, errors.Join(err, w.discard(p)))
		}
	}
	for len(w.peers) <= int(id) {
		w.peers = append(w.peers, nil)
	}
	w.peers[id] = p
	w.byNonce[nonce] = p
	w.connecting = append(w.connecting, p)
	w.lookedAt = clock()
	w.connect() // on one host this is often all
	return nil
}

// dial begins to connect all sockets of a peer.
func (p *peer) dial() error {
	w := p.w
	for use := range w.settings.sockets + 1 {
		fd, err := w.settings.dial(p.address.At)
		if err != nil {
			return err
		}
		p.sockets[use] = fd
		p.dialing = append(p.dialing, dialing{fd: fd, hello: encodeHello(p.address.Nonce, w.nonce, uint8(use))})
	}
	return nil
}

// longestTurn is how much of the time between two looks counts as waiting: a worker that
// does not poll cannot know that a peer does not connect.
const longestTurn = int64(100 * time.Millisecond)

// errNoConnection: a peer is lost that never connected.
var errNoConnection = errors.New("the peer did not connect within connect-timeout")

// connect goes on with the connections that are not there yet.
func (w *worker) connect() {
	w.acceptAll()
	now := clock()
	turn := min(now-w.lookedAt, longestTurn)
	w.lookedAt = now
	w.connecting = slices.DeleteFunc(w.connecting, func(p *peer) bool {
		if p.state != connecting {
			return true
		}
		if p.awaited += turn; p.awaited > int64(w.settings.patience) {
			w.lose(p, errNoConnection)
			return true
		}
		if err := p.sayHello(); err != nil {
			w.lose(p, err)
			return true
		}
		if len(p.dialing) > 0 {
			return false
		}
		if slices.Contains(p.sockets, -1) {
			err := p.seated()
			if err != nil {
				w.lose(p, err)
			}
			return err != nil
		}
		if err := w.join(p); err != nil {
			w.lose(p, err)
		}
		return true
	})
}

// seated is nil while all sockets that have come are open: one that has ended before the
// others came is of a peer that will not dial them any more.
func (p *peer) seated() error {
	for _, fd := range p.sockets {
		if fd < 0 {
			continue
		}
		if err := peek(fd); err != nil {
			return err
		}
	}
	return nil
}

// sayHello sends what is left of hellos.
func (p *peer) sayHello() error {
	left := p.dialing[:0]
	for _, d := range p.dialing {
		n, err := sendBytes(d.fd, d.hello)
		if err != nil && err != unix.ENOTCONN { // which is a handshake on its way
			return err
		}
		if d.hello = d.hello[n:]; len(d.hello) > 0 {
			left = append(left, d)
		}
	}
	p.dialing = left
	return nil
}

// join makes a peer's sockets its comm's.
func (w *worker) join(p *peer) error {
	control := p.sockets[0]
	err := p.comm.attach(control, p.sockets[1:])
	for i := range p.sockets {
		p.sockets[i] = -1
	}
	p.state = up
	if err != nil {
		return err
	}
	w.counts.setupNS += uint64(clock() - p.began)
	if w.settings.zeroCopyFor(p.address.At.Addr()) {
		if err := p.comm.useZeroCopy(); err != nil {
			return err
		}
	}
	if err := p.comm.startHelpers(&w.waker); err != nil {
		return err
	}
	return w.watch(control, uint32(p.id))
}

// acceptAll takes the connections that have come, and reads their hellos.
func (w *worker) acceptAll() {
	for len(w.arrivals) < w.mostArrivals() {
		fd, ok, err := w.settings.accept(w.listener)
		if err != nil || !ok {
			break
		}
		w.arrivals = append(w.arrivals, &arrival{fd: fd, hello: make([]byte, helloSize), since: clock()})
	}
	w.arrivals = slices.DeleteFunc(w.arrivals, w.seat)
}

// mostArrivals is how many sockets honest peers can have waiting: those of all of them,
// and probes.
func (w *worker) mostArrivals() int { return 2*w.settings.peers*(w.settings.sockets+1) + 8 }

// seat finds the peer of an arrival, and says whether the arrival is done with. One
// whose peer is not connected yet waits.
func (w *worker) seat(a *arrival) bool {
	if a.have < helloSize {
		n, err := receiveBytes(a.fd, a.hello[a.have:])
		a.have += n
		if errors.Is(err, transport.ErrUnavailable) {
			w.failed = append(w.failed, transport.NewOpError(name, "poll", err))
		}
		if err != nil || a.have < helloSize && clock()-a.since > int64(w.settings.timeout) {
			_ = unix.Close(a.fd)
			return true
		}
		if a.have < helloSize {
			return false
		}
		var ok bool
		if a.caller, a.use, ok = decodeHello(a.hello, w.nonce); !ok {
			_ = unix.Close(a.fd)
			return true
		}
	}
	p := w.byNonce[a.caller]
	switch {
	case p == nil:
		if peek(a.fd) == nil {
			return false
		}
	case p.state == lost:
	case useProbe-int(a.use) < len(p.probes):
		probe := &p.probes[useProbe-a.use]
		if *probe >= 0 {
			_ = unix.Close(*probe)
		}
		*probe = a.fd
		return true
	case int(a.use) < len(p.sockets) && p.sockets[a.use] < 0 && p.state == connecting:
		p.sockets[a.use] = a.fd
		return true
	}
	_ = unix.Close(a.fd)
	return true
}
