// Package ucxam is the transport over UCX's active messages: over shared memory, TCP or
// RDMA, as UCX chooses or as the option tls requests.
//
// An endpoint has one UCX context, and each of its workers one UCX worker, so threads share
// no lock. Package internal/ucp calls into C: Post copies a message into C memory, and one
// call sends the whole batch.
//
// A small message is a header alone, UCX's shortest path. A larger one has data, sent
// eagerly or by rendezvous as UCX decides. A connection has at most as many calls in flight
// as the run configures, so both sides have room for every message in flight.
//
// The lane that UCX chooses is the provider and part of a result's identity. A trial
// connection determines it when the transport opens, and Connect refuses any other lane.
//
// UCX reads some variables before main: see [PrepareProcess].
package ucxam
