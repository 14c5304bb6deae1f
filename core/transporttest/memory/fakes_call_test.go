package memory

import (
	"slices"
	"syscall"
	"time"

	"transportbench/core/transport"
)

var callFakes = []fake{
	{name: "returns a response twice", clause: "call/once", says: "no call in flight has",
		worker: func(w *fakeWorker) { w.twice(transport.EventResponse) }},
	{name: "returns a request twice", clause: "call/once", says: "no call in flight has",
		worker: func(w *fakeWorker) { w.twice(transport.EventRequest) }},
	{name: "drops requests while it waits for responses", clause: "call/both-sides",
		says: "timed out waiting", hangs: true,
		worker: func(w *fakeWorker) {
			w.filterEvents(func(e *transport.Event) bool {
				return e.Kind != transport.EventRequest || w.unanswered() == 0
			})
		}},
	{name: "matches responses to calls in their order", clause: "call/replies-in-any-order",
		says: "response of",
		worker: func(w *fakeWorker) {
			var order []transport.Token
			w.post = func(ops []transport.Op) (int, error) {
				n, err := w.worker.Post(ops)
				for _, op := range ops[:n] {
					if op.Kind == transport.OpCall {
						order = append(order, op.Token)
					}
				}
				return n, err
			}
			w.editEvents(func(e *transport.Event) {
				if e.Kind == transport.EventResponse {
					e.Token, order = order[0], order[1:]
				}
			})
		}},
	{name: "has too few reply handles", clause: "call/deferred", says: "response",
		worker: func(w *fakeWorker) {
			var handles [4]transport.Token
			next := 0
			w.editEvents(func(e *transport.Event) {
				if e.Kind == transport.EventRequest {
					slot := next % len(handles)
					next++
					handles[slot], e.Token = e.Token, transport.Token(slot)
				}
			})
			w.editOps(func(ops []transport.Op) {
				for i := range ops {
					if isReply(ops[i]) {
						ops[i].Token = handles[ops[i].Token]
					}
				}
			})
		}},
	{name: "loses the high half of a token", clause: "call/tokens", says: "no call in flight has",
		worker: func(w *fakeWorker) {
			w.editOps(func(ops []transport.Op) {
				for i := range ops {
					ops[i].Token &= 1<<32 - 1
				}
			})
		}},
	{name: "loses the highest bit of a token", clause: "call/tokens", says: "no call in flight has",
		worker: func(w *fakeWorker) {
			w.editOps(func(ops []transport.Op) {
				for i := range ops {
					ops[i].Token &= 1<<63 - 1
				}
			})
		}},
	{name: "treats token 0 as no token", clause: "call/tokens", says: "the responses to all calls",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.filterEvents(func(e *transport.Event) bool {
				return e.Kind != transport.EventResponse || e.Token != 0
			})
		}},
	{name: "reorders requests", clause: "call/ordered", says: "in the order of posting",
		worker: func(w *fakeWorker) {
			polls := 0
			w.poll = func(events []transport.Event) (int, error) {
				n, err := w.worker.Poll(events)
				if n > 1 {
					if polls++; polls%10 == 0 {
						events[0], events[1] = events[1], events[0]
					}
				}
				return n, err
			}
		}},
}

// twice returns every tenth event of one kind twice.
func (w *fakeWorker) twice(kind transport.EventKind) {
	seen := 0
	var again []transport.Event
	w.poll = func(events []transport.Event) (int, error) {
		if len(again) > 0 && len(events) > 0 {
			n := copy(events, again)
			again = again[n:]
			return n, nil
		}
		n, err := w.worker.Poll(events)
		for _, e := range events[:n] {
			if e.Kind == kind {
				if seen++; seen%10 == 0 {
					e.Payload = slices.Clone(e.Payload)
					again = append(again, e)
				}
			}
		}
		return n, err
	}
}

var threadFakes = []fake{
	{name: "loses a message while another worker polls", clause: "threads/all-to-all",
		says: "all calls and requests", hangs: true,
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				w.driver.data.Lock()
				defer w.driver.data.Unlock()
				time.Sleep(time.Microsecond)
				return w.worker.Poll(events)
			}
			w.post = func(ops []transport.Op) (int, error) {
				if !w.driver.data.TryLock() {
					return len(ops), nil
				}
				defer w.driver.data.Unlock()
				return w.worker.Post(ops)
			}
		}},
	{name: "works only on its first thread", clause: "threads/handover", says: "fault",
		worker: func(w *fakeWorker) {
			thread := 0
			w.post = func(ops []transport.Op) (int, error) {
				if thread == 0 {
					thread = syscall.Gettid()
				}
				if thread != syscall.Gettid() {
					return 0, errFault
				}
				return w.worker.Post(ops)
			}
		}},
}
