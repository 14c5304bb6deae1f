package memory

import "transportbench/core/transport"

// takeForLost pretends to post ops to lost peers if keep returns true.
func (w *fakeWorker) takeForLost(pretend func(transport.Op) bool) {
	w.post = func(ops []transport.Op) (int, error) {
		for i, op := range ops {
			if c := w.connection(op.Peer); c != nil && c.lost && pretend(op) {
				continue
			}
			if n, err := w.worker.Post(ops[i : i+1]); n == 0 {
				return i, err
			}
		}
		return len(ops), nil
	}
}

var peerFakes = []fake{
	{name: "never reports a loss", clause: "peers/lost-by-worker-close", says: "EventPeerLost at",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.filterEvents(func(e *transport.Event) bool {
				return e.Kind != transport.EventPeerLost
			})
		}},
	{name: "reports a loss twice", clause: "peers/lost-by-worker-close",
		says: "for the second time",
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
	{name: "reports the loss of a peer that lives", clause: "peers/lost-by-worker-close",
		says: "which lives",
		worker: func(w *fakeWorker) {
			w.editEvents(func(e *transport.Event) {
				if e.Kind == transport.EventPeerLost {
					e.Peer ^= 1
				}
			})
		}},
	{name: "sends a farewell in Worker.Close only", clause: "peers/lost-by-transport-close",
		says: "EventPeerLost at", hangs: true,
		transport: func(t *fakeTransport) { t.close = func() error { return nil } }},
	{name: "relies on a farewell", clause: "peers/lost-by-death", says: "EventPeerLost at",
		hangs: true,
		kill:  func(*fakeDriver, *endpoint) {}},
	{name: "reports only the first lost peer", clause: "peers/each-lost", says: "EventPeerLost at",
		hangs: true,
		worker: func(w *fakeWorker) {
			told := 0
			w.filterEvents(func(e *transport.Event) bool {
				if e.Kind == transport.EventPeerLost {
					told++
				}
				return e.Kind != transport.EventPeerLost || told == 1
			})
		}},
	{name: "reports a loss before the last messages", clause: "peers/lost-comes-last",
		says: "after its EventPeerLost",
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				for _, c := range w.active {
					if c.remote.gone.Load() && !c.lost && len(events) > 0 {
						c.lost = true
						events[0] = transport.Event{Kind: transport.EventPeerLost, Peer: c.peer}
						return 1, nil
					}
				}
				return w.worker.Poll(events)
			}
		}},
	{name: "returns an event for each failed call", clause: "peers/lost-in-flight",
		says: "after its EventPeerLost",
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				for _, c := range w.active {
					if c.lost && c.inFlight > 0 && len(events) > 0 {
						c.inFlight--
						events[0] = transport.Event{Kind: transport.EventResponse, Peer: c.peer}
						return 1, nil
					}
				}
				return w.worker.Poll(events)
			}
		}},
	{name: "takes a reply to a lost peer", clause: "peers/lost-in-flight", says: "must refuse",
		worker: func(w *fakeWorker) { w.takeForLost(isReply) }},
	{name: "takes a call to a lost peer", clause: "peers/post-to-lost", says: "must refuse",
		worker: func(w *fakeWorker) {
			w.takeForLost(func(op transport.Op) bool { return !isReply(op) })
		}},
	{name: "fails all peers after a loss", clause: "peers/others-go-on", says: "peer is down",
		worker: func(w *fakeWorker) {
			lost := false
			w.editEvents(func(e *transport.Event) {
				lost = lost ||
					e.Kind == transport.EventPeerLost
			})
			w.post = func(ops []transport.Op) (int, error) {
				if lost && len(ops) > 0 {
					return 0, w.connection(ops[0].Peer).errs.Down
				}
				return w.worker.Post(ops)
			}
		}},
	{name: "drops calls to other peers after a loss", clause: "peers/others-go-on",
		says: "the responses to all calls", hangs: true,
		worker: func(w *fakeWorker) {
			lost := false
			w.filterEvents(func(e *transport.Event) bool {
				lost = lost || e.Kind == transport.EventPeerLost
				return !lost || e.Kind == transport.EventPeerLost
			})
		}},
}
