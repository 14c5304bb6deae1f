// Package floor measures what a medium costs between two threads without a transport, with the
// payloads of a run: round trips of one message (transport.ProbeMedium) and the time per message
// with many under way (transport.ProbeRate).
//
//   - [Lines]: memory. The runtime uses it, so that all transports over memory have the same
//     floors.
//   - [ProbeStream] and [StreamPort]: TCP and other stream sockets, over a socket that a transport
//     lends, or one of its own.
//   - [Messages]: both floors over any medium that can post and take messages.
//   - [PingPong]: round trips over any medium that can post and take a number.
//   - [CacheLine]: one cache line, as a record of the machine's state.
//
// The floors of UDP are those of the ports of core/fabric/datagram, and those of verbs the loops of
// core/fabric/rdma.
package floor
