package rank

import (
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// outbox is what a daemon has for one worker: ops that were not taken yet, in
// order. Their payloads must stay as they are until then.
type outbox struct {
	worker transport.Worker
	ops    []transport.Op
	posted bool // since the last doorbell
}

func newOutbox(w transport.Worker, room int) outbox {
	return outbox{worker: w, ops: make([]transport.Op, 0, room)}
}

func (o *outbox) empty() bool { return len(o.ops) == 0 }
func (o *outbox) full() bool  { return len(o.ops) == cap(o.ops) }

// add appends an op, for which there must be room, to be filled field by field:
// a literal is built on the stack with narrow stores and copied with wide loads,
// which stall on them.
func (o *outbox) add() *transport.Op {
	o.ops = o.ops[:len(o.ops)+1]
	return &o.ops[len(o.ops)-1]
}

// flush posts what there is and rings the doorbell for what was taken. A reply
// to a peer that is gone is dropped; a call to one is an error. short says that
// the worker had no room for all.
func (o *outbox) flush() (short bool, err error) {
	for len(o.ops) > 0 {
		n, err := o.worker.Post(o.ops)
		o.posted = o.posted || n > 0
		if err != nil {
			if !isPeerDown(err) || o.ops[n].Kind != transport.OpReply {
				return false, err
			}
			n++
		}
		short = err == nil && n < len(o.ops)
		copy(o.ops, o.ops[n:])
		o.ops = o.ops[:len(o.ops)-n]
		if err == nil {
			break
		}
	}
	if !o.posted {
		return short, nil
	}
	o.posted = false
	return short, o.worker.Flush()
}

// refresh looks up again what replies point at. Those that other ranks have
// sent are no entries of the store, and stay.
func (o *outbox) refresh(store *kv.Store) {
	for i := range o.ops {
		if op := &o.ops[i]; op.Kind == transport.OpReply && len(op.Payload) >= kv.HeaderSize {
			op.Payload = store.Refresh(op.Payload)
		}
	}
}
