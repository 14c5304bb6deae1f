// Package ucp binds what the transport needs of UCX's libucp: one context for
// a rank, and workers that exchange active messages.
//
// A shim in C does the work. It owns the UCX worker, the receive handlers, the
// memory of messages and the ring of what has arrived; no address of Go's heap
// or stack ever stays in C. A message costs no call: [Worker.Stage] copies it
// into the shim's memory and [Worker.Arrival] reads the ring, both from Go.
// [Worker.Flush] crosses once to send all that was staged, and [Worker.Progress]
// once to receive.
//
// Built without the tag ucx, or without cgo, the package is a stub: [Missing]
// says what to install, and nothing can be opened.
package ucp
