package tcpx

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// worker is one thread's sockets and its connections. worker_datapath.go,
// post_datapath.go and deliver_datapath.go have what the measured loop calls.
type worker struct {
	settings *settings
	nonce    []byte // tells this worker from every other
	address  []byte
	listener int   // for control sockets and probes
	dataDoor int   // the listener for data sockets
	epoll    int   // the control sockets, and the listeners
	waker    waker // for Wait
	intake   intake
	unpacks  *unpacking

	peers      []*peer // by PeerID; nil where none is connected
	byNonce    map[[nonceSize]byte]*peer
	connecting []*peer
	lookedAt   int64 // at who is connecting
	arrivals   []*arrival
	unclaimed  []unclaimed

	dirty    []*peer // posted to since the last Flush
	gone     []*peer // lost, and not told yet
	broken   []*peer // cut off, and the error not returned yet
	failed   []error // of this side, for which peers were cut off, not returned yet
	settling []*peer // lost, and some of what came is being unpacked
	turn     int     // the peer that the next Poll starts with
	polls    uint

	ready  []unix.EpollEvent
	pollFD []unix.PollFd
	source []byte // of the floor's stream; nil until it is measured

	closed    bool
	destroyed bool
	counts    counts
}

// Where a connection is.
type peerState uint8

const (
	connecting peerState = iota
	up
	lost
)

// peer is one connection, seen from here.
type peer struct {
	w       *worker
	id      transport.PeerID
	address address
	state   peerState
	began   int64
	awaited int64 // time in which the worker polled and this one had not connected
	sockets []int // -1 where there is none yet; the control socket first
	from    origin
	dialing []dialing
	probes  []int // sockets on which the peer wants to probe; -1 where there is none
	comm    *comm

	// The stream out. Positions count its bytes from the beginning, and byte i of it
	// is staged at i modulo the staging ring's size, unless it was sent right from
	// the payload of the op at hand.
	staging []byte
	posted  uint64
	flushed uint64
	cut     uint64 // made requests of
	freed   uint64 // acknowledged
	// borrowed is the payload of the op at hand, from position borrowedAt on.
	borrowed   []byte
	borrowedAt uint64
	said       uint64 // messages

	// The stream in. Receive number n is unpacked to slot n modulo settings.slots of
	// the destination ring. What follows a full request is in the next slot, and so
	// right behind it.
	destination buffer
	totals      []int  // by slot: bytes of the request that was consumed
	read        uint64 // receive that the next message begins in
	offset      int    // and where in it
	gathered    int    // bytes of the next message that are there
	gatheredTo  uint64 // receive up to which that was found
	released    uint64 // receives before are not read any more

	calls    calls
	owed     []bool // by the number of the peer's call: polled and not answered
	isDirty  bool
	readable bool
	errors   peerErrors
}

// calls are those of one connection that have no response yet, by the number that
// goes over the wire.
type calls struct {
	tokens  []transport.Token
	waiting []bool
	free    []uint32
}

func newCalls(most int) calls {
	c := calls{tokens: make([]transport.Token, most), waiting: make([]bool, most), free: make([]uint32, most)}
	for i := range c.free {
		c.free[i] = uint32(most - 1 - i)
	}
	return c
}

// peerErrors are made beforehand, since data paths must not allocate.
type peerErrors struct {
	down, tooLarge, unsupported, noCall, corrupt error
}

func newWorker(s *settings, index int) (*worker, error) {
	w := &worker{settings: s, nonce: make([]byte, nonceSize), byNonce: map[[nonceSize]byte]*peer{},
		listener: -1, dataDoor: -1, epoll: -1, waker: waker{fd: -1}, ready: make([]unix.EpollEvent, s.peers+2),
		dirty: make([]*peer, 0, s.peers), gone: make([]*peer, 0, s.peers), broken: make([]*peer, 0, s.peers), settling: make([]*peer, 0, s.peers)}
	_, _ = rand.Read(w.nonce) // never fails
	if err := w.open(index); err != nil {
		return nil, errors.Join(err, w.Close(), w.destroy())
	}
	return w, nil
}

