package transport

import (
	"errors"
	"fmt"
)

// The errors that callers distinguish, with [errors.Is]. Each reaches the caller in an [*OpError].
var (
	// ErrUnsupported: the transport does not support the operation.
	ErrUnsupported = errors.New("not supported")
	// ErrPeerDown: the peer is lost or was never connected.
	ErrPeerDown = errors.New("peer is down")
	// ErrTooLarge: the payload exceeds Limits.MaxPayload. Nothing was sent.
	ErrTooLarge = errors.New("payload too large")
	// ErrClosed: the worker or transport is closed.
	ErrClosed = errors.New("closed")
	// ErrCorrupt: the peer broke the protocol or damaged shared state.
	ErrCorrupt = errors.New("peer broke the protocol")
	// ErrUnavailable: the transport cannot run on this machine; the message has the reason.
	ErrUnavailable = errors.New("unavailable")
)

// NoPeer is the Peer of an [OpError] that concerns no peer.
const NoPeer = ^PeerID(0)

// OpError is the failure of an operation of a transport. Data paths must not allocate, so they
// return errors that were made when the peer was connected.
type OpError struct {
	Transport string // "shm"
	Op        string // "post", "poll", "connect", ...
	Peer      PeerID // NoPeer if the operation concerns no peer
	Err       error  // wraps one of the sentinels
}

// NewOpError returns an OpError that concerns no peer. err must not be nil.
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

// Unavailable returns an error that wraps [ErrUnavailable] and reads "unavailable: reason". The
// reason should name the remedy.
func Unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnavailable, fmt.Errorf(format, args...))
}
