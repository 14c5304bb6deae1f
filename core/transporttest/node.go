package transporttest

import (
	"bytes"
	"slices"

	"transportbench/core/transport"
)

// node is one worker with the bookkeeping to detect lost, duplicate, mixed up and damaged
// messages. It answers every request with the request's payload unless onRequest is set.
type node struct {
	trial    *trial
	cluster  *cluster
	endpoint *endpoint
	worker   transport.Worker
	name     string
	closed   bool

	peers  []*node // by PeerID
	events []transport.Event
	outbox []transport.Op // replies waiting for room

	lastToken transport.Token
	waiting   map[transport.Token]call // calls without a response
	answered  int                      // responses polled
	served    int                      // requests polled
	lost      map[transport.PeerID]bool

	// onRequest replaces the echo. The event's payload is valid until it returns.
	onRequest func(transport.Event)
}

// call is the expected response to a call.
type call struct {
	peer    transport.PeerID
	payload []byte
}

// newCall returns a call with a new token. The node expects a response after the call is taken.
func (n *node) newCall(peer transport.PeerID, payload []byte) transport.Op {
	n.lastToken++
	return transport.Op{Kind: transport.OpCall, Peer: peer, Token: n.lastToken, Payload: payload}
}

// call posts one call, with the payload cut to the largest size. The caller must not change the
// payload afterwards.
func (n *node) call(peer transport.PeerID, payload []byte) {
	n.post(n.newCall(peer, payload[:min(len(payload), n.cluster.layout.maxPayload)]))
}

// tryPost calls Post once and records the calls that it takes.
func (n *node) tryPost(ops []transport.Op) (int, error) {
	taken, err := n.worker.Post(ops)
	if taken < 0 || taken > len(ops) || (err != nil && taken == len(ops)) {
		n.trial.Fatalf("%s: Post of %d ops returned %d and error %v", n.name, len(ops), taken, err)
	}
	for _, op := range ops[:taken] {
		if op.Kind == transport.OpCall {
			n.waiting[op.Token] = call{op.Peer, op.Payload}
		}
	}
	return taken, err
}

// post posts all ops, and steps the cluster while there is no room.
func (n *node) post(ops ...transport.Op) {
	for spins := 0; ; spins++ {
		taken, err := n.tryPost(ops)
		if err != nil {
			n.trial.Fatalf("%s: Post refused %s of %d bytes to peer %d: %v", n.name,
				kindName(ops[taken].Kind), len(ops[taken].Payload), ops[taken].Peer, err)
		}
		if ops = ops[taken:]; len(ops) == 0 {
			return
		}
		n.trial.Pause(spins, "room to post %d ops from %s", len(ops), n.name)
		n.cluster.step()
	}
}

func kindName(k transport.OpKind) string {
	if k == transport.OpReply {
		return "a reply"
	}
	return "a call"
}

func (n *node) flush() {
	if err := n.worker.Flush(); err != nil {
		n.trial.Fatalf("%s: Flush: %v", n.name, err)
	}
}

// poll calls Poll once and checks the events.
func (n *node) poll(events []transport.Event) []transport.Event {
	got, err := n.worker.Poll(events)
	if err != nil {
		n.trial.Fatalf("%s: Poll: %v", n.name, err)
	}
	if got < 0 || got > len(events) {
		n.trial.Fatalf("%s: Poll into %d events returned %d", n.name, len(events), got)
	}
	for i := range events[:got] {
		n.fetch(&events[i])
		n.check(events[i])
	}
	return events[:got]
}

func (n *node) check(e transport.Event) {
	switch {
	case e.Kind < transport.EventRequest || e.Kind > transport.EventPeerLost:
		n.trial.Fatalf("%s: event of unknown kind %d", n.name, e.Kind)
	case int(e.Peer) >= len(n.peers) || n.peers[e.Peer] == nil:
		n.trial.Fatalf("%s: event from peer %d, which was never connected", n.name, e.Peer)
	case n.lost[e.Peer] && e.Kind == transport.EventPeerLost:
		n.trial.Fatalf("%s: EventPeerLost for peer %d for the second time", n.name, e.Peer)
	case n.lost[e.Peer]:
		n.trial.Fatalf("%s: event of kind %d from peer %d after its EventPeerLost", n.name,
			e.Kind, e.Peer)
	case e.Kind == transport.EventPeerLost:
		if !n.peers[e.Peer].closed {
			n.trial.Fatalf("%s: EventPeerLost for peer %d, which lives", n.name, e.Peer)
		}
	case e.Size != len(e.Payload):
		n.trial.Fatalf("%s: event of Size %d with a payload of %d bytes", n.name, e.Size,
			len(e.Payload))
	}
}

// take records polled events and answers requests.
func (n *node) take(events []transport.Event) {
	for _, e := range events {
		switch e.Kind {
		case transport.EventRequest:
			n.served++
			if n.onRequest != nil {
				n.onRequest(e)
			} else {
				n.reply(e, e.Payload)
			}
		case transport.EventResponse:
			n.response(e)
		case transport.EventPeerLost:
			n.lost[e.Peer] = true
			for token, c := range n.waiting {
				if c.peer == e.Peer {
					delete(n.waiting, token)
				}
			}
		}
	}
}

func (n *node) response(e transport.Event) {
	want, known := n.waiting[e.Token]
	if !known {
		n.trial.Fatalf("%s: response with token %#x, which no call in flight has", n.name, e.Token)
	}
	if want.peer != e.Peer {
		n.trial.Fatalf("%s: response from peer %d to a call to peer %d", n.name, e.Peer, want.peer)
	}
	n.sameBytes("response", e.Payload, want.payload)
	delete(n.waiting, e.Token)
	n.answered++
}

// sameBytes fails the clause with the first difference.
func (n *node) sameBytes(what string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		n.trial.Fatalf("%s: %s of %d bytes, expected %d", n.name, what, len(got), len(want))
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	n.trial.Fatalf("%s: %s of %d bytes differs at byte %d: got %#x, expected %#x",
		n.name, what, len(got), i, got[i], want[i])
}

// reply answers a request with a copy of payload when there is room.
func (n *node) reply(request transport.Event, payload []byte) {
	n.outbox = append(n.outbox, transport.Op{Kind: transport.OpReply,
		Peer: request.Peer, Token: request.Token, Payload: slices.Clone(payload)})
}

// step posts waiting replies, flushes, polls once and takes the events.
func (n *node) step() {
	if n.closed {
		return
	}
	n.outbox = slices.DeleteFunc(n.outbox, func(op transport.Op) bool { return n.lost[op.Peer] })
	if len(n.outbox) > 0 {
		taken, err := n.tryPost(n.outbox)
		if err != nil && !n.peers[n.outbox[taken].Peer].closed {
			n.trial.Fatalf("%s: Post refused a reply of %d bytes: %v", n.name,
				len(n.outbox[taken].Payload), err)
		}
		n.outbox = slices.Delete(n.outbox, 0, taken)
		if err != nil {
			n.outbox = slices.Delete(n.outbox, 0, 1)
		}
	}
	n.flush()
	n.take(n.poll(n.events))
}

// until steps only this node until done returns true.
func (n *node) until(what string, done func() bool) {
	for spins := 0; !done(); spins++ {
		n.trial.Pause(spins, "%s at %s", what, n.name)
		n.step()
	}
}

// close closes the worker.
func (n *node) close() {
	n.closed = true
	if err := n.worker.Close(); err != nil {
		n.trial.Fatalf("%s: Close: %v", n.name, err)
	}
}

// index returns the node's index in its cluster.
func (n *node) index() int { return slices.Index(n.cluster.nodes, n) }
