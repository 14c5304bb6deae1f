package memory

import (
	"slices"

	"transportbench/core/transport"
)

// damages returns a fault that changes requests of one size.
func damages(size func(limits transport.Limits) int, edit func([]byte) []byte) func(*fakeWorker) {
	return func(w *fakeWorker) {
		w.editRequests(func(payload []byte) []byte {
			if len(payload) == size(w.limits) {
				return edit(payload)
			}
			return payload
		})
	}
}

func fixed(size int) func(transport.Limits) int {
	return func(transport.Limits) int { return size }
}

func cutLast(payload []byte) []byte { return payload[:len(payload)-1] }

func flipLast(payload []byte) []byte {
	payload[len(payload)-1] ^= 0xff
	return payload
}

var echoFakes = []fake{
	{name: "turns an empty payload into one byte", clause: "echo/empty",
		says:   "of 1 bytes, expected 0",
		worker: damages(fixed(0), func([]byte) []byte { return []byte{0} })},
	{name: "loses a single byte", clause: "echo/one-byte", says: "of 0 bytes, expected 1",
		worker: damages(fixed(1), cutLast)},
	{name: "damages the last byte of a payload one byte below inline size",
		clause: "echo/below-inline-size", says: "differs at byte 46",
		worker: damages(fixed(inlinePayload-1), flipLast)},
	{name: "damages the last inline byte", clause: "echo/inline-size", says: "differs at byte 47",
		worker: damages(fixed(inlinePayload), flipLast)},
	{name: "truncates the first payload that is not inline", clause: "echo/above-inline-size",
		says:   "of 48 bytes, expected 49",
		worker: damages(fixed(inlinePayload+1), cutLast)},
	{name: "truncates the largest payload", clause: "echo/largest",
		says:   "of 65535 bytes, expected 65536",
		worker: damages(func(limits transport.Limits) int { return limits.MaxPayload }, cutLast)},
	{name: "damages one size", clause: "echo/sizes", says: "of 257 bytes differs",
		worker: damages(fixed(257), flipLast)},
	{name: "damages one byte after a power of two", clause: "echo/sizes",
		says:   "of 4097 bytes differs",
		worker: damages(fixed(4097), flipLast)},
	{name: "takes the first op's size for the batch", clause: "echo/batch", says: "expected",
		worker: func(w *fakeWorker) {
			w.editOps(func(ops []transport.Op) {
				for i := range ops {
					payload := make([]byte, len(ops[0].Payload))
					copy(payload, ops[i].Payload)
					ops[i].Payload = payload
				}
			})
		}},
}

func isReply(op transport.Op) bool { return op.Kind == transport.OpReply }

