//go:build ofi && cgo

package fi

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"
)

// Worker exchanges messages with its peers. One thread at a time may use it.
type Worker struct {
	c *C.fb_worker
	s *C.fb_shared

	// Views of the shim's memory.
	sends      []C.fb_send
	ring       []C.fb_arrival
	small      slots
	large      slots
	smallLimit int // bytes of payload

	address []byte
}

// slots is a view of one of the shim's pools.
type slots struct {
	pool *C.fb_pool
	free []C.uint32_t
	base unsafe.Pointer
}

// NewWorker returns a worker. nonce identifies it to its peers. A name that is not empty becomes
// the endpoint's address.
func (c *Context) NewWorker(cfg WorkerConfig, nonce uint64, name string) (*Worker, error) {
	native := C.fb_config{
		peers: C.uint32_t(cfg.Peers), window: C.uint32_t(cfg.Window),
		max_payload: C.uint64_t(cfg.MaxPayload), small: C.uint64_t(cfg.Small),
		large_bytes: C.uint64_t(cfg.LargeBytes), bound: C.uint32_t(cfg.Bound),
	}
	if cfg.WakeUp {
		native.wakeup = 1
	}
	var text *C.char
	if name != "" {
		text = C.CString(name)
		defer C.free(unsafe.Pointer(text))
	}
	w := &Worker{smallLimit: cfg.Small}
	if err := codeError(C.fb_worker_open(c.c, &native, C.uint64_t(nonce), text, &w.c)); err != nil {
		return nil, err
	}
	w.s = C.fb_worker_shared(w.c)
	w.small, w.large = viewOf(&w.s.small), viewOf(&w.s.large)
	w.sends = unsafe.Slice(w.s.sends, int(w.s.small.count)+int(w.s.large.count))
	w.ring = unsafe.Slice(w.s.ring, int(w.s.mask)+1)
	var length C.size_t
	address := C.fb_worker_address(w.c, &length)
	w.address = C.GoBytes(address, C.int(length))
	return w, nil
}

func viewOf(p *C.fb_pool) slots {
	return slots{pool: p, free: unsafe.Slice(p.free, int(p.count)), base: unsafe.Pointer(p.base)}
}

// Address returns libfabric's address of the worker.
func (w *Worker) Address() []byte { return w.address }

// Descriptor returns the descriptor that becomes readable when an armed worker has work, or
// -1 if the provider has none.
func (w *Worker) Descriptor() int { return int(C.fb_worker_descriptor(w.c)) }

// Connect connects the worker with this address and nonce under a free number below
// WorkerConfig.Peers.
func (w *Worker) Connect(peer int, nonce uint64, address []byte) error {
	if len(address) == 0 {
		return errors.New("the address is empty")
	}
	// libfabric takes an address of the length of its own, or text up to a NUL byte.
	native := C.CBytes(append(slices.Clone(address), make([]byte, max(len(w.address), 64))...))
	defer C.free(native)
	return codeError(C.fb_connect(w.c, C.uint32_t(peer), C.uint64_t(nonce), native))
}

// Cut ends the connection to a peer. An arrival of kind Lost follows.
func (w *Worker) Cut(peer int) { C.fb_cut(w.c, C.uint32_t(peer)) }

// FailReads makes reads of the completion queue fail with an error of libfabric, for tests.
func (w *Worker) FailReads(code int) { C.fb_fail_reads(w.c, C.int(-code)) }

// BeginClose begins to close the worker. Only Drain and Destroy may be called afterwards; Drain
// sends what is still pending, and then tells the peers that this worker closes.
func (w *Worker) BeginClose() { C.fb_begin_close(w.c) }

// Drain makes progress up to rounds times and returns how many messages are still to be sent.
func (w *Worker) Drain(rounds int) int { return int(C.fb_drain(w.c, C.uint32_t(rounds))) }

// Destroy frees all memory of the worker, including payloads, without waiting for peers.
func (w *Worker) Destroy() { C.fb_worker_close(w.c) }

// Arm makes the descriptor readable with the next completion. It returns false if there is work
// already.
func (w *Worker) Arm() bool { return C.fb_arm(w.c) != 0 }

// Counts returns the counters.
func (w *Worker) Counts() Counts {
	return Counts{
		Sent: uint64(w.s.sent), Injected: uint64(w.s.injected), Retried: uint64(w.s.retried),
		Received: uint64(w.s.received), Early: uint64(w.s.early), Errors: uint64(w.s.errors),
		Strangers: uint64(w.s.strangers),
	}
}

// Registered returns how many bytes of its memory were registered, and the time that it took.
func (w *Worker) Registered() (bytes uint64, took time.Duration) {
	return uint64(w.s.registered), time.Duration(w.s.registered_ns)
}

// slice is how long a probe stays in C before it checks its context, and maxSlice that of a leader
// whose round trips take so long that no batch ends within a shorter one, as over a network with a
// delay.
const slice, maxSlice = time.Millisecond, 512 * time.Millisecond

// maxTrips is the most batches of round trips that a probe records.
const maxTrips = 1 << 16

// Lead measures round trips to a peer that follows, for about d after the first one. It
// returns the mean of each batch in nanoseconds, and the size of a batch. session must be
// larger than that of any earlier probe, and size, the bytes of a ping, at most
// WorkerConfig.MaxPayload.
func (w *Worker) Lead(ctx context.Context, peer int, session uint32, size int,
	d time.Duration) ([]float64, int, error) {
	const batch = 16
	trips := make([]float64, maxTrips)
	var filled C.uint32_t
	var wait C.fb_wait // goes on from slice to slice
	var begin time.Time
	within := min(slice, max(d, time.Microsecond))
	for filled == 0 || filled < maxTrips && time.Since(begin) < d {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		lost := C.fb_probe_lead(w.c, C.uint32_t(peer), C.uint32_t(session), C.uint32_t(size),
			C.uint64_t(within), &wait,
			(*C.double)(&trips[0]), &filled, maxTrips)
		if lost != 0 {
			return nil, 0, errors.New("the peer was lost")
		}
		switch {
		case filled == 0:
			within = min(2*within, maxSlice)
		case begin.IsZero():
			begin = time.Now()
		}
	}
	C.fb_probe_end(w.c, C.uint32_t(peer), C.uint32_t(session))
	return trips[:filled], batch, nil
}

// Follow answers the pings of a leader until the leader ends its session, and returns that
// session. It ignores sessions up to done. size is that of the answers.
func (w *Worker) Follow(ctx context.Context, peer int, size int, done uint32) (session uint32,
	err error) {
	var current C.uint32_t
	var wait C.fb_wait
	for {
		switch C.fb_probe_follow(w.c, C.uint32_t(peer), C.uint32_t(size), C.uint64_t(slice), &wait,
			C.uint32_t(done), &current) {
		case 1:
			return uint32(current), nil
		case -1:
			return uint32(current), errors.New("the peer was lost")
		}
		if ctx.Err() != nil {
			return uint32(current), fmt.Errorf("the probe does not end: %w", context.Cause(ctx))
		}
	}
}
