// Package datagram sends and receives batches of unreliable datagrams through one small interface,
// [Port], for transports that build their own protocol on datagrams. The providers are
//
//   - udp: a kernel socket, within a host and between hosts ([OpenUDP])
//   - verbs: an unreliable datagram (UD) queue pair of core/fabric/rdma, on an RDMA device or on
//     its software device ([OpenVerbs])
//
// and package faulty injects faults into either.
//
// # Contract
//
// One thread uses a port. A port knows the ports that it sends to as remotes and receives what they
// send; it may also receive what anybody else sends to its address. A datagram arrives once, more
// than once or never, in any order. Nothing about its bytes has been checked but the length: a
// datagram arrives at its full length or is dropped.
//
// [Port.Send], [Port.Flush] and [Port.Receive] never block, lock or allocate. The other methods
// belong to the control path and may block.
//
// suite_test.go and the files beside it have a named test for every clause.
package datagram
