// Package tcpx is a transport over TCP for bulk data, modelled on TCPX (GPUDirect TCPX,
// google/nccl-plugin-gpudirecttcpx): bytes arrive in bounce memory, scattered over pages, and are
// unpacked to their destination while the next ones arrive.
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
// are sent and not yet freed (option send-window). A request is cut into chunks (option chunk, the
// same size by default), and a chunk is sent over one lane. A chunk arrives in pages of 4 KiB.
//
// A receive is the receiver's room for one request. Posting it sends the sender a credit, which
// allows that request. A receiver posts 16 (option receive-window) when it connects.
//
// The client, file by file:
//
//  1. worker_datapath.go: Post finds the peer of the call.
//  2. messages_datapath.go: postCall takes a number for it.
//  3. conn/messages_datapath.go: Conn.PostMessage announces the message with a record on the
//     control socket: its number and its size. A message of up to 1 KiB (option inline) follows
//     its record, and that is all.
//  4. conn/stream_datapath.go: Sender.Write appends the payload to the stream. From 32 KiB on it
//     lends the payload to the next steps, and copies to the staging ring only what the sockets do
//     not take at once; Flush takes the steps again for these bytes. cutRequests cuts two requests
//     of 512 KiB. A message of a run is longer by its header: its last 16 bytes are copied and
//     wait for Flush. Sent bytes keep their positions in the ring until they are acknowledged,
//     although nothing lies there.
//  5. conn/sender_datapath.go: assignChunks takes the requests for which the server has sent a
//     credit. It puts a record for each chunk on the control socket, and makes the chunk a task of
//     a lane.
//  6. conn/lane_datapath.go: polling.send sends the tasks; with the option threads, helpers do
//     (conn/helper_datapath.go).
//
// Post runs step 4, and for a lent payload steps 5 and 6, too; for others Flush runs them. What the
// windows or the sockets then hold back leaves with later Polls, each of which cuts, assigns and
// sends again.
//
// The server:
//
//  7. messages_datapath.go: Poll calls progress of each peer, which calls Conn.Receive.
//  8. conn/control_datapath.go: readControl gives the record of the message to
//     Conn.takeAnnouncement, and those of the chunks to Receiver.expect, which notes what
//     comes on which lane.
//  9. conn/receiver_datapath.go: receiveChunks reserves pages for the requests.
//  10. conn/lane_datapath.go: polling.receive reads the lanes into the pages.
//  11. conn/receiver_datapath.go: launch starts to unpack a complete request to the next slot of
//     the destination ring, and collect asks whether that is done. Full requests fill their
//     slots, so a message of several is contiguous. Refill consumes the request: it frees the
//     pages and posts a new receive. The credit for that leaves with the next send.
//  12. messages_datapath.go: deliver makes an event of the message once all of it is consumed. The
//     payload lies in the destination ring until the next Poll.
//
// A long reply takes the same steps in the other direction; that of a write is short, and follows
// its record. The client frees a request once the server has all of it: TCP has acknowledged it, or
// the server has sent the credit for the request one window later (Sender.FreeOldest).
//
// A posted payload is free when Post returns, its place in the staging ring when the request is
// freed, bounce pages when the request is consumed, and the destination at the next Poll.
//
// # Modes
//
// The mode decides what bounce memory is and what unpacks it; see package bounce. Mode host needs
// no hardware and is the default. In mode gpu payloads stay in the GPU's memory; with
// send-memory=device they come from there, too: the GPU copies them to the staging ring, or in mode
// devmem the NIC reads them (device_datapath.go).
package tcpx