var postFakes = []fake{
	{name: "fails to post nothing", clause: "post/nothing", says: "Post of no ops",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				if len(ops) == 0 {
					return 0, errKind
				}
				return w.worker.Post(ops)
			}
		}},
	{name: "reads the first op of an empty slice", clause: "post/nothing", says: "panicked",
		worker: func(w *fakeWorker) {
			w.editOps(func(ops []transport.Op) { _ = ops[0].Kind })
		}},
	{name: "reads payloads at Flush", clause: "post/copies", says: "differs at byte",
		worker: func(w *fakeWorker) {
			var pending []transport.Op
			w.post = func(ops []transport.Op) (int, error) {
				pending = append(pending, ops...)
				return len(ops), nil
			}
			w.flush = func() error {
				n, err := w.worker.Post(pending)
				pending = slices.Delete(pending, 0, n)
				if err != nil {
					return err
				}
				return w.worker.Flush()
			}
		}},

	{name: "takes a payload that is too large", clause: "post/too-large", says: "must refuse",
		worker: func(w *fakeWorker) {
			w.editOps(func(ops []transport.Op) {
				for i := range ops {
					ops[i].Payload = ops[i].Payload[:min(len(ops[i].Payload), w.limits.MaxPayload)]
				}
			})
		}},
	{name: "sends half of a payload that is too large", clause: "post/too-large",
		says: "no call in flight has",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				n, err := w.worker.Post(ops)
				if n < len(ops) && len(ops[n].Payload) > w.limits.MaxPayload {
					half := ops[n]
					half.Payload = half.Payload[:len(half.Payload)/2]
					_, _ = w.worker.Post([]transport.Op{half})
				}
				return n, err
			}
		}},
	{name: "returns another error for a payload that is too large", clause: "post/too-large",
		says: "the error of Post",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				n, err := w.worker.Post(ops)
				if n < len(ops) && len(ops[n].Payload) > w.limits.MaxPayload {
					err = errKind
				}
				return n, err
			}
		}},
	{name: "refuses the whole batch with a payload that is too large", clause: "post/too-large",
		says: "ops taken before",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				for _, op := range ops {
					if len(op.Payload) > w.limits.MaxPayload {
						return 0, w.connection(op.Peer).errs.TooLarge
					}
				}
				return w.worker.Post(ops)
			}
		}},
	{name: "breaks after a payload that is too large", clause: "post/too-large", says: "too large",
		worker: func(w *fakeWorker) {
			var broken error
			w.post = func(ops []transport.Op) (int, error) {
				if broken != nil {
					return 0, broken
				}
				n, err := w.worker.Post(ops)
				broken = err
				return n, err
			}
		}},
	{name: "uses up the reply handle with a reply that is too large",
		clause: "post/too-large-reply", says: "timed out waiting", hangs: true,
		worker: func(w *fakeWorker) {
			used := map[transport.Token]bool{}
			w.post = func(ops []transport.Op) (int, error) {
				for i, op := range ops {
					if isReply(op) && used[op.Token] {
						continue
					}
					n, err := w.worker.Post(ops[i : i+1])
					if err != nil {
						used[op.Token] = true
					}
					if n == 0 {
						return i, err
					}
				}
				return len(ops), nil
			}
		}},

	{name: "returns another error for an unknown peer", clause: "post/unknown-peer",
		says: "the error of Post",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				n, err := w.worker.Post(ops)
				if err != nil {
					err = errKind
				}
				return n, err
			}
		}},
	{name: "indexes with an unknown peer", clause: "post/unknown-peer", says: "panicked",
		worker: func(w *fakeWorker) {
			w.editOps(func(ops []transport.Op) {
				for _, op := range ops {
					_ = w.connections[op.Peer].peer
				}
			})
		}},
	{name: "drops ops to an unknown peer", clause: "post/unknown-peer", says: "must refuse",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				known := slices.DeleteFunc(slices.Clone(ops),
					func(op transport.Op) bool { return w.connection(op.Peer) == nil })
				n, err := w.worker.Post(known)
				return n + len(ops) - len(known), err
			}
		}},
	{name: "treats any kind as a call", clause: "post/unknown-kind", says: "must refuse",
		worker: func(w *fakeWorker) {
			w.editOps(func(ops []transport.Op) {
				for i := range ops {
					if !isReply(ops[i]) {
						ops[i].Kind = transport.OpCall
					}
				}
			})
		}},
	{name: "sends an op that it refuses for its kind", clause: "post/unknown-kind",
		says: "no call in flight has",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				n, err := w.worker.Post(ops)
				if err != nil {
					sent := ops[n]
					sent.Kind = transport.OpCall
					_, _ = w.worker.Post([]transport.Op{sent})
				}
				return n, err
			}
		}},
}

// sink keeps allocations on the heap.
var sink []byte

func allocate() { sink = make([]byte, 100) }

var allocFakes = []fake{
	{name: "allocates in Post", clause: "alloc/small", says: "allocations in a round",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				allocate()
				return w.worker.Post(ops)
			}
		}},
	{name: "allocates in Flush", clause: "alloc/small", says: "allocations in a round",
		worker: func(w *fakeWorker) {
			w.flush = func() error {
				allocate()
				return w.worker.Flush()
			}
		}},
	{name: "allocates for each event", clause: "alloc/small", says: "allocations in a round",
		worker: func(w *fakeWorker) { w.editEvents(func(e *transport.Event) { allocate() }) }},
	{name: "allocates for large payloads", clause: "alloc/large", says: "allocations in a round",
		worker: func(w *fakeWorker) {
			w.editEvents(func(e *transport.Event) {
				if e.Size > 4096 {
					allocate()
				}
			})
		}},
	{name: "allocates in an empty Poll", clause: "alloc/idle", says: "allocations in an idle",
		worker: func(w *fakeWorker) {
			w.poll = func(events []transport.Event) (int, error) {
				n, err := w.worker.Poll(events)
				if n == 0 {
					allocate()
				}
				return n, err
			}
		}},
	{name: "allocates when it is full", clause: "alloc/back-pressure", says: "finds no room",
		worker: func(w *fakeWorker) {
			w.onShort(func(_ []transport.Op, n int) (int, error) {
				allocate()
				return n, nil
			})
		}},
	{name: "allocates the error when it refuses", clause: "alloc/refusal", says: "is refused",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				n, err := w.worker.Post(ops)
				if err != nil {
					err = transport.NewOpError("memory", "post", err)
				}
				return n, err
			}
		}},
}