// open takes what a worker needs. Where it fails, close and destroy release what it has
// taken.
func (w *worker) open(index int) error {
	fd, at, err := w.settings.listen(0)
	if err != nil {
		return err
	}
	w.listener = fd
	fd, data, err := w.settings.listen(w.settings.dataPortOf(index))
	if err != nil {
		return err
	}
	w.dataDoor = fd
	if w.address, err = json.Marshal(w.settings.announce(w.nonce, at, data.Port())); err != nil {
		return err
	}
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create: %w", err)
	}
	if err = errors.Join(w.watch(w.listener, noPeer), w.watch(w.dataDoor, noPeer)); err != nil {
		return err
	}
	if w.waker.fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	if w.intake, w.unpacks, err = newUnpacking(w.settings); err == nil {
		moreThreads(w.settings.peers * w.settings.threads)
	}
	return err
}

// noPeer is what epoll says of the listeners.
const noPeer = ^uint32(0)

// watch has Poll told when there is something to read.
func (w *worker) watch(fd int, cookie uint32) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(cookie)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// newPeer makes a connection's memory and posts its receives.
func (w *worker) newPeer(id transport.PeerID, a address) (p *peer, err error) {
	s := w.settings
	p = &peer{w: w, id: id, address: a, began: clock(), sockets: slices.Repeat([]int{-1}, s.sockets+1), probes: slices.Repeat([]int{-1}, s.sockets),
		comm: newComm(s, w.intake, w.unpacks, 2*s.inFlight, &w.counts), totals: make([]int, s.slots),
		calls: newCalls(s.inFlight), owed: make([]bool, s.inFlight),
		errors: peerErrors{
			down:        opError("post", id, transport.ErrPeerDown),
			tooLarge:    opError("post", id, transport.ErrTooLarge),
			unsupported: opError("post", id, transport.ErrUnsupported),
			noCall:      opError("post", id, fmt.Errorf("reply: %w: no request waits for it", transport.ErrUnsupported)),
			corrupt:     opError("poll", id, transport.ErrCorrupt),
		}}
	p.comm.window = uint64(a.Window)
	if s.onGPU() && s.head > 0 {
		p.comm.heads = newHeads(s.head, &p.comm.inbox)
	}
	if p.staging, err = newRing("transportbench-tcpx-staging", s.staging); err != nil {
		return nil, err
	}
	if p.destination, err = w.unpacks.allocate(s.slots * s.request); err != nil {
		return nil, errors.Join(err, freeRing(p.staging))
	}
	p.postReceives()
	return p, nil
}

// discard gives a peer up that was never connected.
func (w *worker) discard(p *peer) error {
	return errors.Join(p.closeSockets(), w.freeMemory(p))
}

// closeSockets closes what is open of a connection, with a farewell if it is up.
func (p *peer) closeSockets() (err error) {
	p.dropProbes()
	p.dialing = nil
	if p.comm.control.fd >= 0 {
		return p.comm.shut()
	}
	p.comm.leave()
	for i, fd := range p.sockets {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
			p.sockets[i] = -1
		}
	}
	return err
}

// Close implements [transport.Worker]. The payloads that were handed out stay readable
// until the transport closes.
func (w *worker) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	var errs []error
	for _, p := range w.peers {
		if p != nil && p.state != lost {
			p.state = lost
			errs = append(errs, p.closeSockets())
		}
	}
	for _, a := range w.arrivals {
		_ = unix.Close(a.fd)
	}
	w.arrivals = nil
	for _, u := range w.unclaimed {
		_ = unix.Close(u.fd)
	}
	w.unclaimed = nil
	for _, fd := range []int{w.listener, w.dataDoor, w.epoll} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// destroy releases what Close has left. It waits for what is being unpacked.
func (w *worker) destroy() error {
	if w.destroyed {
		return nil
	}
	w.destroyed = true
	var errs []error
	for _, p := range w.peers {
		if p != nil {
			p.comm.settle(true)
		}
	}
	if w.waker.fd >= 0 {
		errs = append(errs, unix.Close(w.waker.fd))
	}
	if w.source != nil {
		errs = append(errs, unix.Munmap(w.source))
	}
	if w.unpacks == nil {
		return errors.Join(errs...)
	}
	moreThreads(-w.settings.peers * w.settings.threads)
	for _, p := range w.peers {
		if p != nil {
			errs = append(errs, w.freeMemory(p))
		}
	}
	return errors.Join(append(errs, w.unpacks.close(), w.intake.close())...)
}

func (w *worker) freeMemory(p *peer) error {
	return errors.Join(freeRing(p.staging), w.unpacks.free(p.destination))
}
