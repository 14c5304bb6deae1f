//go:build ucx && cgo

package ucp

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
	_     [2]uint64
}

// The shim's layout.
var _ [unsafe.Sizeof(Arrival{})]byte = [unsafe.Sizeof(C.uam_arrival{})]byte{}

// Payload returns the message's bytes, which lie in C's memory.
func (a *Arrival) Payload() []byte { return unsafe.Slice(a.Data, int(a.Size)) }

// Stage copies a message for Flush to send. It returns false where there is no
// room until earlier messages are gone. The payload has at most
// WorkerConfig.MaxPayload bytes and the peer is connected; neither is checked.
func (w *Worker) Stage(peer uint32, kind Kind, token uint64, payload []byte) bool {
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
	header := (*C.uam_header)(base)
	header.token = C.uint64_t(token)
	header.origin = s.nonce | C.uint64_t(kind)
	copy(unsafe.Slice((*byte)(unsafe.Add(base, HeaderSize)), len(payload)), payload)
	m := &w.sends[s.queued]
	m.slot = slot + number
	m.peer = C.uint32_t(peer)
	m.size = C.uint64_t(len(payload))
	s.queued++
	return true
}

// Unsent says whether there is something for Flush to do.
func (w *Worker) Unsent() bool { return w.s.queued|w.s.pending != 0 }

// Flush sends what was staged. While UCX could not send at once, it lets UCX
// progress a few times.
func (w *Worker) Flush() { ccall.Call(C.uam_flush, unsafe.Pointer(w.c)) }

// Progress gives the arrivals that were taken back to the shim and lets UCX
// progress: once where something is ready, else until something is, at most
// WorkerConfig.Bound times.
func (w *Worker) Progress() { ccall.Call(C.uam_poll, unsafe.Pointer(w.c)) }

// Ready returns how many arrivals there are to take.
func (w *Worker) Ready() int { return int(w.s.arrived - w.s.taken) }

// Take returns the next arrival, of which there is one. It is valid until the
// next Progress.
func (w *Worker) Take() *Arrival {
	s := w.s
	a := (*Arrival)(unsafe.Pointer(&w.ring[s.taken&s.mask]))
	s.taken++
	return a
}
