// Package soft is an RDMA device in software, over shared memory between processes of one host. It
// keeps the rules of verbs; see package rdma.
//
// # A WRITE WITH IMMEDIATE, from PostSend to the completion
//
//  1. send_datapath.go: PostSend tries WriteInline for an unsignaled inline request, and else calls
//     post, which fills an entry of the send queue.
//  2. request puts a short payload into a slot of the peer's wire (putMessage). It copies a long
//     one to the peer's region itself if the peer has taken all messages; otherwise the peer
//     fetches it.
//     WriteInline uses the line that both sides share if this side owns it (sharedLine).
//  3. The first word of the slot or line publishes the message (layout.go), and notify wakes a peer
//     that sleeps (notifier.go).
//  4. receive_datapath.go: Poll of the peer calls receiveArrived. receiveNear takes what
//     WriteInline has sent, receive all others.
//  5. Both copy a payload that is still in the slot or at the sender to the address in the region,
//     consume a receive and fill the receiver's completion.
//  6. reportTaken stores how many messages were taken, at once for a signaled request, and else for
//     every quarter of the slots.
//  7. send_datapath.go: Poll of the sender reads that number, and complete retires the requests and
//     fills the completions of signaled ones.
package soft
