// Package grpc is a transport over gRPC, as grpc-go implements it.
//
// # Layers
//
//	layer       files                     what it does
//	set-up      driver.go options.go address.go worker.go socket.go
//	                                      options; the server and the connections of a worker
//	security    security.go door.go       the preface, TLS, and what strangers may take
//	worker      worker_datapath.go        Post, Flush, Poll and Wait
//	rings       inbox.go slot.go          between the worker and the goroutines of its connections
//	RPCs        stream.go unary.go codec.go
//	                                      the service, and what runs in those goroutines
//	floor       probe.go                  probes of the socket and of grpc-go
//
// Post, Flush and Poll must not block, but grpc-go blocks and allocates. So a worker exchanges
// messages with goroutines that make the RPCs, through lock-free queues; transport.Capabilities
// declares this as Goroutines. Flush calls grpc-go itself only for a stream that has room for the
// message, so that SendMsg cannot block.
//
// # How a call travels over a stream
//
//  1. Post copies the call with a header of 9 bytes into a slot of the connection's outbox.
//  2. Flush passes the slot to SendMsg while grpc-go has less than 64 KiB of the stream to write.
//     It wakes the sending goroutine for the rest, and for everything with the codec protobuf.
//  3. The codec lends the slot's memory to grpc-go, which gives it back after the write to the
//     socket.
//  4. On the other side a goroutine waits in RecvMsg. The codec keeps grpc-go's buffer, and the
//     goroutine links it into the inbox of its worker, which it wakes if necessary.
//  5. Poll takes the message from the inbox. The next Poll gives the buffer back to grpc-go.
//
// A reply takes the same path back on the same stream. With unary calls, a slot belongs to a
// goroutine that waits for the response, and the reply goes to the goroutine of grpc-go's handler.
package grpc
