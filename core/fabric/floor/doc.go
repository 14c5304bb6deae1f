// Package floor measures what a medium costs between two threads without a transport, with the
// payloads of a run: round trips of one message (transport.ProbeMedium) and the time per message
// with many under way (transport.ProbeRate).
//
//   - [Lines]: memory. The runtime probes it itself, so all transports over memory share one
//     floor.
//   - [ProbeStream] and [StreamPort]: TCP and other stream sockets, over a socket of the transport
//     or of the port.
//   - [Messages]: both floors over any medium that can post and take messages.
//   - [PingPong]: round trips over any medium that can post and take a number.
//   - [CacheLine]: one cache line, as a record of the machine's state.
//
// Packages core/fabric/datagram and core/fabric/rdma measure the floors of UDP and verbs.
package floor
