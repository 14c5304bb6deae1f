// Package datagram carries batches of unreliable datagrams behind one small
// interface, the [Port], for transports that build a protocol of their own on
// them. The providers are
//
//   - udp: a kernel socket; between processes and between hosts, on any machine
//   - verbs: an unreliable datagram (UD) queue pair of core/fabric/rdma, on an RDMA
//     device or on its software device
//
// and [Faulty] puts any of them into a bad network.
//
// # Contract
//
// A port belongs to one thread. It knows the ports that it sends to as remotes,
// hears them, and may hear anybody else who knows its address. A datagram arrives once, more
// than once or never, in any order, and its bytes are whatever somebody sent:
// nothing about them but the length bound has been checked. What arrives is as
// long as what was sent, or is dropped.
//
// [Port.Send], [Port.Flush] and [Port.Receive] never block, lock or allocate.
// Everything else is control and may take its time.
//
// Package core/fabric/datagram/datagramtest has a named test for every clause.
package datagram
