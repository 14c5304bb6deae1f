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
// Post, Flush and Poll never block, but grpc-go does, and allocates. So a worker passes its
// messages to goroutines that make the RPCs, and gets messages from them, through rings without
// locks. This is what transport.Capabilities.Goroutines declares. Flush calls grpc-go itself only
// for a stream that has room for the message, so that SendMsg cannot block.
//
// # How a call travels over a stream
//
//  1. Post copies the call with a header of 9 bytes into a slot of the connection's outbox.
//  2. Flush passes the slot to SendMsg while grpc-go has less than 64 KiB of the stream to write.
//     The rest, and everything with the codec protobuf, it leaves to the goroutine that sends, and
//     wakes it.
//  3. The codec lends the slot's memory to grpc-go, which
//     gives it back when it has written it to the socket.
//  4. On the other side a goroutine waits in RecvMsg. The codec keeps grpc-go's buffer, and the
//     goroutine links it into the inbox of its worker and wakes the worker if that waits.
//  5. Poll takes it from the inbox. The next Poll gives the buffer back to grpc-go.
//
// A reply takes the same way back on the same stream. With unary calls, a slot belongs to a
// goroutine that waits for the response, and the reply goes to the goroutine of grpc-go's handler.
package grpc
