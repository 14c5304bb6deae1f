package inbox

import (
	"transportbench/core/fabric/shm/ring"
	"transportbench/core/transport"
)

// link moves the messages of one connection. Its outbound half, in the peer's inbox,
// exists from Connect on. Its inbound half, in the worker's own inbox, is known once the
// peer has claimed a region there. The errors are those of package ring.
type link interface {
	// join adds the inbound half. It is called before drain.
	join(in inbound)
	post(op *transport.Op) error
	publish()
	// drain fills events with what has arrived. Payloads are valid until release or
	// the next drain.
	drain(peer transport.PeerID, events []transport.Event) (int, error)
	release()
	empty() bool
	// copied returns how many payloads drain has copied, and their bytes.
	copied() (payloads, bytes uint64)
}

// inbound is the half of a link in the worker's own inbox: an answerer with call slots, a
// consumer otherwise.
type inbound struct {
	consumer *ring.Consumer
	answerer *ring.Answerer
}

// newLink returns a link with its outbound half in the memory of a claimed ring.
func newLink(memory []byte, s settings) (link, error) {
	if s.inplace {
		caller, err := ring.NewCaller(memory, s.calls)
		return &slotLink{caller: caller}, err
	}
	producer, err := ring.NewProducer(memory, s.algorithm, s.geometry)
	return &ringLink{out: producer}, err
}

// newInbound returns the inbound half for the peer that claims this ring.
func newInbound(memory []byte, s settings) (in inbound, err error) {
	if s.inplace {
		in.answerer, err = ring.NewAnswerer(memory, s.calls)
	} else {
		in.consumer, err = ring.NewConsumer(memory, s.algorithm, s.geometry)
	}
	return in, err
}

// ringLink has one ring per direction, which carries calls and replies.
type ringLink struct {
	out *ring.Producer
	in  *ring.Consumer
}

func (l *ringLink) join(in inbound) { l.in = in.consumer }

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

func (l *ringLink) copied() (payloads, bytes uint64) { return 0, 0 }

// slotLink has call slots for the calls of each side; a reply overwrites its call.
type slotLink struct {
	caller   *ring.Caller
	answerer *ring.Answerer
}

func (l *slotLink) join(in inbound) { l.answerer = in.answerer }

func (l *slotLink) post(op *transport.Op) error {
	if op.Kind == transport.OpCall {
		return l.caller.Call(uint64(op.Token), op.Payload)
	}
	if l.answerer == nil { // no request was polled yet
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

func (l *slotLink) release()    {} // the ring package alternates between buffers
func (l *slotLink) empty() bool { return l.answerer.Empty() && l.caller.Empty() }

func (l *slotLink) copied() (payloads, bytes uint64) {
	payloads, bytes = l.caller.Copied()
	if l.answerer != nil {
		n, size := l.answerer.Copied()
		payloads, bytes = payloads+n, bytes+size
	}
	return payloads, bytes
}

// fill turns a message into an event; their kinds have the same numbers. It assigns field
// by field because a literal would be built on the stack with narrow stores, and the wide
// loads that copy it would stall on them.
func fill(e *transport.Event, peer transport.PeerID, m *ring.Message) {
	e.Kind = transport.EventKind(m.Kind)
	e.Peer = peer
	e.Token = transport.Token(m.Token)
	e.Payload = m.Payload
	e.Size = len(m.Payload)
}
