// Package floor measures what a medium costs between two threads without a
// transport: the median round trip of a number (transport.Floor). Transports call it
// in their Probe.
//
// [PingPong] measures any medium that can post and take a number: a socket, a
// queue pair, datagrams. [Bounce] is its special case for shared memory, where a
// call through an interface would cost as much as what is measured. The third
// loop is in C, in plugins/ucxam, because the floor of a UCX connection must not
// contain calls from Go into C.
package floor
