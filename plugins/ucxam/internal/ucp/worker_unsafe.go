//go:build ucx && cgo

package ucp

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
	c       *C.uam_worker
	counts  *C.uam_counts
	address []byte
}

var _ amlib.Library = (*Worker)(nil)

// NewWorker returns a worker. nonce identifies it to its peers.
func (c *Context) NewWorker(cfg WorkerConfig, nonce uint64) (*Worker, error) {
	native := C.uam_config{
		peers: C.uint32_t(cfg.Peers), window: C.uint32_t(cfg.Window),
		max_payload: C.uint64_t(cfg.MaxPayload), small: C.uint64_t(cfg.Small),
		eager: C.uint64_t(cfg.Eager), large_bytes: C.uint64_t(cfg.LargeBytes),
		bound: C.uint32_t(cfg.Bound), wakeup: flag(c.wakeUp), peer_errors: flag(cfg.PeerErrors),
		pack: flag(cfg.Pack),
	}
	w := &Worker{}
	err := withEnvironment(c.settings, func() error {
		return statusError(C.uam_worker_open(c.c, &native, C.uint64_t(nonce), &w.c))
	})
	if err != nil {
		return nil, err
	}
	w.counts = C.uam_worker_counts(w.c)
	shared := unsafe.Pointer(C.uam_worker_shared(w.c))
	w.Queue = amlib.NewQueue(amlib.QueueConfig{Shared: (*amlib.Shared)(shared),
		Worker: unsafe.Pointer(w.c), Flush: C.uam_flush, Poll: C.uam_poll,
		SmallLimit: min(cfg.Small, cfg.MaxPayload), FlushPending: true})
	var bytes unsafe.Pointer
	var length C.size_t
	if err := statusError(C.uam_worker_address(w.c, &bytes, &length)); err != nil {
		w.Destroy()
		return nil, err
	}
	defer C.free(bytes)
	w.address = C.GoBytes(bytes, C.int(length))
	return w, nil
}

// Address returns UCX's address of the worker.
func (w *Worker) Address() []byte { return w.address }

// Descriptor implements [amlib.Library]. It is -1 without wake-up.
func (w *Worker) Descriptor() int { return int(C.uam_worker_descriptor(w.c)) }

// Connect connects the worker with this address and nonce under a free number below
// WorkerConfig.Peers. It returns UCX's description of the connection.
func (w *Worker) Connect(peer int, nonce uint64, address []byte) (info string, err error) {
	if len(address) == 0 {
		return "", errors.New("the address is empty")
	}
	// UCX reads past the end of a truncated address.
	native := C.CBytes(append(slices.Clone(address), make([]byte, 64)...))
	defer C.free(native)
	var text *C.char
	err = statusError(C.uam_connect(w.c, C.uint32_t(peer), C.uint64_t(nonce), native, &text))
	return takeString(text), err
}

// Cut implements [amlib.Library].
func (w *Worker) Cut(peer int) { C.uam_cut(w.c, C.uint32_t(peer)) }

// BeginClose implements [amlib.Library].
func (w *Worker) BeginClose() { C.uam_begin_close(w.c) }

// Drain implements [amlib.Library].
func (w *Worker) Drain(rounds int) int { return int(C.uam_drain(w.c, C.uint32_t(rounds))) }

// Destroy implements [amlib.Library].
func (w *Worker) Destroy() { C.uam_worker_close(w.c) }

// Arm implements [amlib.Library].
func (w *Worker) Arm() bool { return C.uam_arm(w.c) != 0 }

// Counts returns the counters.
func (w *Worker) Counts() Counts {
	n := w.counts
	return Counts{
		Sent: uint64(n.sent), Received: uint64(C.uam_worker_shared(w.c).arrived),
		Pended: uint64(n.pended), Rendezvous: uint64(n.rendezvous), Copied: uint64(n.copied),
		CopiedBytes: uint64(n.copied_bytes), Kept: uint64(n.kept),
		Strangers: uint64(n.strangers), Packed: uint64(n.packed),
		PackedBytes: uint64(n.packed_bytes),
	}
}

// Registered returns how many bytes of the worker's memory were registered, and the time it took.
func (w *Worker) Registered() (bytes uint64, took time.Duration) {
	return uint64(w.counts.registered), time.Duration(w.counts.registered_ns)
}

// ProbeLimit returns the largest payload of Lead and Follow, once connected.
func (w *Worker) ProbeLimit() int { return int(C.uam_probe_limit(w.c)) }

// Lead implements [amlib.Library]. size is at most ProbeLimit.
func (w *Worker) Lead(ctx context.Context, peer int, session uint32, size int,
	d time.Duration) ([]float64, error) {
	var wait C.am_wait // goes on from slice to slice
	trips, err := amlib.Lead(ctx, d, func(within time.Duration, trips []float64, filled int) (
		int, bool) {
		n := C.uint32_t(filled)
		lost := C.uam_probe_lead(w.c, C.uint32_t(peer), C.uint32_t(session), C.uint32_t(size),
			C.uint64_t(within), &wait,
			(*C.double)(&trips[0]), &n, C.uint32_t(len(trips)))
		return int(n), lost != 0
	})
	if err == nil {
		C.uam_probe_end(w.c, C.uint32_t(peer), C.uint32_t(session))
	}
	return trips, err
}

// Follow implements [amlib.Library].
func (w *Worker) Follow(ctx context.Context, peer int, size int, done uint32) (session uint32,
	err error) {
	var current C.uint32_t
	var wait C.am_wait
	err = amlib.Follow(ctx, func(within time.Duration) int {
		return int(C.uam_probe_follow(w.c, C.uint32_t(peer), C.uint32_t(size), C.uint64_t(within),
			&wait, C.uint32_t(done), &current))
	})
	return uint32(current), err
}
