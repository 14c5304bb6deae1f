// Package tcpx is a transport over TCP for bulk data, after TCPX (GPUDirect TCPX,
// google/nccl-plugin-gpudirecttcpx): bytes arrive in bounce memory, scattered over
// pages, and an unpacker takes them to their destination while the next ones arrive.
//
// # Comm
//
// A comm is one connection: a control socket and some data sockets. In each
// direction it has a ring of 16 requests. A receive is announced to the sender,
// which is the sender's credit: nothing is sent before. A request is cut into
// chunks, which are striped over the data sockets; a control record tells the
// receiver of each. Data sockets carry payload and nothing else, and arrive at a port of
// their own (see connect.go).
//
// The thread that polls serves the sockets, or helpers do (see helper.go): threads that are
// given chunks and count bytes.
//
// A receive has two stages: in flight, until all of its bytes are in bounce memory,
// and pending, until they are unpacked. Then it can be consumed, which gives its
// pages back. A send is free when its bytes are acknowledged.
//
// # Worker
//
// A worker makes a comm for each peer and runs messages over it. The messages of
// one direction are a stream of bytes, cut into requests; what is posted while the
// window of requests is full goes with the next request, many messages in one. Who
// is called and how long a message is goes over the control socket.
//
// # Modes
//
// A mode says what bounce memory is and who unpacks: see mode.go. In mode host it is
// pages of 4 KiB with a free list, and processors unpack.
package tcpx
