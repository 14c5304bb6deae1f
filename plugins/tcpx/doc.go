// Package tcpx is a transport over TCP for bulk data, modelled on TCPX (GPUDirect TCPX,
// google/nccl-plugin-gpudirecttcpx): bytes arrive in bounce memory, scattered over pages,
// and are unpacked to their destination while the next ones arrive.
//
// # Layers
//
//	layer    files                     what it does
//	worker   worker*.go                Post, Flush, Poll and Wait; peers; calls and replies
//	set-up   tcpx.go config.go modes.go fault.go address.go connect.go
//	                                   options; listening, dialling, matching sockets to peers
//	stream   stream_*.go               messages as a stream of bytes; the staging ring
//	window   window*.go                16 requests each way, chunks, credits, helper threads
//	memory   internal/bounce           bounce pages and unpacking, over internal/cuda, gpu, devmem
//	sockets  core/fabric/sock          sockets and their system calls
//	time     time_*.go                 counters, and where the time of a connection goes
//	floor    raw.go bulk.go micro.go
//	                                   measurements without messages or without requests
//
// Files named *_datapath.go run inside measured windows: they neither block, lock, log nor
// allocate.
//
// A [transport.Worker] has one peer for each connection. A peer has a stream of bytes in each
// direction (outStream, inStream) over one conn, the window. A conn has one control socket for
// records of 24 bytes and small messages, and one or more data sockets (lanes) that carry only
// payload. The conn keeps 16 requests in each direction; `go doc -u ./plugins/tcpx conn` explains
// their cursors. Payload leaves in conn.pumpOut and arrives in conn.pumpIn, or in the helpers that
// these direct, and nowhere else.
//
// # How a call travels
//
// The client's worker, from Post to the wire (files: worker_datapath.go, stream_datapath.go,
// window_pump_datapath.go, window_send_datapath.go):
//
//  1. worker.Post takes a number for the call from pendingCalls and calls peer.post.
//  2. peer.post puts a recordCall (number, size) into the control socket's buffer and copies the
//     payload to the staging ring. Of a payload of 32 KiB or more, the bytes that fill requests are
//     not copied if the sockets take them at once: peer.postDirect lends the payload to the conn,
//     runs steps 4 to 6, and copies the rest. A payload of at most settings.inline bytes goes into
//     the control socket's buffer, behind the record; of the steps below it takes 6, 7 and 11 only.
//     A payload in the GPU's memory goes through peer.postDevice (stream_device_datapath.go): the
//     GPU copies it to the staging ring, and peer.copyOut tells step 4 how far that is.
//  3. worker.Flush marks the stream as flushed up to here and calls peer.send.
//  4. peer.send cuts the stream into requests while the send window has room
//     (conn.postSend). A full request is cut at once, a shorter one at a Flush.
//  5. conn.pumpOut takes requests for which the server has sent a credit; assignChunks
//     cuts them into chunks, assigns each chunk to a lane with a free task, and puts a
//     recordChunk for it into the control socket's buffer.
//  6. conn.pumpOut flushes the control socket, so that the records precede the bytes, and sendLanes
//     sends the chunks. With the option threads, helpers send the chunks.
//
// The server's worker, from the wire to an event (files: worker_datapath.go,
// window_pump_datapath.go, window_control_datapath.go, window_receive_datapath.go,
// stream_datapath.go):
//
//  7. worker.Poll calls peer.progress, which calls conn.pumpIn. readControl handles records: a
//     recordCall goes to conn.announced, a recordChunk to its lane as an expected chunk.
//  8. receiveChunks reserves bounce pages for the request and receives each expected
//     chunk from its lane into pages (bounce.Allocator.Receive).
//  9. When all bytes of a request are in bounce memory, launch starts to unpack them to the
//     destination ring (bounce.Unpacker.Launch), and collect checks whether that is done.
//  10. peer.receive consumes the request, which gives its pages back, and posts a new
//     receive: a recordCredit in the control socket's buffer.
//  11. peer.deliver hands out the oldest announced message as an event once all of its bytes are
//     consumed. The payload points into the destination ring. The next Poll releases it; only then
//     may a new receive use that part of the ring.
//
// The reply takes the same way back from step 1, with recordReply; the credit of step 10 leaves
// with it. When the client needs room, it frees requests and their part of the staging ring
// (conn.freeSend). A request can be freed once TCP has acknowledged it, or once the server has sent
// the credit for the request one receive window later.
//
// # Modes
//
// The mode decides what bounce memory is and what unpacks it; see modes.go and package
// bounce. Mode host needs no hardware and is the default.
package tcpx
