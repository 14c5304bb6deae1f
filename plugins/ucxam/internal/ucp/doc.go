// Package ucp binds the parts of UCX's libucp that the transport needs: a context, and workers that
// exchange active messages.
//
// A shim in C owns the UCX worker, the receive handlers, the memory of messages and the ring
// of arrivals; C keeps no address of Go's heap or stack. Go accesses that memory without a
// call: [Worker.Enqueue] copies a message into it, [Worker.Take] reads the ring.
// [Worker.Flush] calls into C once to send all enqueued messages, and [Worker.Progress] once
// to receive.
//
// The C files, from the bottom up: shim.h is the interface to Go; peers.c has peers and
// their endpoints; receive.c the handlers and the ring; send.c the queue; worker.c set-up
// and close; context.c the context and the trial connection; probe.c the floor.
//
// Built without the tag ucx, or without cgo, the package is a stub: [Missing] names what to
// install, and [Open] fails.
package ucp
