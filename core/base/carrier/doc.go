// Package carrier reports what carries the bytes of a process, as the kernel knows it: the sockets
// in force, the interface of a route, the port of an RDMA device, the shared segments; and it
// counts their bytes.
//
// A transport states its paths as a [transport.PathReader]. [Describe] completes them. A [Watch]
// counts bytes and packets between two moments without asking the transport, so that the host can
// compare the two: bytes that a transport sends by another way than it states are counted there.
//
// Everything is read in the network namespace of the calling thread.
package carrier
