// Package erpc is RPC over unreliable datagrams, after eRPC (Kalia, Kaminsky,
// Andersen: "Datacenter RPCs can be general and fast", NSDI 2019). Datagrams are those
// of core/fabric/datagram: kernel sockets, or UD queue pairs of an RDMA device or of the
// software device.
//
// # Sessions
//
// Each connection of two workers is one session, in which both may be client and
// server. A client has a window of slots (8), each with one call on its way; more calls
// wait in the backlog. A call and its response are an exchange of numbered packets, in
// which the server sends nothing but answers; exchange.go has the numbers. The server
// keeps the number of each slot's last request, and runs a request only if it is the
// next: at most once.
//
// # Flow control
//
// A client holds the session's credits (32). Each packet that it sends takes one, and
// the answer to it gives it back. So the credits bound what is on its way in both
// directions, and no more of them are used than both sides have room to receive.
//
// # Loss
//
// What arrives out of order is dropped. A slot without progress for a while (RTO) forgets
// what was not answered, takes its credits back and sends again from there (go-back-N).
//
// # Congestion
//
// Round trips, from packets and their answers, give each session a rate (timely.go),
// and a timing wheel (wheel.go) holds packets until the rate lets them go: pulls too,
// by the size of what they ask for. While the rate is the link's, packets pass the wheel
// by.
//
// # Loss of peers
//
// Ranks ask each other for life in heartbeats, which a goroutine answers whatever the
// workers do; a worker that closes says so.
package erpc
