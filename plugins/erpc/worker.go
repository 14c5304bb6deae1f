package erpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/control"
	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

// worker is one thread's port and its sessions.
type worker struct {
	settings  *settings
	port      datagram.Port
	ports     *portFactory    // that made port
	waiter    datagram.Waiter // nil if the port cannot wait
	heartbeat *heartbeat      // nil in tests without one
	clock     func() int64    // nanoseconds since an arbitrary start
	maxData   int             // bytes of data in a packet
	credits   int             // of a session
	nonce     uint64          // identifies this worker
	key       uint32          // of the checksum of handshake packets to this worker
	address   []byte

	peers    control.Peers[session, uint64]
	sessions []*session // by localNumber; nil where the number is free
	// Arriving packets carry firstNumber + localNumber. It is random: strangers must guess it.
	firstNumber uint16
	connecting  int // sessions in state connecting
	lostPeers   control.LostPeers
	reported    []*session // lost sessions to reclaim, whose loss Poll has reported
	corrupt     []*session // sessions whose ErrCorrupt Poll has not returned yet

	packets     []datagram.Packet // of the last Receive
	nextPacket  int               // first of packets that Poll has not handled
	packetCount int
	unflushed   int // packets sent since worker.flush last ran
	longest     int // bytes of the longest short message among them
	padTo       int // bytes of short messages in this batch; see pad
	head        [headerSize]byte
	wheel       *wheel
	lastPoll    int64
	scanAt      int64       // when scan runs next
	awaiting    *clientSlot // list of the slots that wait for answers
	deaths      uint32      // last seen value of heartbeat.deaths

	counts counts
}

var (
	_ transport.Waiter     = (*worker)(nil)
	_ transport.PathReader = (*worker)(nil)
)

// newWorker returns a worker, which owns the port if there is no error.
func newWorker(s *settings, port datagram.Port, h *heartbeat, credits int,
	clock func() int64) (*worker, error) {
	w := &worker{settings: s, port: port, heartbeat: h, clock: clock,
		maxData: port.MTU() - headerSize, credits: credits,
		nonce: control.NewNonce(), firstNumber: 1 + uint16(control.NewNonce()%(noSession-maxPeers)),
		packets: make([]datagram.Packet, s.batch), lostPeers: control.NewLostPeers(s.peers)}
	w.key = handshakeKey(w.nonce)
	w.peers = control.NewPeers[session](maxPeers, s.peers, w.nonce)
	w.waiter, _ = port.(datagram.Waiter)
	horizon := int64(float64(credits*port.MTU()) / s.congestion.minRate * 1e9)
	w.wheel = newWheel(s.bucket, horizon, wheelEntries(s.peers, credits))
	var err error
	w.address, err = encodeAddress(w)
	return w, err
}

// Address implements [transport.Worker].
func (w *worker) Address() []byte { return w.address }

// Connect implements [transport.Worker]. It sends the first hello and does not wait for the peer.
// It waits for a route to the peer, for peer-timeout at most.
func (w *worker) Connect(ctx context.Context, id transport.PeerID, address []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.settings.peerTimeout,
		fmt.Errorf("peer-timeout, %v, has passed", w.settings.peerTimeout))
	defer cancel()
	return name.PeerError("connect", id, w.connect(ctx, id, address))
}

func (w *worker) connect(ctx context.Context, id transport.PeerID, address []byte) error {
	peer, err := decodeAddress(address)
	if err != nil {
		return err
	}
	if err := w.peers.Check(id, peer.Nonce); err != nil {
		return err
	}
	var remote datagram.Remote
	err = control.WhileUnreachable(ctx, func() (err error) {
		remote, err = w.port.Open(peer.Port)
		return err
	})
	if err != nil {
		return err
	}
	p, err := w.newSession(id)
	if err != nil {
		w.port.Release(remote)
		return err
	}
	p.nonce, p.handshakeKey, p.remote, p.source = peer.Nonce, handshakeKey(peer.Nonce), remote,
		w.port.Source(remote)
	if w.heartbeat != nil {
		err = control.WhileUnreachable(ctx, func() (err error) {
			p.watch, err = w.heartbeat.watch(&peer, w.nonce, w.Wake)
			return err
		})
		if err != nil {
			w.port.Release(remote)
			return errors.Join(err, unix.Munmap(p.memory))
		}
	}
	w.peers.Add(id, peer.Nonce, p, w.settings.payload, &p.errors)
	if int(p.localNumber) == len(w.sessions) {
		w.sessions = append(w.sessions, nil)
	}
	w.sessions[p.localNumber] = p
	w.connecting++
	now := w.clock()
	p.connectDeadline = now + w.settings.connectTimeout
	w.hello(p, now)
	return w.port.Flush()
}

