package transport

import (
	"errors"
	"fmt"
)

// The errors that a caller tells apart, with [errors.Is]. Each reaches the
// caller inside an [*OpError].
var (
	// ErrUnsupported: the transport does not do this at all.
	ErrUnsupported = errors.New("not supported")
	// ErrPeerDown: the peer is lost, or was never connected.
	ErrPeerDown = errors.New("peer is down")
	// ErrTooLarge: the payload is over Limits.MaxPayload. Nothing was sent.
	ErrTooLarge = errors.New("payload too large")
	// ErrClosed: the worker or transport is closed.
	ErrClosed = errors.New("closed")
	// ErrCorrupt: the peer broke the protocol or damaged shared state.
	ErrCorrupt = errors.New("peer broke the protocol")
	// ErrUnavailable: the transport cannot run on this machine; the text
	// around it says why.
	ErrUnavailable = errors.New("unavailable")
)

// NoPeer is the Peer of an [OpError] that concerns none.
const NoPeer = ^PeerID(0)

// OpError says which operation of which transport failed. Control paths make
// it with [NewOpError]; data paths return ones made beforehand, since they
// must not allocate.
type OpError struct {
	Transport string // "shm"
	Op        string // "post", "poll", "connect", ...
	Peer      PeerID // NoPeer where it concerns none
	Err       error  // wraps one of the sentinels
}

// NewOpError wraps err, which must not be nil, for an operation that concerns
// no peer.
func NewOpError(transport, op string, err error) *OpError {
	return &OpError{Transport: transport, Op: op, Peer: NoPeer, Err: err}
}

func (e *OpError) Error() string {
	if e.Peer == NoPeer {
		return fmt.Sprintf("%s: %s: %v", e.Transport, e.Op, e.Err)
	}
	return fmt.Sprintf("%s: %s peer %d: %v", e.Transport, e.Op, e.Peer, e.Err)
}

func (e *OpError) Unwrap() error { return e.Err }

// Unavailable returns an error that wraps [ErrUnavailable] and reads
// "unavailable: reason". The reason names the remedy.
func Unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, fmt.Errorf(format, args...))
}
