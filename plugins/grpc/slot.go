package grpc

import (
	"math"
	"sync/atomic"

	"google.golang.org/grpc/mem"
)

// slot carries one message from the worker to the goroutine that sends it. Post copies the message
// into the slot's memory, and grpc-go sends it from there. The memory grows to the largest message
// so far.
type slot struct {
	data []byte
	// posted is set when the worker has filled the slot and cleared by grpc-go when it has written
	// the data.
	posted atomic.Bool
	ready  atomic.Bool   // of a stream: the sender may take it
	size   int64         // of a stream: its share of unsent
	unsent *atomic.Int64 // of a stream: outbox.unsent; else nil
}

// minSlot is the initial size of a slot's memory. grpc-go returns only buffers of more than 1 KiB.
const minSlot = 1<<10 + 64

// fill copies a message into the slot. A header of k and token precedes it if k is not 0.
func (s *slot) fill(k kind, token uint64, payload []byte) {
	size := len(payload)
	if k != 0 {
		size += headerSize
	}
	if cap(s.data) < max(size, minSlot) {
		s.data = make([]byte, max(size, minSlot))
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
func (s *slot) Put(*[]byte) {
	if s.unsent != nil {
		s.unsent.Add(-s.size)
	}
	s.posted.Store(false)
}

// outbox is the queue from the worker to a stream: a ring of slots. A slot is free again when
// grpc-go has written it. Flush sends the slots itself while SendMsg cannot block, as a plain
// program does, and leaves the others to a goroutine.
type outbox struct {
	slots    []slot
	next     int                    // the slot that the worker fills next
	direct   int64                  // Flush sends while unsent is below this
	unsent   atomic.Int64           // bytes that grpc-go has not written yet
	stream   atomic.Pointer[stream] // once it is open
	sending  atomic.Bool            // Flush or the goroutine has first
	first    int                    // the slot that is sent next
	sleeping atomic.Bool            // the goroutine
	notice   chan struct{}
}

// writeQuota is how many bytes of a stream grpc-go buffers before SendMsg blocks. It counts those
// that it has not begun to write.
const writeQuota = 64 << 10

// newOutbox returns a ring for that many calls in flight each way. It has a slot for each call and
// reply in flight, and one for a slot that grpc-go has not returned although its message has
// arrived. So a slot is always free for the next call or reply.
//
// Flush sends only if the codec lends the slots to grpc-go, because otherwise the number of unsent
// bytes is unknown.
func newOutbox(inFlight int, lends bool) *outbox {
	o := &outbox{slots: make([]slot, 2*inFlight+1), notice: make(chan struct{}, 1)}
	if lends {
		o.direct = writeQuota
	}
	for i := range o.slots {
		o.slots[i].unsent = &o.unsent
	}
	return o
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

// flush sends what SendMsg takes without blocking. It wakes the goroutine for the rest if it
// sleeps, and then returns 1.
func (o *outbox) flush() int {
	rest := true
	if open := o.stream.Load(); open != nil && o.sending.CompareAndSwap(false, true) {
		rest = o.send(*open, o.direct)
		o.sending.Store(false)
	}
	if !rest || !o.sleeping.Load() {
		return 0
	}
	select {
	case o.notice <- struct{}{}:
	default: // one is pending
	}
	return 1
}

// send sends slots while fewer than limit bytes are unsent, and reports whether slots remain. The
// caller has set sending.
func (o *outbox) send(to stream, limit int64) (rest bool) {
	for {
		s := &o.slots[o.first]
		if !s.ready.Load() {
			return false
		}
		if o.unsent.Load() >= limit {
			return true
		}
		s.size = int64(len(s.data)) + messagePrefix
		o.unsent.Add(s.size)
		s.ready.Store(false)
		if o.first++; o.first == len(o.slots) {
			o.first = 0
		}
		if to.SendMsg(s) != nil {
			return false // the receiver gets the error
		}
	}
}

// messagePrefix is what gRPC adds to a message.
const messagePrefix = 5

// run sends what Flush has left until the stream ends.
func (o *outbox) run(to stream) {
	for {
		if o.sending.CompareAndSwap(false, true) {
			o.send(to, math.MaxInt64)
			o.sending.Store(false)
		}
		o.sleeping.Store(true)
		// A Flush may have posted after the last check, and not woken this goroutine because it was
		// still sending.
		if o.sending.CompareAndSwap(false, true) {
			more := o.slots[o.first].ready.Load()
			o.sending.Store(false)
			if more {
				o.sleeping.Store(false)
				continue
			}
		}
		select {
		case <-o.notice:
		case <-to.Context().Done():
			return
		}
		o.sleeping.Store(false)
	}
}
