// Package tcpx is a transport over TCP for bulk data, modelled on TCPX (GPUDirect TCPX,
// google/nccl-plugin-gpudirecttcpx): bytes arrive in bounce memory, scattered over pages,
// and are unpacked to their destination while the next ones arrive.
//
// # Layers
//
//	layer    files                     what it does
//	worker   worker*.go                Post, Flush, Poll and Wait; peers; calls and replies
//	set-up   tcpx.go config.go modes.go fault.go hello.go connect.go
//	                                   options; listening, dialling, matching sockets to peers
//	stream   stream_*.go               messages as a stream of bytes; the staging ring
//	window   window*.go                16 requests each way, chunks, credits, helper threads
//	memory   internal/bounce           bounce pages and unpacking, over internal/cuda, gpu, devmem
//	sockets  internal/sock             TCP sockets and their system calls
//	time     time_*.go                 counters, and where the time of a connection goes
//	floor    probe.go raw.go bulk.go micro.go
//	                                   measurements without messages or without requests
//
// Files named *_datapath.go run inside measured windows: they neither block, lock, log nor
// allocate.
//
// A [transport.Worker] has one peer for each connection. A peer has a stream of bytes in
// each direction (outStream, inStream) over one conn, the window. A conn has one control
// socket for records of 24 bytes, and one or more data sockets (lanes) for payload and
// nothing else. The conn keeps 16 requests in each direction; the comment at type conn has
// their cursors. Bytes leave in conn.pumpOut and arrive in conn.pumpIn, and nowhere else.
//
// # How a call travels
//
// The client's worker, from Post to the wire (files: worker_datapath.go, stream_datapath.go,
// window_pump_datapath.go, window_send_datapath.go):
//
//  1. worker.Post takes a number for the call from pendingCalls and calls peer.post.
//  2. peer.post puts a recordCall (number, size) into the control socket's buffer and
//     copies the payload to the staging ring. A payload of 32 KiB or more is not copied:
//     peer.postDirect lends it to the conn, runs steps 4 to 6 at once, and copies only what
//     the sockets did not take.
//  3. worker.Flush marks the stream as flushed up to here and calls peer.send.
//  4. peer.send cuts the stream into requests while the send window has room
//     (conn.postSend). A full request is cut at once, a shorter one at a Flush.
//  5. conn.pumpOut takes requests for which the server has sent a credit; assignChunks
//     cuts them into chunks, assigns each chunk to a lane with a free task, and puts a
//     recordChunk for it into the control socket's buffer.
//  6. conn.pumpOut flushes the control socket, so that the records precede the bytes, and
//     sendLanes sends the chunks. With the option threads, helpers make these system calls.
//
// The server's worker, from the wire to an event (files: worker_datapath.go,
// window_pump_datapath.go, window_control_datapath.go, window_receive_datapath.go,
// stream_datapath.go):
//
//  7. worker.Poll calls peer.progress, and that conn.pumpIn. readControl handles records: a
//     recordCall goes to the inbox, a recordChunk to its lane as an expected chunk.
//  8. receiveChunks reserves bounce pages for the request and receives each expected
//     chunk from its lane into pages (bounce.Allocator.Receive).
//  9. When all bytes of a request are in bounce memory, launch starts to unpack them to the
//     destination ring (bounce.Unpacker.Launch), and collect finds out when that is done.
//  10. peer.receive consumes the request, which gives its pages back, and posts a new
//     receive: a recordCredit in the control socket's buffer.
//  11. peer.deliver hands out the oldest message of the inbox as an event once all of its
//     bytes are consumed. The payload points into the destination ring.
//
// The reply takes the same way back from step 1, with recordReply; the credit of step 10
// leaves with it. The client frees the request (conn.freeSend) when a credit a window
// further on, or TCP, acknowledges it, and its part of the staging ring with it.
//
// # Modes
//
// The mode decides what bounce memory is and what unpacks it; see modes.go and package
// bounce. Mode host needs no hardware and is the default.
package tcpx
