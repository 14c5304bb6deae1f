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
	"slices"
	"time"
	"unsafe"

	"transportbench/core/fabric/amlib"
)

// Worker exchanges messages with its peers. One thread at a time may use it.
type Worker struct {
	amlib.Queue
	c       *C.fb_worker
	counts  *C.fb_counts
	address []byte
}

var _ amlib.Library = (*Worker)(nil)

// NewWorker returns a worker. nonce identifies the worker to its peers. name, unless it is empty,
// becomes the endpoint's address.
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
	w := &Worker{}
	if err := codeError(C.fb_worker_open(c.c, &native, C.uint64_t(nonce), text, &w.c)); err != nil {
		return nil, err
	}
	w.counts = C.fb_worker_counts(w.c)
	shared := unsafe.Pointer(C.fb_worker_shared(w.c))
	w.Queue = amlib.NewQueue(amlib.QueueConfig{Shared: (*amlib.Shared)(shared),
		Worker: unsafe.Pointer(w.c), Flush: C.fb_flush, Poll: C.fb_poll, SmallLimit: cfg.Small})
	var length C.size_t
	address := C.fb_worker_address(w.c, &length)
	w.address = C.GoBytes(address, C.int(length))
	return w, nil
}

// Address returns libfabric's address of the worker.
func (w *Worker) Address() []byte { return w.address }

// Descriptor implements [amlib.Library]. It is -1 if the provider has none.
func (w *Worker) Descriptor() int { return int(C.fb_worker_descriptor(w.c)) }

// Connect connects the worker with this address and nonce under a free number below
// WorkerConfig.Peers.
func (w *Worker) Connect(peer int, nonce uint64, address []byte) error {
	if len(address) == 0 {
		return errors.New("the address is empty")
	}
	// libfabric reads as many bytes as its own address has, or text up to a NUL byte.
	native := C.CBytes(append(slices.Clone(address), make([]byte, max(len(w.address), 64))...))
	defer C.free(native)
	return codeError(C.fb_connect(w.c, C.uint32_t(peer), C.uint64_t(nonce), native))
}

// Cut implements [amlib.Library].
func (w *Worker) Cut(peer int) { C.fb_cut(w.c, C.uint32_t(peer)) }

// FailReads makes reads of the completion queue fail with an error of libfabric, for tests.
func (w *Worker) FailReads(code int) { C.fb_fail_reads(w.c, C.int(-code)) }

// Forge sends the large message that was enqueued last as one that gathers n, for tests.
func (w *Worker) Forge(n int) error { return codeError(C.fb_forge(w.c, C.uint32_t(n))) }

// BeginClose implements [amlib.Library].
func (w *Worker) BeginClose() { C.fb_begin_close(w.c) }

// Drain implements [amlib.Library].
func (w *Worker) Drain(rounds int) int { return int(C.fb_drain(w.c, C.uint32_t(rounds))) }

// Destroy implements [amlib.Library].
func (w *Worker) Destroy() { C.fb_worker_close(w.c) }

// Arm implements [amlib.Library].
func (w *Worker) Arm() bool { return C.fb_arm(w.c) != 0 }

// Counts returns the counters.
func (w *Worker) Counts() Counts {
	n := w.counts
	return Counts{
		Sent: uint64(n.sent), Injected: uint64(n.injected), Retried: uint64(n.retried),
		Gathered: uint64(n.gathered), Received: uint64(n.received), Early: uint64(n.early),
		Errors: uint64(n.errors), Strangers: uint64(n.strangers),
	}
}

// Registered returns how many bytes of the worker's memory were registered, and the time it took.
func (w *Worker) Registered() (bytes uint64, took time.Duration) {
	return uint64(w.counts.registered), time.Duration(w.counts.registered_ns)
}

// Lead implements [amlib.Library]. size is at most WorkerConfig.MaxPayload.
func (w *Worker) Lead(ctx context.Context, peer int, session uint32, size int,
	d time.Duration) ([]float64, error) {
	var wait C.am_wait // goes on from slice to slice
	trips, err := amlib.Lead(ctx, d, func(within time.Duration, trips []float64, filled int) (
		int, bool) {
		n := C.uint32_t(filled)
		lost := C.fb_probe_lead(w.c, C.uint32_t(peer), C.uint32_t(session), C.uint32_t(size),
			C.uint64_t(within), &wait,
			(*C.double)(&trips[0]), &n, C.uint32_t(len(trips)))
		return int(n), lost != 0
	})
	if err == nil {
		C.fb_probe_end(w.c, C.uint32_t(peer), C.uint32_t(session))
	}
	return trips, err
}

// Follow implements [amlib.Library].
func (w *Worker) Follow(ctx context.Context, peer int, size int, done uint32) (session uint32,
	err error) {
	var current C.uint32_t
	var wait C.am_wait
	err = amlib.Follow(ctx, func(within time.Duration) int {
		return int(C.fb_probe_follow(w.c, C.uint32_t(peer), C.uint32_t(size), C.uint64_t(within),
			&wait, C.uint32_t(done), &current))
	})
	return uint32(current), err
}
