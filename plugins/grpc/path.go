package grpc

import "transportbench/core/transport"

// maxFrames is the most bytes that HTTP/2 and TLS add to a message: the frames of a single unary
// call with headers and trailers, and their TLS records.
const maxFrames = 512

// ReadPaths implements [transport.PathReader]. The kernel reports both ends of TCP connections.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	return append(dst, transport.Path{Carrier: w.settings.medium(), Overhead: maxFrames})
}
