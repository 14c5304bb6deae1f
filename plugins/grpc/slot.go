package grpc

import (
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// slot carries one message from the worker to the goroutine that sends it. Post copies the message
// into the slot's memory, which grpc-go then sends from. The memory grows to the largest message that
// the slot has carried.
type slot struct {
	data []byte
	// posted is set when the worker has filled the slot and cleared by grpc-go when it has written the
	// data.
	posted atomic.Bool
	ready  atomic.Bool   // of a stream: to be taken by the sender
	start  chan struct{} // of a unary call: starts the slot's goroutine
	token  uint64        // of a unary call
}

// leastSlot is the initial size of a slot's memory. grpc-go gives memory back only if it has room for
// more than 1 KiB.
const leastSlot = 1<<10 + 64

// fill copies a message into the slot. A header of k and token precedes it if k is not 0.
func (s *slot) fill(k kind, token uint64, payload []byte) {
	size := len(payload)
	if k != 0 {
		size += headerSize
	}
	if cap(s.data) < max(size, leastSlot) {
		s.data = make([]byte, max(size, leastSlot))
	}
	s.data = s.data[:size]
	into := s.data
	if k != 0 {
		putHeader(into, k, token)
		into = into[headerSize:]
	}
	copy(into, payload)
	s.posted.Store(true)
}

var _ mem.BufferPool = (*slot)(nil)

// Get implements [mem.BufferPool]. Nothing calls it.
func (*slot) Get(size int) *[]byte { b := make([]byte, size); return &b }

// Put implements [mem.BufferPool]: grpc-go has written the data.
func (s *slot) Put(*[]byte) { s.posted.Store(false) }

// outbox is the queue from the worker to the goroutine that sends the messages of a stream: a ring of
// slots. A slot is free again when grpc-go has written it.
type outbox struct {
	slots    []slot
	next     int         // the slot that the worker fills next
	sleeping atomic.Bool // the sender
	notice   chan struct{}
}

func newOutbox(count int) *outbox {
	return &outbox{slots: make([]slot, count), notice: make(chan struct{}, 1)}
}

// post fills a slot, and returns false if none is free.
func (o *outbox) post(k kind, token uint64, payload []byte) bool {
	s := &o.slots[o.next]
	if s.ready.Load() || s.posted.Load() {
		return false
	}
	s.fill(k, token, payload)
	s.ready.Store(true)
	if o.next++; o.next == len(o.slots) {
		o.next = 0
	}
	return true
}

// flush wakes the sender if it sleeps, and returns 1 if so.
func (o *outbox) flush() int {
	if !o.sleeping.Load() {
		return 0
	}
	select {
	case o.notice <- struct{}{}:
	default: // one is pending
	}
	return 1
}

// take returns the slot with this number when the worker has filled it, or nil when stop is closed.
func (o *outbox) take(number int, stop <-chan struct{}) *slot {
	s := &o.slots[number]
	for !s.ready.Load() {
		o.sleeping.Store(true)
		if !s.ready.Load() {
			select {
			case <-o.notice:
			case <-stop:
				return nil
			}
		}
		o.sleeping.Store(false)
	}
	s.ready.Store(false)
	return s
}
