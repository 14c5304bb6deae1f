package daemon

import (
	"transportbench/core/runtime/kv"
	"transportbench/core/transport"
)

// outbox has the ops of a daemon that a worker has not taken yet, in order. Their payloads must
// not change until it has.
type outbox struct {
	worker transport.Worker
	ops    []transport.Op
	posted bool // since the last doorbell
	// kept has room for the payloads of all ops, off the Go heap. It is nil if they stay valid
	// until a worker takes them.
	kept   []byte
	stride int // in kept
	next   int // in kept, circular
	copied int // the first ops, whose payloads are in kept
}

func newOutbox(w transport.Worker, room int) outbox {
	return outbox{worker: w, ops: make([]transport.Op, 0, room)}
}

func (o *outbox) empty() bool { return len(o.ops) == 0 }

func (o *outbox) full() bool { return len(o.ops) == cap(o.ops) }

// add appends an op; the outbox must not be full. The caller sets it field by field: a literal
// is built on the stack with narrow stores and copied with wide loads, which stall on them.
func (o *outbox) add() *transport.Op {
	o.ops = o.ops[:len(o.ops)+1]
	return &o.ops[len(o.ops)-1]
}

// drop removes the first n ops.
func (o *outbox) drop(n int) {
	o.ops = o.ops[:copy(o.ops, o.ops[n:])]
	o.copied -= min(o.copied, n)
}

// keep copies payloads that point into the events of the last poll, because the next poll may
// come before the worker takes them. Ops leave in order, so their places are circular.
func (o *outbox) keep() {
	for i := range o.ops[o.copied:] {
		op := &o.ops[o.copied+i]
		place := o.kept[o.next*o.stride : (o.next+1)*o.stride]
		op.Payload = place[:copy(place, op.Payload)]
		if o.next++; o.next == cap(o.ops) {
			o.next = 0
		}
	}
	o.copied = len(o.ops)
}

// refresh looks up the entries that replies point at again. Responses from other ranks are not
// entries of the store and stay as they are.
func (o *outbox) refresh(store *kv.Store) {
	for i := range o.ops {
		if op := &o.ops[i]; op.Kind == transport.OpReply && len(op.Payload) >= kv.HeaderSize {
			op.Payload = store.Refresh(op.Payload)
		}
	}
}
