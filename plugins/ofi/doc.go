// Package ofi is the transport over libfabric (OpenFabrics Interfaces): over shared memory, TCP,
// UDP or RDMA, with the provider that the option provider names or the best one of the machine.
//
// An endpoint has one interface of libfabric open, and each of its workers a domain, an endpoint
// for reliable datagrams (FI_EP_RDM) and a completion queue, so threads share no lock. Package
// internal/fi calls into C: Post copies a message into C memory, and one call sends the whole
// batch. A payload is read where libfabric received it.
//
// libfabric hardly tells that a peer is gone. A worker that closes says so in a message, and a
// socket beside libfabric tells of a process that was killed: see presence.go.
//
// The provider, its version and what fi_getinfo says about it are part of a result.
package ofi
