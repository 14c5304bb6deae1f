package transporttest

import "transportbench/core/transport"

// takeForLost pretends to post ops to lost peers that keep says yes to.
func (w *fakeWorker) takeForLost(pretend func(transport.Op) bool) {
	w.post = func(ops []transport.Op) (int, error) {
		for i, op := range ops {
			if c := w.connection(op.Peer); c != nil && c.lost && pretend(op) {
				continue
			}
			if n, err := w.memoryWorker.Post(ops[i : i+1]); n == 0 {
				return i, err
			}
		}
		return len(ops), nil
	}
}

var peerFakes = []fake{
	{name: "never tells", clause: "peers/lost-by-worker-close", says: "EventPeerLost at", hangs: true,
		worker: func(w *fakeWorker) {
			w.filterEvents(func(e *transport.Event) bool { return e.Kind != transport.EventPeerLost })
		}},
	{name: "tells twice", clause: "peers/lost-by-worker-close", says: "for the second time",
		worker: func(w *fakeWorker) {
			again := 1
			w.filterEvents(func(e *transport.Event) bool {
				if e.Kind == transport.EventPeerLost && again > 0 {
					again--
					w.connection(e.Peer).lost = false
				}
				return true
			})
		}},
	{name: "tells of a peer that lives", clause: "peers/lost-by-worker-close", says: "which lives",
		worker: func(w *fakeWorker) {
			w.editEvents(func(e *transport.Event) {
				if e.Kind == transport.EventPeerLost {
					e.Peer ^= 1
				}
			})
		}},
	{name: "says farewell in Worker.Close alone", clause: "peers/lost-by-transport-close", says: "EventPeerLost at", hangs: true,
		transport: func(t *fakeTransport) { t.close = func() error { return nil } }},
	{name: "trusts in a farewell", clause: "peers/lost-by-death", says: "EventPeerLost at", hangs: true,
		kill: func(*fakeDriver, *memoryTransport) {}},
	{name: "tells of the first lost peer alone", clause: "peers/each-lost", says: "EventPeerLost at", hangs: true,
		worker: func(w *fakeWorker) {
			told := 0
			w.filterEvents(func(e *transport.Event) bool {
				if e.Kind == transport.EventPeerLost {
					told++
				}
				return e.Kind != transport.EventPeerLost || told == 1
			})
		}},
	{name: "tells of a loss before the last messages", clause: "peers/lost-comes-last", says: "after its EventPeerLost",
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				for _, c := range w.active {
					if c.remote.gone.Load() && !c.lost && len(events) > 0 {
						c.lost = true
						events[0] = transport.Event{Kind: transport.EventPeerLost, Peer: c.peer}
						return 1, nil
					}
				}
				return w.memoryWorker.Poll(events)
			}
		}},
	{name: "fails the calls to a lost peer one by one", clause: "peers/lost-in-flight", says: "after its EventPeerLost",
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				for _, c := range w.active {
					if c.lost && c.inFlight > 0 && len(events) > 0 {
						c.inFlight--
						events[0] = transport.Event{Kind: transport.EventResponse, Peer: c.peer}
						return 1, nil
					}
				}
				return w.memoryWorker.Poll(events)
			}
		}},
	{name: "takes a reply to a lost peer", clause: "peers/lost-in-flight", says: "must refuse",
		worker: func(w *fakeWorker) { w.takeForLost(isReply) }},
	{name: "takes a call to a lost peer", clause: "peers/post-to-lost", says: "must refuse",
		worker: func(w *fakeWorker) {
			w.takeForLost(func(op transport.Op) bool { return !isReply(op) })
		}},
	{name: "gives up the others with a lost peer", clause: "peers/others-go-on", says: "peer is down",
		worker: func(w *fakeWorker) {
			lost := false
			w.editEvents(func(e *transport.Event) { lost = lost || e.Kind == transport.EventPeerLost })
			w.post = func(ops []transport.Op) (int, error) {
				if lost && len(ops) > 0 {
					return 0, w.connection(ops[0].Peer).down
				}
				return w.memoryWorker.Post(ops)
			}
		}},
	{name: "forgets the calls to others with a lost peer", clause: "peers/others-go-on", says: "the responses to all calls", hangs: true,
		worker: func(w *fakeWorker) {
			lost := false
			w.filterEvents(func(e *transport.Event) bool {
				lost = lost || e.Kind == transport.EventPeerLost
				return !lost || e.Kind == transport.EventPeerLost
			})
		}},
}
