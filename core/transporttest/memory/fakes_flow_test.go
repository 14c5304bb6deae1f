package memory

import (
	"slices"

	"transportbench/core/transport"
)

// unanswered returns the number of calls in flight on all connections.
func (w *fakeWorker) unanswered() int {
	total := 0
	for _, c := range w.active {
		total += c.inFlight
	}
	return total
}

// onShort replaces the result of a Post with a short count.
func (w *fakeWorker) onShort(result func(ops []transport.Op, n int) (int, error)) {
	w.post = func(ops []transport.Op) (int, error) {
		n, err := w.worker.Post(ops)
		if err == nil && n < len(ops) {
			return result(ops, n)
		}
		return n, err
	}
}

var flowFakes = []fake{
	{name: "has room for half of the calls", clause: "flow/in-flight",
		says: "room for 16 calls in flight", hangs: true,
		worker: func(w *fakeWorker) { w.limits.InFlight /= 2 }},
	{name: "takes more calls than its limit", clause: "flow/in-flight-limit",
		says:       "of Limits.InFlight",
		properties: func(p *transport.Properties) { p.Limits.InFlight = 15 }},

	{name: "fails when it is full", clause: "flow/back-pressure", says: "must return a short count",
		worker: func(w *fakeWorker) {
			w.onShort(func(_ []transport.Op, n int) (int, error) { return n, errKind })
		}},
	{name: "blocks when it is full", clause: "flow/back-pressure", says: "did not return",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.onShort(func(_ []transport.Op, n int) (int, error) {
				w.driver.hang()
				return n, nil
			})
		}},
	{name: "is never full", clause: "flow/back-pressure", says: "never returned a short count",
		worker: func(w *fakeWorker) {
			w.onShort(func(ops []transport.Op, n int) (int, error) { return len(ops), nil })
		}},
	{name: "loses an op when it is full", clause: "flow/back-pressure",
		says: "the responses to all calls", hangs: true,
		worker: func(w *fakeWorker) {
			lost := false
			w.onShort(func(ops []transport.Op, n int) (int, error) {
				if !lost {
					lost = true
					n++
				}
				return n, nil
			})
		}},
	{name: "returns one more than it took", clause: "flow/back-pressure-batch",
		says: "the responses to all calls", hangs: true,
		worker: func(w *fakeWorker) {
			w.onShort(func(ops []transport.Op, n int) (int, error) { return n + 1, nil })
		}},
	{name: "returns one less than it took", clause: "flow/back-pressure-batch",
		says: "no call in flight has",
		worker: func(w *fakeWorker) {
			w.onShort(func(ops []transport.Op, n int) (int, error) { return max(n-1, 0), nil })
		}},
	{name: "takes the last ops of a batch that does not fit", clause: "flow/back-pressure-batch",
		says: "no call in flight has",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				reversed := slices.Clone(ops)
				slices.Reverse(reversed)
				return w.worker.Post(reversed)
			}
		}},
	{name: "drops a message at the wrap", clause: "flow/wrap", says: "timed out waiting",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.atWrap(func(r *ring, before uint64) { r.written = before })
		}},
	{name: "damages a message at the wrap", clause: "flow/wrap", says: "differs at byte",
		worker: func(w *fakeWorker) {
			w.atWrap(func(r *ring, before uint64) {
				if r.written&uint64(len(r.buf)-1) == 0 {
					r.buf[len(r.buf)-1] ^= 0xff
				}
				r.buf[ringHeader] ^= 0xff
			})
		}},
	{name: "leaks one credit for each op", clause: "flow/credits",
		says: "timed out waiting for room", hangs: true,
		worker: func(w *fakeWorker) {
			w.filterEvents(func(e *transport.Event) bool {
				if e.Kind == transport.EventResponse {
					w.connection(e.Peer).inFlight++
				}
				return true
			})
		}},
	{name: "leaks one credit in a thousand ops", clause: "flow/credits", says: "room for 16 calls",
		hangs: true,
		worker: func(w *fakeWorker) {
			responses := 0
			w.filterEvents(func(e *transport.Event) bool {
				if e.Kind == transport.EventResponse {
					if responses++; responses%1000 == 0 {
						w.connection(e.Peer).inFlight++
					}
				}
				return true
			})
		}},

	{name: "flushes only its first connection", clause: "flush/delivers", says: "after one Flush",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.flush = func() error {
				for _, c := range w.active {
					if c.send.publish() {
						break
					}
				}
				return nil
			}
		}},
	{name: "fails to flush nothing", clause: "flush/nothing", says: "Flush: ",
		worker: func(w *fakeWorker) {
			w.flush = func() error {
				for _, c := range w.active {
					if c.send.publish() {
						return nil
					}
				}
				return errKind
			}
		}},
}

