package amlib

import (
	"unsafe"

	"transportbench/core/fabric/ccall"
)

// Arrival is one message that has arrived. Data is nil for an empty payload.
type Arrival struct {
	Token uint64
	Data  *byte
	Size  uint64
	Peer  uint32
	Kind  Kind
	_     [2]uint64 // the shim's: how to free the payload
}

// Payload returns the message's bytes, in C memory. They are valid until the next Progress.
func (a *Arrival) Payload() []byte { return unsafe.Slice(a.Data, int(a.Size)) }

// Pool has slots of one size, and a stack of the free ones.
type Pool struct {
	Base   unsafe.Pointer
	Stride uint64
	Free   *uint32
	Left   uint32 // free slots
	Count  uint32
}

// Shared is the part of a worker that C and Go share, in C memory. A shim's struct begins with it.
type Shared struct {
	Queued       uint32 // entries in Sends
	Pending      uint32 // sends that the library has not completed
	Arrived      uint64 // arrivals so far; written by C
	Taken        uint64 // arrivals handed out; written by Go
	Small, Large Pool   // memory of messages to send
	Sends        *Send
	Ring         *Arrival
	Mask         uint64 // of the ring
	Nonce        uint64
}

// Queue is Go's side of a worker's queue and ring. One thread at a time may use it.
type Queue struct {
	shared *Shared
	worker unsafe.Pointer // the shim's, the argument of both functions
	flush  unsafe.Pointer
	poll   unsafe.Pointer

	// Views of the shared memory.
	sends        []Send
	ring         []Arrival
	small, large slots
	smallLimit   int // bytes of payload
	// mask of Shared.Pending: all ones if Flush is needed while sends are pending
	unsent uint32
}

// slots is a view of a pool.
type slots struct {
	pool *Pool
	free []uint32
	base unsafe.Pointer
}

// QueueConfig configures a Queue.
type QueueConfig struct {
	Shared *Shared
	// Worker is the argument of Flush, which sends the queue, and Poll, which frees the arrivals
	// that were taken and makes progress. Both are C functions that meet the conditions of
	// [ccall.Call].
	Worker, Flush, Poll unsafe.Pointer
	// SmallLimit is the size in bytes of the largest payload in a small slot.
	SmallLimit int
	// FlushPending says that Flush has something to do while sends are pending.
	FlushPending bool
}

// NewQueue returns the queue of a worker of a shim.
func NewQueue(c QueueConfig) Queue {
	s := c.Shared
	q := Queue{shared: s, worker: c.Worker, flush: c.Flush, poll: c.Poll,
		sends: unsafe.Slice(s.Sends, int(s.Small.Count)+int(s.Large.Count)),
		ring:  unsafe.Slice(s.Ring, int(s.Mask)+1),
		small: slotsOf(&s.Small), large: slotsOf(&s.Large), smallLimit: c.SmallLimit}
	if c.FlushPending {
		q.unsent = ^uint32(0)
	}
	return q
}

func slotsOf(p *Pool) slots {
	return slots{pool: p, free: unsafe.Slice(p.Free, int(p.Count)), base: p.Base}
}

// Enqueue copies a message that Flush will send. It returns false if there is no free slot until
// the library has sent earlier messages. The caller ensures that the payload fits into a large slot
// and that the peer is connected.
func (q *Queue) Enqueue(peer uint32, kind Kind, token uint64, payload []byte) bool {
	s := q.shared
	pool, first := &q.small, uint32(0)
	if len(payload) > q.smallLimit {
		pool, first = &q.large, s.Small.Count
	}
	if pool.pool.Left == 0 {
		return false
	}
	pool.pool.Left--
	slot := pool.free[pool.pool.Left]
	base := unsafe.Add(pool.base, uint64(slot)*pool.pool.Stride)
	header := (*Header)(base)
	header.Token = token
	header.Origin = s.Nonce ^ uint64(kind)
	copy(unsafe.Slice((*byte)(unsafe.Add(base, HeaderSize)), len(payload)), payload)
	m := &q.sends[s.Queued]
	m.Slot = first + slot
	m.Peer = peer
	m.Size = uint64(len(payload))
	s.Queued++
	return true
}

// Unsent reports whether Flush has something to do.
func (q *Queue) Unsent() bool { return q.shared.Queued|q.shared.Pending&q.unsent != 0 }

// Flush sends the enqueued messages. What the library has no room for stays with the shim, which
// sends it later.
func (q *Queue) Flush() { ccall.Call(q.flush, q.worker) }

// Progress frees the arrivals that were taken and lets the library make progress: once if something
// is ready, else until something arrives or the shim's bound is reached.
func (q *Queue) Progress() { ccall.Call(q.poll, q.worker) }

// Ready returns how many arrivals Take can return.
func (q *Queue) Ready() int { return int(q.shared.Arrived - q.shared.Taken) }

// Take returns the next arrival, which is valid until the next Progress. Ready must be positive.
func (q *Queue) Take() *Arrival {
	s := q.shared
	a := &q.ring[s.Taken&s.Mask]
	s.Taken++
	return a
}
