// Package tcpx is a transport over TCP for bulk data, modelled on TCPX (GPUDirect TCPX,
// google/nccl-plugin-gpudirecttcpx): bytes arrive in bounce memory, scattered over pages, and are
// unpacked to their destination, with unpack-workers or a GPU while the next ones arrive.
//
// # Layers
//
//	package          what it does
//	tcpx             options; peers; calls and replies; micro-benchmarks and the floor
//	internal/conn    one connection: a stream of bytes each way, in requests and chunks
//	internal/bounce  bounce memory and unpacking, in the host or, over gpu, cuda and devmem, with
//	                 a GPU or a NIC that fills device memory
//
// Shared with other transports are core/fabric/dial (connecting), calltable (call numbers) and sock
// (sockets). Files named *_datapath.go hold what runs inside measured windows, and the setup of its
// types. What runs there neither blocks, locks, logs nor allocates.
//
// A [transport.Worker] has one peer for each connection, and a peer has one [conn.Conn]: a control
// socket for small messages and for records of 24 bytes, and data sockets (lanes) that carry only
// payload.
//
// # A call of 1 MiB, from Post to the event
//
// The words, from large to small: a message is a call or a reply. Messages follow each other in a
// stream of bytes. The stream is cut into requests of 512 KiB (option request), of which up to 12
// are cut and not yet freed (option send-window). A request is cut into chunks (option chunk, the
// same size by default), and a chunk is sent over one lane. A chunk arrives in pages of 4 KiB.
//
// A receive is the receiver's room for one request. Posting it sends the sender a credit, which
// allows that request. A receiver posts 16 (option receive-window) when it connects.
//
// The client's Post (worker_datapath.go) takes a number for the call, and Conn.PostMessage
// announces the message with a record on the control socket: its number and its size. A message of
// up to 1 KiB (option inline) follows its record, and that is all. Otherwise each step moves one
// cursor of [conn.Sender], in conn/stream_datapath.go and conn/sender_datapath.go:
//
//  1. end: Write appends the payload to the stream. From 32 KiB on, without the options threads
//     and zero-copy, it lends the payload to the next steps, which it takes at once, and copies to
//     the staging ring only what the sockets do not take. The other steps are left to Flush, and
//     what the windows or the sockets then hold back to later Polls.
//  2. cut: cutRequests cuts two requests of 512 KiB. A PUT of 1 MiB is longer by its header: its
//     last bytes are a third request, which Flush cuts although it is not full.
//  3. assigned: assignChunks takes the requests for which the server has sent a credit. It puts a
//     record for each chunk on the control socket, and makes the chunk a task of a lane. The
//     control socket is flushed before the lanes: a server reads only chunks that it expects.
//  4. The lane's driver sends the tasks: polling (conn/lane_datapath.go), or with the option
//     threads helpers (conn/helper_datapath.go). sent counts the bytes of the lane, and is no
//     position of the stream. A Send ends after 1 MiB, so that other peers get their turn.
//
// The server's Poll calls progress of each peer (messages_datapath.go of this directory), and that
// Conn.Receive, which ends after 512 KiB. Each step moves one cursor of [conn.Receiver], in
// conn/receiver_datapath.go:
//
//  5. begun: readControl (conn/control_datapath.go) gives the record of the message to
//     Conn.takeAnnouncement, and those of the chunks to expect, which notes what comes on which
//     lane.
//  6. reserved: receiveChunks reserves pages for the requests, and the driver reads the lanes into
//     them.
//  7. launched: launch starts to unpack a complete request to the next slot of the destination
//     ring; with unpack-workers 0 the copy is made at once. Full requests fill their slots, so a
//     message of several is contiguous.
//  8. requests.First: Refill consumes a request once it is unpacked: it frees its pages and posts
//     a new receive. The credit for that leaves with the next send; while requests are on their
//     way in, fewer than a quarter of the window's credits are held for that.
//  9. read: deliver makes an event of the message once all of it is consumed. The payload lies in
//     the destination ring until the next Poll.
//
// A long reply takes the same steps in the other direction; that of a write is short, and follows
// its record. The sender's last cursor, acked, moves when freeOldest frees a request, because the
// other side has all of it: TCP has acknowledged it, or the credit for the request one window later
// has come. freeOldest runs only when a message needs room in the staging ring or the send window.
//
// In mode host the bytes are copied from the payload to the kernel (those that the sockets do not
// take at once, and small payloads, via the staging ring), to bounce pages, to the destination
// ring, and by the runtime to the store. A posted payload is free when Post returns, its place in
// the staging ring when the request is freed, bounce pages when the request is consumed, and the
// destination at the next Poll.
//
// # Modes
//
// The mode decides what bounce memory is and what unpacks it; see package bounce. Mode host needs
// no hardware and is the default. In mode gpu payloads stay in the GPU's memory; with
// send-memory=device they come from there, too: the GPU copies them to the staging ring, or in mode
// devmem the NIC reads them (device_datapath.go).
package tcpx
