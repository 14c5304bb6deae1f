// Package ofi is the transport over libfabric (OpenFabrics Interfaces): over shared memory, TCP,
// UDP or RDMA, with the provider that the option provider names or the best one of the machine.
//
// An endpoint opens one interface of libfabric. Each of its workers opens a domain, an endpoint for
// reliable datagrams (FI_EP_RDM) and a completion queue, so threads share no lock. Package
// internal/fi calls into C: Post copies a message into C memory, and one call sends the whole
// batch. The receiver reads a payload where libfabric put it.
//
// libfabric rarely reports that a peer is gone. So a worker that closes sends a message, and a
// socket beside libfabric reveals a killed process: see presence.go.
//
// A result contains the provider, its version and its attributes from fi_getinfo.
package ofi
