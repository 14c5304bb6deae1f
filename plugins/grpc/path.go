package grpc

import "transportbench/core/transport"

// maxFrames is the most bytes that HTTP/2 and TLS add to a message: the frames of a call that is
// made alone, with its headers and trailers, and their records.
const maxFrames = 512

// ReadPaths implements [transport.PathReader]. The kernel knows both ends of TCP's connections.
func (w *worker) ReadPaths(dst []transport.Path) []transport.Path {
	return append(dst, transport.Path{Carrier: w.settings.medium(), Overhead: maxFrames})
}
