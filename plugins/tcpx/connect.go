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

	"transportbench/core/transport"
)

// Of two workers the one with the smaller nonce dials all sockets of a connection. Control
// sockets and probes go to one port, and say with their first bytes who calls and what the
// socket is for. Data sockets go to another, by which a NIC can tell them, and say nothing:
// the hello of the control socket has the ports that they come from. Poll drives all of
// that; it allocates then, before there is anything to measure.

// dialing is a socket that was dialled, and is not connected or has not said hello in full.
type dialing struct {
	fd    int
	hello []byte // what is left of it; none of a data socket
}

// arrival is a control socket or a probe's that was accepted.
type arrival struct {
	fd    int
	from  netip.AddrPort
	said  []byte
	have  int
	since int64
	hello hello // once all of it was said
}

// unclaimed is a data socket that was accepted, and has no place yet.
type unclaimed struct {
	fd    int
	from  netip.AddrPort
	since int64
}

// origin is where the data sockets of a connection come from.
type origin struct {
	address netip.Addr
	ports   [maxSockets]uint16 // in the order of the sockets; 0 where there is none
}

func (a *arrival) origin() origin { return origin{address: a.from.Addr(), ports: a.hello.ports} }

// index is the number of the data socket that comes from there, or -1.
func (o origin) index(from netip.AddrPort) int {
	if o.address != from.Addr() {
		return -1
	}
	return slices.Index(o.ports[:], from.Port())
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
	h := hello{caller: [nonceSize]byte(p.w.nonce), use: useControl}
	data := netip.AddrPortFrom(p.address.At.Addr(), p.address.DataPort)
	for i := range p.w.settings.sockets {
		fd, err := p.w.settings.dial(data)
		if err != nil {
			return err
		}
		p.sockets[1+i] = fd
		p.dialing = append(p.dialing, dialing{fd: fd})
		if h.ports[i], err = ownPort(fd); err != nil {
			return err
		}
	}
	fd, err := p.w.settings.dial(p.address.At)
	if err != nil {
		return err
	}
	p.sockets[0] = fd
	p.dialing = append(p.dialing, dialing{fd: fd, hello: h.encode(p.address.Nonce)})
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
		if err := p.goOn(); err != nil {
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

// goOn sends what is left of the hello, and strikes off the sockets that are done.
func (p *peer) goOn() error {
	left := p.dialing[:0]
	for _, d := range p.dialing {
		there, err := established(d.fd)
		if err != nil {
			return err
		}
		if there && len(d.hello) > 0 {
			n, err := sendBytes(d.fd, d.hello)
			if err != nil {
				return err
			}
			d.hello = d.hello[n:]
		}
		if !there || len(d.hello) > 0 {
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
		fd, from, err := w.settings.accept(w.listener)
		if err != nil || fd < 0 {
			break
		}
		w.arrivals = append(w.arrivals, &arrival{fd: fd, from: from, said: make([]byte, helloSize), since: clock()})
	}
	for len(w.unclaimed) < w.mostArrivals() {
		fd, from, err := w.settings.accept(w.dataDoor)
		if err != nil || fd < 0 {
			break
		}
		w.unclaimed = append(w.unclaimed, unclaimed{fd: fd, from: from, since: clock()})
	}
	w.arrivals = slices.DeleteFunc(w.arrivals, w.seat)
	w.unclaimed = slices.DeleteFunc(w.unclaimed, w.claim)
}

// mostArrivals is how many sockets honest peers can have waiting at a port: those of all
// of them, and probes.
func (w *worker) mostArrivals() int { return 2*w.settings.peers*(w.settings.sockets+1) + 8 }

// seat finds the peer of an arrival, and says whether the arrival is done with. One
// whose peer is not connected yet waits.
func (w *worker) seat(a *arrival) bool {
	if a.have < helloSize {
		n, err := receiveBytes(a.fd, a.said[a.have:])
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
		if a.hello, ok = decodeHello(a.said, w.nonce); !ok {
			_ = unix.Close(a.fd)
			return true
		}
	}
	p, use := w.byNonce[a.hello.caller], a.hello.use
	switch {
	case p == nil:
		if peek(a.fd) == nil {
			return false
		}
	case p.state == lost:
	case useProbe-int(use) < len(p.probes):
		probe := &p.probes[useProbe-use]
		if *probe >= 0 {
			_ = unix.Close(*probe)
		}
		*probe = a.fd
		return true
	case use == useControl && p.sockets[0] < 0 && p.state == connecting:
		p.sockets[0], p.from = a.fd, a.origin()
		return true
	}
	_ = unix.Close(a.fd)
	return true
}

// claim finds the place of a data socket, and says whether the socket is done with. One
// waits as long as the control socket that has told of it waits for its peer, and for a
// while where none has, yet.
func (w *worker) claim(u unclaimed) bool {
	for _, p := range w.connecting {
		if i := p.from.index(u.from); i >= 0 && 1+i < len(p.sockets) && p.sockets[1+i] < 0 && p.state == connecting {
			p.sockets[1+i] = u.fd
			return true
		}
	}
	expected := slices.ContainsFunc(w.arrivals, func(a *arrival) bool { return a.origin().index(u.from) >= 0 })
	if (expected || clock()-u.since <= int64(w.settings.timeout)) && peek(u.fd) == nil {
		return false
	}
	_ = unix.Close(u.fd)
	return true
}
