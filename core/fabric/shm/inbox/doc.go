// Package inbox carries calls and replies over shared memory between threads and
// processes of one host. It is the engine of plugins/shm, and in topology mesh-proxied
// it links the clients of a rank to the rank's daemons, whatever the transport.
//
// # An inbox
//
// Every worker owns one inbox, a shared segment that its peers write into:
//
//	0     header   magic, nonce, number of regions, fingerprint of the options
//	128            sequence   grows with every wake; the owner sleeps on it
//	256            sleeping   1 while the owner sleeps
//	512            bitmap     one bit for each region whose producer has notified
//	4096  region 0
//	        +0     claim      nonce of the producer that owns the region, or 0
//	        +128   armed      1 asks the producer for a notification
//	        +256   closed     1 once the producer has closed
//	        +512   ring       a ring, or call slots
//	...   region 1, 2, ...    one for each peer; regions are page aligned
//
// A connection of workers A and B is two regions: A writes into a region of B's inbox,
// and B into one of A's. With rings ([ring.Producer], [ring.Consumer]), each region
// carries the calls and replies of one direction. With call slots ([ring.Caller],
// [ring.Answerer]), a reply overwrites its call in the region where the call was made. A
// message of up to 48 bytes is one cache line. One of up to 112 is two lines that lie side by side,
// if no message of the run is longer. See [Auto] for the choice.
//
// # A call, step by step
//
// Both sides connect first. Connect (worker.go) maps the peer's inbox and claims a free region in
// it by storing the nonce of its own inbox there (inbox.go).
//
// With one call in flight, there is one call slot, whose lines go back and forth. Each message
// increments its state, which is odd for a call and even for a reply, so both sides know whose turn
// it is.
//
//  1. Client: worker.Post (worker_datapath.go) finds the peer by its PeerID, and [ring.Caller.Call]
//     stores the call in the slot.
//  2. Server: worker.Poll finds the next state in the slot. [ring.Answerer.Drain] returns the call
//     as an EventRequest with the number of the slot as its token.
//  3. Server: the runtime serves the request, and [ring.Answerer.Reply] stores the reply over the
//     call.
//  4. Client: worker.Poll finds the next state, and [ring.Caller.Drain] returns the reply as an
//     EventResponse with the token of the call.
//
// There is nothing to publish or release: polling copies a payload that fits into its slot out of
// it, and longer ones lie in buffers that the slot uses alternately. With more slots, each call
// names the slot of the next one.
//
// With rings:
//
//  1. Client: worker.Post calls PushBatch of the connection: [ring.OnesidedProducer.PushBatch],
//     [ring.FastForwardProducer.PushBatch] or, with Lamport, Push for each op. It copies the
//     call, with its token, into the next slot of the client's ring in the server's inbox.
//  2. Client: worker.Flush calls [ring.Producer.Publish], which only Lamport needs: with the other
//     algorithms the call is visible already. If the ring is armed, Flush then notifies the server.
//  3. Server: worker.Poll goes through its active rings, or straight to the only one. It calls
//     [ring.Consumer.Drain] once for each, which takes messages until the ring is empty or the
//     events are full. The call becomes an EventRequest with the same token. The payload is not
//     copied: it lies in the ring until the ring is polled again.
//  4. Server: the runtime serves the request and posts the reply under that token. Steps 1
//     and 2 repeat in the other direction: the reply goes into the server's ring in the
//     client's inbox.
//  5. Server: the next Drain begins with [ring.Consumer.Release], which returns the slots of
//     the last payloads to the client; Onesided returns a quarter of the ring at a time.
//  6. Client: worker.Poll returns the reply as an EventResponse with the token of the call.
//
// # Idle rings
//
// A worker polls its active rings only. While more than Config.HotRings are active, it arms a ring
// that has been empty for many polls and stops polling it. Before it sleeps, it arms them all. The
// producer of an armed ring notifies the owner in Flush: it sets the ring's bit in the bitmap and
// increments sequence, and the owner's next Poll makes the ring active again. A ring starts armed,
// so the first call also tells the owner which peer has claimed the region: the claim has the
// peer's nonce.
//
// Arming needs a full memory barrier on both sides: the owner stores armed and then looks into the
// ring, the producer stores into the ring and then loads armed. The owner runs the barrier for both
// with membarrier(2) ([shm.Barrier]). It arms rarely, so a Flush costs one load instead of a fence.
//
// # The critical path
//
// While a side waits for a message, its work costs nothing; between a message and its answer each
// nanosecond adds to the round trip. So the usual case takes a fast path: Poll looks at one active
// ring, Post at the peer of the last op, and Flush at the armed word of the only peer posted to.
// BenchmarkInstructions counts the instructions of that path.
//
// # Trust
//
// A Watcher reports the death of a peer's process; the worker then hands out what the peer has sent
// and reports it lost. Peers do not trust each other. Package ring checks what it reads, a segment
// cannot be resized, and a peer that breaks the protocol is cut off with [transport.ErrCorrupt].
package inbox