// atWrap changes a message at the start of a ring.
func (w *fakeWorker) atWrap(change func(r *ring, before uint64)) {
	w.post = func(ops []transport.Op) (int, error) {
		for i := range ops {
			ring := w.connection(ops[i].Peer).send
			before, size := ring.written, uint64(len(ring.buf))
			if n, err := w.worker.Post(ops[i : i+1]); n == 0 {
				return i, err
			}
			if before > 0 && (ring.written-1)/size != (before-1)/size && len(ops[i].Payload) > 0 {
				change(ring, before)
			}
		}
		return len(ops), nil
	}
}

var pollFakes = []fake{
	{name: "returns a response on an idle connection", clause: "poll/idle", says: "never connected",
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				n, err := w.worker.Poll(events)
				if n == 0 && len(events) > 0 {
					events[0] = transport.Event{Kind: transport.EventResponse}
					n = 1
				}
				return n, err
			}
		}},
	{name: "fails when there is nothing", clause: "poll/idle", says: "Poll: ",
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				n, err := w.worker.Poll(events)
				if n == 0 {
					err = errKind
				}
				return n, err
			}
		}},
	{name: "loses an event that does not fit", clause: "poll/no-events", says: "timed out waiting",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				if len(events) == 0 {
					_, _ = w.worker.Poll(make([]transport.Event, 1))
					return 0, nil
				}
				return w.worker.Poll(events)
			}
		}},
	{name: "requires room for an event", clause: "poll/no-events", says: "panicked",
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				events[0] = transport.Event{}
				return w.worker.Poll(events)
			}
		}},
	{name: "loses the events that do not fit", clause: "poll/one-event", says: "timed out waiting",
		hangs: true,
		worker: func(w *fakeWorker) {
			all := make([]transport.Event, 64)
			w.poll = func(events []transport.Event) (int, error) {
				n, err := w.worker.Poll(all)
				return copy(events, all[:n]), err
			}
		}},
	{name: "cannot fill more than a thousand events", clause: "poll/many-events", says: "panicked",
		worker: func(w *fakeWorker) {
			var all [1000]transport.Event
			w.poll = func(events []transport.Event) (int, error) {
				n, err := w.worker.Poll(all[:len(events)])
				return copy(events, all[:n]), err
			}
		}},
	{name: "reports a wrong size", clause: "poll/size", says: "event of Size",
		worker: func(w *fakeWorker) {
			w.editEvents(
				func(e *transport.Event) { e.Size = ringSpace(e.Size) })
		}},
	{name: "reports no size", clause: "poll/size", says: "event of Size 0",
		worker: func(w *fakeWorker) { w.editEvents(func(e *transport.Event) { e.Size = 0 }) }},
	{name: "reuses a request's memory when the peer posts", clause: "poll/request-lifetime",
		says: "kept while others were posted",
		worker: func(w *fakeWorker) {
			w.handOut(transport.EventRequest)
			w.editOps(func([]transport.Op) {
				for _, other := range w.driver.workers {
					if other != w {
						overwrite(other.handedOut)
					}
				}
			})
		}},
	{name: "reuses a request's memory for the reply", clause: "poll/request-lifetime",
		says: "kept while others were posted",
		worker: func(w *fakeWorker) {
			w.handOut(transport.EventRequest)
			w.editOps(func([]transport.Op) { overwrite(w.handedOut) })
		}},
	{name: "reuses a response's memory for the next call", clause: "poll/response-lifetime",
		says: "kept while others were posted",
		worker: func(w *fakeWorker) {
			w.handOut(transport.EventResponse)
			w.editOps(func([]transport.Op) { overwrite(w.handedOut) })
		}},
	{name: "reuses a response's memory when the peer posts", clause: "poll/response-lifetime",
		says: "kept while others were posted",
		worker: func(w *fakeWorker) {
			w.handOut(transport.EventResponse)
			w.editOps(func([]transport.Op) {
				for _, other := range w.driver.workers {
					if other != w {
						overwrite(other.handedOut)
					}
				}
			})
		}},
}

// handOut returns copies of one kind of payload, in separate memory.
func (w *fakeWorker) handOut(kind transport.EventKind) {
	sound := w.poll
	w.poll = func(events []transport.Event) (int, error) {
		n, err := sound(events)
		w.handedOut = nil
		for i := range events[:n] {
			if e := &events[i]; e.Kind == kind {
				w.handedOut = append(w.handedOut, e.Payload...)
			}
		}
		start := 0
		for i := range events[:n] {
			if e := &events[i]; e.Kind == kind {
				e.Payload = w.handedOut[start : start+e.Size]
				start += e.Size
			}
		}
		return n, err
	}
}
