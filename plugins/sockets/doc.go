// Package sockets is a transport over the kernel's stream sockets without elaborate optimizations:
// length-prefixed messages over one socket per peer (TCP, Unix or vsock). It is the baseline that
// shows what the optimizations of other transports gain.
//
//	file                  what it does
//	driver.go options.go  options; opening
//	network.go            the three families of sockets: addresses, and whether they are available
//	connect.go address.go  the worker's address; connecting, by core/fabric/dial
//	worker*.go            Post, Flush, Poll; messages
//	wait.go               sleeping
//	engine.go             the interface between messages and sockets
//	epoll*.go             the engine epoll
//	uring*.go             the engine uring, over internal/uring
//
// Files named *_datapath.go run inside measured windows: they neither block, lock, log nor
// allocate.
//
// # How a call travels
//
//  1. worker.Post takes a number for the call, and appends a header of 8 bytes and the payload to
//     the ring of the connection. A payload of 32 KiB or more goes to the socket at once, after
//     the unsent bytes before it; only the part that does not fit is copied to the ring.
//  2. worker.Flush sends all rings that are not empty, with one system call for each peer. Later
//     Polls send what did not fit into the socket.
//  3. The peer's worker.Poll receives into the ring of the connection, one system call, and hands
//     out all whole messages. Both rings are mapped twice in a row, so that messages are
//     contiguous; a payload points into the ring, and the next Poll releases it.
//  4. The reply goes back in the same way, with the number of the call.
package sockets
