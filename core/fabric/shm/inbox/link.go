package inbox

import (
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// link moves the messages of one connection. Its outbound half, in the peer's
// inbox, exists from Connect on; the inbound half, in the own inbox, is known
// once the peer has claimed it. The errors are those of core/fabric/shm/ring.
type link interface {
	// join completes the link with its inbound half. Nothing is drained before.
	join(in inHalf)
	post(op *transport.Op) error
	publish()
	// drain fills events with what has arrived. Payloads are valid until
	// release and the next drain.
	drain(peer transport.PeerID, events []transport.Event) (int, error)
	release()
	empty() bool
}

// inHalf is the part of a link that lies in the own inbox: one of the two, as
// the settings say.
type inHalf struct {
	consumer *ring.Consumer
	answerer *ring.Answerer
}

// newOut makes the outbound half in the memory of the ring that was claimed.
func newOut(memory []byte, s settings) (link, error) {
	if s.inplace {
		caller, err := ring.NewCaller(memory, s.calls)
		return &slotLink{caller: caller}, err
	}
	producer, err := ring.NewProducer(memory, s.algorithm, s.geometry)
	return &ringLink{out: producer}, err
}

// newIn makes the inbound half of whoever claims that ring.
func newIn(memory []byte, s settings) (in inHalf, err error) {
	if s.inplace {
		in.answerer, err = ring.NewAnswerer(memory, s.calls)
	} else {
		in.consumer, err = ring.NewConsumer(memory, s.algorithm, s.geometry)
	}
	return in, err
}

// ringLink has a ring for each direction, which carries calls and replies.
type ringLink struct {
	out *ring.Producer
	in  *ring.Consumer
}

func (l *ringLink) join(in inHalf) { l.in = in.consumer }

func (l *ringLink) post(op *transport.Op) error {
	return l.out.Push(ring.Kind(op.Kind), uint64(op.Token), op.Payload)
}

func (l *ringLink) publish() { l.out.Publish() }

func (l *ringLink) drain(peer transport.PeerID, events []transport.Event) (n int, err error) {
	var m ring.Message
	for n < len(events) {
		ok, err := l.in.Pop(&m)
		if !ok {
			return n, err
		}
		fill(&events[n], peer, &m)
		n++
	}
	return n, nil
}

func (l *ringLink) release()    { l.in.Release() }
func (l *ringLink) empty() bool { return l.in.Empty() }

// slotLink has call slots for each direction; a reply lies in its call's slot.
type slotLink struct {
	caller   *ring.Caller
	answerer *ring.Answerer
}

func (l *slotLink) join(in inHalf) { l.answerer = in.answerer }

func (l *slotLink) post(op *transport.Op) error {
	if op.Kind == transport.OpCall {
		return l.caller.Call(uint64(op.Token), op.Payload)
	}
	if l.answerer == nil { // nothing was polled that could be replied to
		return ring.ErrNoCall
	}
	return l.answerer.Reply(uint64(op.Token), op.Payload)
}

func (l *slotLink) publish() {}

func (l *slotLink) drain(peer transport.PeerID, events []transport.Event) (n int, err error) {
	var m ring.Message
	for n < len(events) {
		ok, err := l.answerer.Pop(&m)
		if err != nil {
			return n, err
		}
		if !ok {
			break
		}
		fill(&events[n], peer, &m)
		n++
	}
	for n < len(events) {
		ok, err := l.caller.Pop(&m)
		if !ok {
			return n, err
		}
		fill(&events[n], peer, &m)
		n++
	}
	return n, nil
}

func (l *slotLink) release()    {} // slots and their buffers take turns
func (l *slotLink) empty() bool { return l.answerer.Empty() && l.caller.Empty() }

// fill makes a message an event; the kinds agree. Field by field: a literal
// would be built on the stack and copied with wide loads, which stall on its
// narrow stores.
func fill(e *transport.Event, peer transport.PeerID, m *ring.Message) {
	e.Kind = transport.EventKind(m.Kind)
	e.Peer = peer
	e.Token = transport.Token(m.Token)
	e.Payload = m.Payload
	e.Size = len(m.Payload)
}
