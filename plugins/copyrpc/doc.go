// Package copyrpc is a ring transport on RDMA WRITE WITH IMMEDIATE, after copyrpc
// (namachan10777/copyrpc). It runs on the devices of core/fabric/rdma, verbs or soft. Such a
// request writes into registered memory of the peer, consumes one of the receives that the
// peer has posted, and gives the peer a completion with 32 bits, the immediate.
//
// Each connection has two rings of equal size for each direction: a send ring at the
// sender and a receive ring at the receiver. A position in one is the same position in
// the other. Messages that are posted between two flushes form one batch, and a batch
// goes out as one RDMA request.
//
// # How a call travels
//
// The files are post_datapath.go (1 to 3, 6), poll_datapath.go (4, 5, 7) and
// credit_datapath.go (8).
//
//  1. worker.Post finds the connection. worker.call takes a free call number from
//     callTable, which is also the promise of room for the response. worker.append
//     copies a message header and the payload into the send ring at cursor.next, if the
//     peer has released enough of the ring. If the device can map the peer's receive ring, a
//     batch with a long message is stored there instead.
//  2. worker.Flush visits the peers that were posted to. worker.writeOpen fills in the
//     header of the open batch and posts one rdma.SendRequest: a WRITE WITH IMMEDIATE
//     from the send ring to the same offset of the peer's receive ring. The immediate is
//     the number of 32-byte units by which the ring advances. On the soft device, writeLone
//     gives a batch of one short message a shorter header. If the peer has no receive left,
//     or an earlier batch waits, worker.write queues the batch and Poll retries.
//  3. The device copies the bytes, unless they are in place, consumes a receive of the peer's
//     shared receive queue and adds a completion to the peer's completion queue.
//  4. The peer's worker.Poll calls collect, which polls the completion queue. arrive adds
//     the immediate to peer.arrived.
//  5. parse reads the new bytes: readHeader reads the batch header, with the
//     credit in it, and accept turns each message into an Event. deliverLone does it for what
//     writeLone has written. The payload stays in the receive ring; nothing is copied.
//  6. The reply takes the same path back: Post appends it to the replier's send ring
//     under the call's number, with responseBit set. It needs no credit because the
//     caller promised the room.
//  7. The caller's Poll finds the token by the call number and returns an EventResponse.
//  8. The next Poll of either side calls releaseHeld, which releases the payloads. The
//     header of the next batch in the other direction reports this to the sender. If no
//     batch goes that way, sendOwedCredit writes it to the peer.
//
// # The ring and its positions
//
// Positions are byte counts that only grow; the low bits are the offset in the ring. This is
// one direction, with the ring laid out from left to right:
//
//	peerReleased released     parsed      arrived     written   cursor.start  cursor.next
//	     |           |           |           |           |            |            |
//	free | released, | payloads  | arrived,  | in flight | closed     | open batch | free
//	     | not told  | in use    | not read  |           | batches    |            |
//
// The sender keeps peerReleased, written and the cursor; the receiver keeps released, parsed and
// arrived. Credit moves peerReleased to released, a completion moves arrived to written. A batch
// never straddles the end of the ring: a padding batch covers the rest. See ring.go for the
// wire format and for the proof that a reply always finds room.
//
// # Flow control
//
// A sender counts three things for each connection:
//
//   - bytes of the receive ring, returned when the receiver has released the payloads
//   - receives, of which each WRITE WITH IMMEDIATE consumes one, returned when the receiver
//     has seen the completion
//   - promises of room for responses, one for each call; a promise ends when the caller
//     releases the response
//
// The header of each batch returns bytes and receives for the opposite direction. If there is
// no batch to carry it, this credit goes as a plain RDMA WRITE to a word at the peer, which
// consumes neither ring space nor a receive and so can always be sent.
//
// # Connections
//
// A worker's address names its datagram queue pair. Connect makes an RC queue pair, or takes
// a share of the worker's DC queue pair (dynamic.go), and sends its endpoint in a datagram;
// Poll repeats the datagram until the peer has done the same (connect.go). Messages that are
// posted meanwhile wait in the send ring.
// Keepalives find dead peers (keepalive.go).
package copyrpc
