package inbox

import (
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// A connection has an outbound half in the peer's inbox, which exists from Connect on, and an
// inbound half in the worker's own inbox, which is known once the peer has claimed a region there.
// With rings, each carries the calls and replies of one direction. With call slots, a [slotLink] is
// both halves.

// outbound is the half of a connection to which messages are posted; see [ring.OnesidedProducer].
type outbound interface {
	PushBatch(ops []transport.Op) (n int, err error)
	Publish()
	Posted() ring.Posted
}

// pusher is the outbound half of a ring without a PushBatch.
type pusher struct {
	ring.Producer
	posted ring.Posted
}

// PushBatch implements [outbound].
func (p *pusher) PushBatch(ops []transport.Op) (n int, err error) {
	for ; n < len(ops) && ops[n].Peer == ops[0].Peer; n++ {
		op := &ops[n]
		if op.Kind != transport.OpCall && op.Kind != transport.OpReply {
			return n, ring.ErrKind
		}
		if err := p.Push(ring.Kind(op.Kind), uint64(op.Token), op.Payload); err != nil {
			return n, err
		}
		count(&p.posted, op)
	}
	return n, nil
}

// Posted implements [outbound].
func (p *pusher) Posted() ring.Posted { return p.posted }

// count adds an op to those posted.
func count(posted *ring.Posted, op *transport.Op) {
	posted.Messages++
	posted.Bytes += uint64(len(op.Payload))
	if len(op.Payload) > 0 {
		posted.Payloads++
	}
}

// inbound is the half of a connection on which messages arrive; see [ring.Consumer].
type inbound interface {
	Drain(peer transport.PeerID, events []transport.Event) (n int, err error)
	Empty() bool
	Release()
}

// newOutbound returns the outbound half in the memory of a claimed region. With call slots, out and
// slots are the same; otherwise slots is nil.
func newOutbound(memory []byte, s settings) (out outbound, slots *slotLink, err error) {
	switch {
	case s.inplace:
		slots = &slotLink{}
		slots.caller, err = ring.NewCaller(memory, s.calls)
		return slots, slots, err
	case s.algorithm == ring.Onesided:
		out, err = ring.NewOnesidedProducer(memory, s.geometry)
		return out, nil, err
	case s.algorithm == ring.FastForward:
		out, err = ring.NewFastForwardProducer(memory, s.geometry)
		return out, nil, err
	}
	producer, err := ring.NewProducer(memory, s.algorithm, s.geometry)
	return &pusher{Producer: producer}, nil, err
}

// newInbound returns the reading side of a region: an answerer with call slots, else a consumer.
func newInbound(memory []byte, s settings) (in inbound, answerer *ring.Answerer, err error) {
	if !s.inplace {
		in, err = ring.NewConsumer(memory, s.algorithm, s.geometry)
		return in, nil, err
	}
	answerer, err = ring.NewAnswerer(memory, s.calls)
	return nil, answerer, err
}

// slotLink has call slots for the calls of each side; a reply overwrites its call.
type slotLink struct {
	caller   *ring.Caller
	answerer *ring.Answerer // nil until the peer's region is known
	posted   ring.Posted
}

// PushBatch implements [outbound].
func (l *slotLink) PushBatch(ops []transport.Op) (n int, err error) {
	for ; n < len(ops) && ops[n].Peer == ops[0].Peer; n++ {
		op := &ops[n]
		switch {
		case op.Kind == transport.OpCall:
			err = l.caller.Call(uint64(op.Token), op.Payload)
		case op.Kind != transport.OpReply:
			err = ring.ErrKind
		case l.answerer == nil: // no request was polled yet
			err = ring.ErrNoCall
		default:
			err = l.answerer.Reply(uint64(op.Token), op.Payload)
		}
		if err != nil {
			return n, err
		}
		count(&l.posted, op)
	}
	return n, nil
}

// Posted implements [outbound].
func (l *slotLink) Posted() ring.Posted { return l.posted }

// Publish implements [outbound]. Calls and replies are visible at once.
func (l *slotLink) Publish() {}

// Drain implements [inbound].
func (l *slotLink) Drain(peer transport.PeerID, events []transport.Event) (n int, err error) {
	if n, err = l.answerer.Drain(peer, events); err != nil {
		return n, err
	}
	replies, err := l.caller.Drain(peer, events[n:])
	return n + replies, err
}

// Empty implements [inbound].
func (l *slotLink) Empty() bool { return l.answerer.Empty() && l.caller.Empty() }

// Release implements [inbound]. The ring package alternates between buffers.
func (l *slotLink) Release() {}

// copied returns how many payloads Drain has copied, and their bytes.
func (l *slotLink) copied() (payloads, bytes uint64) {
	payloads, bytes = l.caller.Copied()
	if l.answerer != nil {
		n, size := l.answerer.Copied()
		payloads, bytes = payloads+n, bytes+size
	}
	return payloads, bytes
}
