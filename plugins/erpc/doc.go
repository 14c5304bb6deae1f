// Package erpc is RPC over unreliable datagrams, after eRPC (Kalia, Kaminsky, Andersen: "Datacenter
// RPCs can be general and fast", NSDI 2019). core/fabric/datagram carries the datagrams: over
// kernel UDP sockets, or over UD queue pairs of an RDMA device or of the software device.
//
// # Protocol
//
// Two connected workers share one session, and both may call over it. A client has a window of
// slots (8 in eRPC) with one call each; further calls wait in the backlog. The packets of a call
// and its response are numbered, and of four kinds. The client sends requests and RFRs (requests
// for response); the server sends nothing but one answer to each: a credit return or a packet of
// the response. rpc.go has the numbers.
//
// Flow control: the client holds the session's credits (32 in eRPC). Each of its packets costs one
// credit and the answer returns it, so the credits bound the packets in flight in both directions.
//
// Loss: packets out of order are dropped. A slot without progress for the retransmission timeout
// (RTO) takes back the credits of its unanswered packets and sends them again (go-back-N). A server
// answers a repeated packet again, but runs each request at most once: it starts a request only if
// its number is the slot's next one.
//
// Congestion: round trips give each session a rate (timely.go), and a timing wheel (wheel.go) holds
// packets until the rate allows them. While the rate is the link's, packets bypass the wheel.
//
// # A call of one packet
//
// On the client:
//
//  1. worker.Post (worker_datapath.go) passes the op to worker.postCall (request_datapath.go),
//     which copies the payload into the call's buffer and gives the call a free slot (startCall).
//  2. worker.pump (credit_datapath.go) takes a credit, worker.pace (timely.go) finds no reason to
//     wait, and worker.transmit (credit_datapath.go) calls sendRequest (request_datapath.go).
//  3. worker.send (worker_datapath.go) writes header and checksum, pads a short message to the
//     length of others, and adds the packet to the port's batch. worker.Flush rings the port's
//     doorbell.
//
// On the server:
//
//  4. worker.Poll (worker_datapath.go) receives a batch; worker.receive checks session, source and
//     checksum and passes the packet to receiveRequest (request_datapath.go). The request is the
//     slot's next one and complete, so it becomes an event whose payload lies in the port's buffer.
//  5. Post of the reply calls worker.postReply (response_datapath.go): it copies the payload, and
//     worker.answer (credit_datapath.go) sends it with sendResponse (response_datapath.go).
//
// Back on the client:
//
//  6. Poll and receive lead to receiveResponse (response_datapath.go). It calls acceptAnswer
//     (credit_datapath.go), which takes the credit back and measures the round trip, and then
//     complete, which makes the event and frees the slot or starts the next call of the backlog.
//
// # A call of many packets
//
// With a request of n packets and a response of m:
//
//  1. pump sends request packets while there are credits, one of each slot in turn.
//  2. receiveRequest copies each packet into the slot's buffer. For all but the last, worker.answer
//     (credit_datapath.go) sends a credit return; receiveCredit (credit_datapath.go) takes the
//     credit back and calls pump.
//  3. The last packet completes the request. Its answer is response packet 0, sent by postReply as
//     above.
//  4. receiveResponse learns the response's size from that packet, so the slot has m-1 more packets
//     to send. pump sends them as RFRs (sendRFR, rfr_datapath.go). receiveRFR has answer send the
//     next response packet. If the client awaits no other response, the port receives the packet
//     in the slot's buffer (worker.responseTarget); else reassemble copies it there.
//
// A posted payload is free when Post returns. The copy of a request is kept until its response is
// complete, and that of a response until the slot's next request arrives, because either may have
// to be sent again. The payload of an event is valid until the next Poll.
//
// worker.Poll also runs the timers: sendDue (wheel.go) sends held packets that are due; scan
// (worker_datapath.go) retransmits (checkTimeout, loss_datapath.go), repeats handshakes
// (handshake.go) and collects peers that the heartbeat declared dead (heartbeat.go).
package erpc
