// Package fi binds the parts of libfabric that the transport needs: a list of interfaces to
// providers, and workers that exchange messages over reliable-datagram endpoints (FI_EP_RDM).
//
// A shim in C owns the endpoint, its queues, the memory of messages and the ring of arrivals; C
// keeps no address of Go's heap or stack. Go accesses that memory without a call: [Worker.Enqueue]
// copies a message into it, [Worker.Take] reads the ring. [Worker.Flush] calls into C once to send
// all enqueued messages, and [Worker.Progress] once to receive. The payload of an arrival stays in
// the buffer that libfabric filled; the buffer is posted again after the arrival is taken.
//
// A payload up to WorkerConfig.Small is a plain message, which libfabric copies at once if the size
// is within the inject limit. A larger payload is a tagged message, so that it matches receives of
// its size; the provider chooses how to move it (shared memory, RMA or segments).
//
// The C files: shim.h is the interface to Go; open.c has the list of interfaces; worker.c set-up
// and close; send.c the queue; receive.c the completions and the ring; probe.c the library's
// ping-pong; memory.c what the provider shm leaves to its process.
//
// Built without the tag ofi, or without cgo, the package is a stub: [Missing] names what to
// install, and [Open] fails.
package fi