// Wait implements [transport.Waiter]. It returns when the next timer of the worker is due, because
// nothing arrives to announce a loss.
func (w *worker) Wait(timeout time.Duration) error {
	switch {
	case w.peers.Closed():
		return name.Error("wait", transport.ErrClosed)
	case w.waiter == nil || w.nextPacket < w.packetCount || w.lostPeers.Len()+len(w.corrupt) > 0:
		return nil
	}
	now := w.clock()
	if w.heartbeat != nil && w.heartbeat.deaths.Load() != w.deaths {
		w.scanAt = now
		return nil
	}
	w.extendTimeouts(now)
	until := min(w.nextTimer(), now+int64(max(timeout, 0)))
	var err error
	if until > now {
		w.counts.parked++
		err = w.waiter.Wait(time.Duration(until - now))
	}
	// Sleep counts as polling, because an answer would have ended it. What the kernel took beyond
	// the limit to wake the thread does not.
	w.lastPoll = max(now, min(w.clock(), until))
	w.scanAt = min(w.scanAt, w.lastPoll)
	return name.Error("wait", err)
}

// nextTimer returns when the first timer is due: a slot's timeout, a packet in the wheel, or a
// handshake. Without any it returns a time in the far future.
func (w *worker) nextTimer() int64 {
	const never = 1000 * time.Hour
	at := w.lastPoll + int64(never)
	for s := w.awaiting; s != nil; s = s.next {
		if s.inWheel == 0 {
			at = min(at, s.lastProgress+w.timeout(s))
		}
	}
	if w.wheel.count > 0 {
		at = min(at, w.wheel.next())
	}
	if w.connecting > 0 {
		for _, p := range w.sessions {
			if p != nil && p.state == connecting {
				at = min(at, p.helloAt, p.connectDeadline)
			}
		}
	}
	return at
}

// Silence implements [transport.PathReader].
func (w *worker) Silence(id transport.PeerID) error {
	p := w.peers.Get(id)
	switch {
	case p == nil:
		return nil
	case p.state == connecting:
		return fmt.Errorf("no answer from %v to the handshake", p.source)
	case p.state == established && p.watch != nil:
		return w.heartbeat.silence(p.watch)
	}
	return p.loss
}

// Wake implements [transport.Waiter].
func (w *worker) Wake() {
	if w.waiter != nil {
		w.waiter.Wake()
	}
}

// byeCopies is how many byes a closing worker sends to each peer, because some may get lost.
const byeCopies = 3

// Close implements [transport.Worker]. The port and the buffers stay open until the transport
// closes, so that payloads stay readable.
func (w *worker) Close() error {
	if !w.peers.Close() {
		return nil
	}
	for range byeCopies {
		for _, p := range w.sessions {
			if p != nil {
				w.bye(p)
			}
		}
		_ = w.port.Flush()
	}
	if w.heartbeat != nil {
		w.heartbeat.hide(w.nonce)
	}
	for _, p := range w.sessions {
		if p != nil {
			w.unwatch(p)
		}
	}
	return nil
}

// release frees what Close leaves open.
func (w *worker) release() error {
	errs := []error{w.port.Close()}
	for _, p := range w.sessions {
		if p != nil {
			errs = append(errs, unix.Munmap(p.memory))
		}
	}
	w.sessions = nil
	return errors.Join(errs...)
}
