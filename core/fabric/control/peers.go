package control

import (
	"errors"
	"fmt"

	"transportbench/core/transport"
)

// Peers are the connections of one worker. A worker tells the workers of its peers
// apart by their nonces, which their addresses carry.
type Peers[P any, Nonce comparable] struct {
	// ByID has the connections by PeerID, nil if there is none.
	ByID []*P

	gates   []gate[P] // by PeerID
	own     Nonce
	ids     int // PeerIDs are below
	limit   int // of connections
	byNonce map[Nonce]*P
	closed  bool
}

// gate decides what Post takes for a peer.
type gate[P any] struct {
	limit  int // bytes of the largest payload; -1 if Post takes nothing
	peer   *P
	errors *PeerErrors
}

// NewPeers returns an empty table for up to limit peers numbered below ids. own is the worker's
// own nonce, to which it cannot connect.
func NewPeers[P any, Nonce comparable](ids, limit int, own Nonce) Peers[P, Nonce] {
	return Peers[P, Nonce]{own: own, ids: ids, limit: limit, byNonce: map[Nonce]*P{}}
}

// Check returns an error if Connect cannot use a number and an address with this nonce: one of them
// is connected, the number is too large, the nonce is the worker's own, or the table is full or
// closed.
func (t *Peers[P, Nonce]) Check(id transport.PeerID, nonce Nonce) error {
	_, connected := t.byNonce[nonce]
	switch {
	case t.closed:
		return transport.ErrClosed
	case int(id) >= t.ids:
		return fmt.Errorf("%w: peers are numbered below %d", transport.ErrUnsupported, t.ids)
	case t.Get(id) != nil:
		return errors.New("already connected")
	case connected || nonce == t.own:
		return errors.New("the address is connected already, or the worker's own")
	case len(t.byNonce) >= t.limit:
		return fmt.Errorf("%w: the transport was opened for %d peers", transport.ErrUnsupported,
			t.limit)
	}
	return nil
}

// Add enters a connection that Check allowed. Admit takes payloads of up to limit bytes for it.
// errors are the peer's errors.
func (t *Peers[P, Nonce]) Add(id transport.PeerID, nonce Nonce, p *P, limit int,
	errors *PeerErrors) {
	for len(t.ByID) <= int(id) {
		t.ByID = append(t.ByID, nil)
		t.gates = append(t.gates, gate[P]{limit: -1})
	}
	t.ByID[id] = p
	t.byNonce[nonce] = p
	t.gates[id] = gate[P]{limit: limit, peer: p, errors: errors}
}

// Shut makes Admit refuse a peer, which is lost.
func (t *Peers[P, Nonce]) Shut(id transport.PeerID) { t.gates[id].limit = -1 }

// Close makes Check and Admit refuse everything, because the worker closes. It returns false if it
// was called before.
func (t *Peers[P, Nonce]) Close() (first bool) {
	first, t.closed = !t.closed, true
	for id := range t.gates {
		t.gates[id].limit = -1
	}
	return first
}

// Closed reports whether Close was called.
func (t *Peers[P, Nonce]) Closed() bool { return t.closed }

// Admit returns the peer to which Post sends an op. It returns nil if Post must refuse the op with
// the error of Refusal: the worker is closed, there is no such peer, the peer is lost, or the
// payload is too large.
func (t *Peers[P, Nonce]) Admit(op *transport.Op) *P {
	if int(op.Peer) >= len(t.gates) || len(op.Payload) > t.gates[op.Peer].limit {
		return nil
	}
	return t.gates[op.Peer].peer
}

// Refusal returns the error with which Post refuses an op that was not admitted. For a
// connected peer it does not allocate.
func (t *Peers[P, Nonce]) Refusal(name Name, op *transport.Op) error {
	switch {
	case t.closed:
		return name.Error("post", transport.ErrClosed)
	case int(op.Peer) >= len(t.gates) || t.gates[op.Peer].peer == nil:
		return name.PeerError("post", op.Peer, transport.ErrPeerDown)
	case t.gates[op.Peer].limit < 0:
		return t.gates[op.Peer].errors.Down
	}
	return t.gates[op.Peer].errors.TooLarge
}

// Forget removes a nonce: Find returns nil for it, and Check allows it again. ByID keeps the
// connection.
func (t *Peers[P, Nonce]) Forget(nonce Nonce) { delete(t.byNonce, nonce) }

// Get returns the connection of a PeerID, or nil.
func (t *Peers[P, Nonce]) Get(id transport.PeerID) *P {
	if int(id) >= len(t.ByID) {
		return nil
	}
	return t.ByID[id]
}

// Find returns the connection to the worker with this nonce, or nil.
func (t *Peers[P, Nonce]) Find(nonce Nonce) *P { return t.byNonce[nonce] }

// LostPeers queues the peers whose loss Poll has not reported yet.
type LostPeers struct{ queue []transport.PeerID }

// NewLostPeers returns a queue with room for limit peers; Add does not allocate.
func NewLostPeers(limit int) LostPeers {
	return LostPeers{queue: make([]transport.PeerID, 0, limit)}
}

// Add queues a peer.
func (l *LostPeers) Add(peer transport.PeerID) { l.queue = append(l.queue, peer) }

// Len returns how many peers are queued.
func (l *LostPeers) Len() int { return len(l.queue) }

// Report moves queued peers into events as EventPeerLost and returns how many it moved.
func (l *LostPeers) Report(events []transport.Event) int {
	n := min(len(events), len(l.queue))
	for i, peer := range l.queue[:n] {
		events[i] = transport.Event{Kind: transport.EventPeerLost, Peer: peer}
	}
	l.queue = l.queue[:copy(l.queue, l.queue[n:])]
	return n
}
