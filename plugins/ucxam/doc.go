// Package ucxam is the transport over UCX's active messages: shared memory, TCP
// and what RDMA there is, whichever UCX chooses or the option tls asks for.
//
// A rank has one UCX context and each of its workers one UCX worker, so that
// threads share no lock. What crosses into C is in internal/ucp; a message is
// copied into memory of the library's when it is posted and crosses with all
// others of its batch.
//
// A small message travels as a header alone, UCX's shortest path; a larger one
// as data, eager or by rendezvous as UCX decides. A connection has as many calls
// in flight as the run asks for, and so no more messages under way than both
// sides have made room for.
//
// The lane that UCX chose is the provider and part of a result's identity. It is
// rehearsed when the transport opens, and a connection that comes to another
// lane is refused.
//
// UCX has to be told some things before the process's main function, in the
// environment: [PrepareProcess].
package ucxam
