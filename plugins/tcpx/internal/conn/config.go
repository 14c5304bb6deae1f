package conn

import (
	"errors"
	"fmt"

	"transportbench/core/transport"
	"transportbench/plugins/tcpx/internal/bounce"
)

const (
	// Requests is how many requests a connection holds in each direction. It is a power of two,
	// and the unpacker has as many slots.
	Requests = bounce.UnpackSlots
	// MaxLanes is the most data sockets of a connection.
	MaxLanes = 16

	pageSize = bounce.PageSize
	// laneTasks is how many chunks may wait to be sent on one lane.
	laneTasks = 6
)

// Config configures a connection. Both sides have the same Chunk, Request and Lanes.
type Config struct {
	Chunk   int // bytes that a lane carries at a time, a multiple of a page
	Request int // bytes of a full request, a multiple of Chunk
	Lanes   int // data sockets
	Threads int // helpers that serve the lanes; with 0 the polling thread does
	// a chunk goes to the lane with the fewest bytes to send, else to the one that was given fewest
	LeastLoaded   bool
	SendWindow    int  // requests cut and not freed, at most Requests
	ReceiveWindow int  // receives posted and not consumed, at most Requests
	Unpack        bool // false leaves the bytes in bounce memory

	Inline   int // bytes of the largest message that the peer may send on the control socket
	Messages int // messages that the peer may announce before they are delivered
	Slots    int // requests that fit the destination ring; 0 without one
	// Fragments is the most fragments of a request.
	Fragments int
	// HostPrefix is the bytes of each message that the host sees if its payload stays in device
	// memory.
	HostPrefix int
	// SendControl sends on the control socket.
	SendControl func(fd int, b []byte) (int, error)
}

var (
	// ErrNoFreeRequest means that all 16 requests are in use. Nothing was posted.
	ErrNoFreeRequest = errors.New("no free request: all 16 are in use")
	// ErrRequestSize means that a request is larger than the connection was made for.
	ErrRequestSize = errors.New("request too large")
	// ErrTagMismatch means that the two sides posted different tags. The connection is over.
	ErrTagMismatch = fmt.Errorf("tag mismatch: %w", transport.ErrCorrupt)
	// ErrTruncated means that the receive is smaller than the send. The connection is over.
	ErrTruncated = fmt.Errorf("truncated, the receive is smaller than the send: %w",
		transport.ErrCorrupt)
	// ErrFarewell means that the peer, or this side, closed the connection.
	ErrFarewell = errors.New("the connection was closed")
	// ErrProtocol means that the peer violated the protocol. The connection is over.
	ErrProtocol = transport.ErrCorrupt
)
