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
	"fmt"
	"slices"
	"time"
	"unsafe"
)

// Worker exchanges messages with its peers. It belongs to one thread at a time.
type Worker struct {
	c *C.uam_worker
	s *C.uam_shared

	// Views of the shim's memory.
	sends      []C.uam_send
	ring       []C.uam_arrival
	small      slots
	large      slots
	smallLimit int // bytes of payload

	address []byte
	eager   int
}

// slots is one of the shim's pools.
type slots struct {
	pool *C.uam_pool
	free []C.uint32_t
	base unsafe.Pointer
}

// NewWorker makes a worker. nonce tells it from all others; it has no bits
// outside of NonceMask.
func (c *Context) NewWorker(cfg WorkerConfig, nonce uint64) (*Worker, error) {
	native := C.uam_config{
		peers: C.uint32_t(cfg.Peers), window: C.uint32_t(cfg.Window),
		max_payload: C.uint64_t(cfg.MaxPayload), small: C.uint64_t(cfg.Small),
		eager: C.uint64_t(cfg.Eager), large_bytes: C.uint64_t(cfg.LargeBytes),
		bound: C.uint32_t(cfg.Bound), wakeup: flag(c.wakeUp), peer_errors: flag(cfg.PeerErrors),
	}
	w := &Worker{smallLimit: min(cfg.Small, cfg.MaxPayload)}
	err := withEnvironment(c.settings, func() error {
		return statusError(C.uam_worker_open(c.c, &native, C.uint64_t(nonce), &w.c))
	})
	if err != nil {
		return nil, err
	}
	w.s = C.uam_worker_shared(w.c)
	w.eager = int(C.uam_worker_eager(w.c))
	w.small, w.large = viewOf(&w.s.small), viewOf(&w.s.large)
	w.sends = unsafe.Slice(w.s.sends, int(w.s.small.count)+int(w.s.large.count))
	w.ring = unsafe.Slice(w.s.ring, int(w.s.mask)+1)
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

func viewOf(p *C.uam_pool) slots {
	return slots{pool: p, free: unsafe.Slice(p.free, int(p.count)), base: unsafe.Pointer(p.base)}
}

// Address returns UCX's address of the worker.
func (w *Worker) Address() []byte { return w.address }

// Eager returns the largest payload in bytes that travels as a header alone.
func (w *Worker) Eager() int { return w.eager }

// Descriptor returns the descriptor that becomes readable when an armed worker
// has something to do, or -1 without wake-up.
func (w *Worker) Descriptor() int { return int(C.uam_worker_descriptor(w.c)) }

// Connect makes the worker with this address and nonce known under a number
// below WorkerConfig.Peers that is free. It returns UCX's description of the
// connection.
func (w *Worker) Connect(peer int, nonce uint64, address []byte) (info string, err error) {
	if len(address) == 0 {
		return "", errors.New("an empty address")
	}
	// UCX reads past the end of an address that is cut short.
	native := C.CBytes(append(slices.Clone(address), make([]byte, 64)...))
	defer C.free(native)
	var text *C.char
	err = statusError(C.uam_connect(w.c, C.uint32_t(peer), C.uint64_t(nonce), native, &text))
	return takeString(text), err
}

// Cut ends the connection to a peer; its loss is told as an arrival.
func (w *Worker) Cut(peer int) { C.uam_cut(w.c, C.uint32_t(peer)) }

// Farewell tells all peers that this worker closes. Nothing is sent or received
// any more but what is under way, which Drain sees to.
func (w *Worker) Farewell() { C.uam_farewell(w.c) }

// Drain progresses up to rounds times and returns how many connections and
// messages are not done with.
func (w *Worker) Drain(rounds int) int { return int(C.uam_drain(w.c, C.uint32_t(rounds))) }

// Destroy gives up all that the worker has, payloads included. It waits for
// nobody.
func (w *Worker) Destroy() { C.uam_worker_close(w.c) }

// Arm makes the descriptor tell of what arrives from now on. It says false
// where there is something to do already.
func (w *Worker) Arm() bool { return C.uam_arm(w.c) != 0 }

// Counts returns the counters.
func (w *Worker) Counts() Counts {
	return Counts{
		Sent: uint64(w.s.sent), Received: uint64(w.s.arrived), Pended: uint64(w.s.pended),
		Rendezvous: uint64(w.s.rendezvous), Copied: uint64(w.s.copied), Kept: uint64(w.s.kept),
		Strangers: uint64(w.s.strangers),
	}
}

// slice is how long a probe stays in C before it looks at its context.
const slice = time.Millisecond

// mostTrips bounds the batches of round trips that a probe records.
const mostTrips = 1 << 16

// Lead measures round trips to a peer that follows, for about d after the first
// one, and returns the mean of each batch in nanoseconds, ascending, and how
// many trips a batch has. session is larger than that of any earlier probe.
func (w *Worker) Lead(ctx context.Context, peer int, session uint32, d time.Duration) ([]float64, int, error) {
	const batch = 16
	trips := make([]float64, mostTrips)
	var filled C.uint32_t
	var begin time.Time
	for filled == 0 || filled < mostTrips && time.Since(begin) < d {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		lost := C.uam_probe_lead(w.c, C.uint32_t(peer), C.uint32_t(session), C.uint64_t(min(slice, max(d, time.Microsecond))),
			(*C.double)(&trips[0]), &filled, mostTrips)
		if lost != 0 {
			return nil, 0, errors.New("the peer was lost")
		}
		if begin.IsZero() && filled > 0 {
			begin = time.Now()
		}
	}
	C.uam_probe_end(w.c, C.uint32_t(peer), C.uint32_t(session))
	trips = trips[:filled]
	slices.Sort(trips)
	return trips, batch, nil
}

// Follow answers the round trips of a leader until it ends, and returns its
// session. Sessions up to done are over.
func (w *Worker) Follow(ctx context.Context, peer int, done uint32) (session uint32, err error) {
	var current C.uint32_t
	for {
		switch C.uam_probe_follow(w.c, C.uint32_t(peer), C.uint64_t(slice), C.uint32_t(done), &current) {
		case 1:
			return uint32(current), nil
		case -1:
			return uint32(current), errors.New("the peer was lost")
		}
		if ctx.Err() != nil {
			return uint32(current), fmt.Errorf("no end of the probe: %w", context.Cause(ctx))
		}
	}
}
