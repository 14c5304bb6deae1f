//go:build ofi && cgo

package fi

/*
#include "shim.h"
*/
import "C"

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
	_     [2]uintptr
}

// Arrival has the layout of fb_arrival.
var _ [unsafe.Sizeof(Arrival{})]byte = [unsafe.Sizeof(C.fb_arrival{})]byte{}

// Payload returns the message's bytes, in C memory.
func (a *Arrival) Payload() []byte { return unsafe.Slice(a.Data, int(a.Size)) }

// Enqueue copies a message that Flush will send. It returns false if there is no free slot
// until libfabric has sent earlier messages. The caller ensures that the payload has at most
// WorkerConfig.MaxPayload bytes and that the peer is connected.
func (w *Worker) Enqueue(peer uint32, kind Kind, token uint64, payload []byte) bool {
	s := w.s
	pool, number := &w.small, C.uint32_t(0)
	if len(payload) > w.smallLimit {
		pool, number = &w.large, s.small.count
	}
	if pool.pool.left == 0 {
		return false
	}
	pool.pool.left--
	slot := pool.free[pool.pool.left]
	base := unsafe.Add(pool.base, uint64(slot)*uint64(pool.pool.stride))
	header := (*C.fb_header)(base)
	header.token = C.uint64_t(token)
	header.origin = s.nonce ^ C.uint64_t(kind)
	copy(unsafe.Slice((*byte)(unsafe.Add(base, HeaderSize)), len(payload)), payload)
	m := &w.sends[s.queued]
	m.slot = slot + number
	m.peer = C.uint32_t(peer)
	m.size = C.uint64_t(len(payload))
	s.queued++
	return true
}

// Unsent reports whether Flush has something to do.
func (w *Worker) Unsent() bool { return w.s.queued != 0 }

// Flush sends the enqueued messages. What libfabric has no room for stays enqueued, and
// Progress sends it.
func (w *Worker) Flush() { ccall.Call(C.fb_flush, unsafe.Pointer(w.c)) }

// Progress frees the arrivals that were taken and reads completions: once if something is
// ready, else until something arrives, at most WorkerConfig.Bound times.
func (w *Worker) Progress() { ccall.Call(C.fb_poll, unsafe.Pointer(w.c)) }

// Ready returns how many arrivals Take can return.
func (w *Worker) Ready() int { return int(w.s.arrived - w.s.taken) }

// Take returns the next arrival, which is valid until the next Progress. Ready must be
// positive.
func (w *Worker) Take() *Arrival {
	s := w.s
	a := (*Arrival)(unsafe.Pointer(&w.ring[s.taken&s.mask]))
	s.taken++
	return a
}
