// Package copyrpc is the ring transport on RDMA WRITE WITH IMMEDIATE, after copyrpc
// (namachan10777/copyrpc). Each connection has a send ring on one side and a
// receive ring of the same size on the other, for each direction. Post copies
// messages into the send ring; Flush writes what is new to the same place of the
// peer's receive ring, with one request for each peer that has something, whose
// immediate says how far the receiver may read.
//
// # Flow control
//
// Three things are counted for each connection, and each is given back in the
// header of the batches that go the other way:
//
//   - room in the receive ring, given back when the reader lets go of a payload
//   - receives, of which a WRITE WITH IMMEDIATE consumes one
//   - promises of room for responses, one for each call in flight. A caller makes
//     no more calls than the responses have room for, and calls leave that much of a
//     ring alone, so that a reply never has to wait for room; see room.go.
//
// When there is no batch to ride on, what is owed goes with a plain RDMA WRITE into a
// word at the peer, which consumes neither room nor a receive.
//
// # Connections
//
// Workers know each other's datagram queue pair from their addresses. Connecting
// makes an RC queue pair and says so in datagrams until the peer has done the same;
// Poll drives that. What is posted meanwhile waits in the send ring.
//
// The device is that of core/fabric/rdma, verbs or soft.
package copyrpc
