package wire

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"transportbench/core/base/config"
	"transportbench/core/plugin/controlpb"
	"transportbench/core/transport"
)

// sentinels are the errors that are told apart by identity.
var sentinels = map[controlpb.Kind]error{
	controlpb.Kind_KIND_UNSUPPORTED:       transport.ErrUnsupported,
	controlpb.Kind_KIND_PEER_DOWN:         transport.ErrPeerDown,
	controlpb.Kind_KIND_TOO_LARGE:         transport.ErrTooLarge,
	controlpb.Kind_KIND_CLOSED:            transport.ErrClosed,
	controlpb.Kind_KIND_CORRUPT:           transport.ErrCorrupt,
	controlpb.Kind_KIND_UNAVAILABLE:       transport.ErrUnavailable,
	controlpb.Kind_KIND_CANCELED:          context.Canceled,
	controlpb.Kind_KIND_DEADLINE_EXCEEDED: context.DeadlineExceeded,
}

// maxDepth bounds the tree of wrapped errors in either direction.
const maxDepth = 32

// toStatus turns a rank's error into what gRPC carries. The code says nothing:
// all that the host may ask for is in the details.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	st := status.New(codes.Unknown, err.Error())
	detailed, detailErr := st.WithDetails(encodeFailure(err, 0))
	if detailErr != nil { // text that is not UTF-8
		return st.Err()
	}
	return detailed.Err()
}

// encodeFailure describes err and, as its causes, what it unwraps to. It looks
// at err itself and not through it, so that each error of a tree keeps its
// place.
func encodeFailure(err error, depth int) *controlpb.Failure {
	f := &controlpb.Failure{Text: err.Error(), Kind: kindOf(err)}
	switch e := err.(type) {
	case *config.Error:
		f.Option, f.Problem = e.Option, e.Problem
	case *transport.OptionError:
		f.Option, f.Problem = e.Option, e.Problem
	case *transport.OpError:
		f.Transport, f.Op, f.Peer = e.Transport, e.Op, uint32(e.Peer)
	}
	if depth == maxDepth {
		return f
	}
	for _, cause := range unwrap(err) {
		f.Causes = append(f.Causes, encodeFailure(cause, depth+1))
	}
	return f
}

func kindOf(err error) controlpb.Kind {
	switch err.(type) {
	case *config.Error:
		return controlpb.Kind_KIND_CONFIG_ERROR
	case *transport.OptionError:
		return controlpb.Kind_KIND_OPTION_ERROR
	case *transport.OpError:
		return controlpb.Kind_KIND_OP_ERROR
	}
	for kind, sentinel := range sentinels {
		if err == sentinel {
			return kind
		}
	}
	return controlpb.Kind_KIND_OTHER
}

func unwrap(err error) []error {
	var wrapped []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		wrapped = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		wrapped = e.Unwrap()
	}
	causes := wrapped[:0:0]
	for _, w := range wrapped {
		if w != nil {
			causes = append(causes, w)
		}
	}
	return causes
}

// remoteError is an error of the far side whose type this side does not know.
type remoteError struct {
	text   string
	causes []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.causes }

// decodeFailure is the inverse of encodeFailure, up to types that only the far
// side knows.
func decodeFailure(f *controlpb.Failure, depth int) error {
	var causes []error
	if depth < maxDepth {
		for _, cause := range f.GetCauses() {
			causes = append(causes, decodeFailure(cause, depth+1))
		}
	}
	switch f.GetKind() {
	case controlpb.Kind_KIND_CONFIG_ERROR:
		return &config.Error{Option: f.GetOption(), Problem: f.GetProblem()}
	case controlpb.Kind_KIND_OPTION_ERROR:
		return &transport.OptionError{Option: f.GetOption(), Problem: f.GetProblem()}
	case controlpb.Kind_KIND_OP_ERROR:
		if len(causes) == 1 {
			return &transport.OpError{
				Transport: f.GetTransport(), Op: f.GetOp(), Peer: transport.PeerID(f.GetPeer()), Err: causes[0],
			}
		}
	default:
		if sentinel, ok := sentinels[f.GetKind()]; ok {
			return sentinel
		}
	}
	return &remoteError{text: f.GetText(), causes: causes}
}

// failureOf returns the rank's error inside a status, or nil where the error is
// gRPC's own.
func failureOf(st *status.Status) error {
	for _, detail := range st.Details() {
		if f, ok := detail.(*controlpb.Failure); ok {
			return decodeFailure(f, 0)
		}
	}
	return nil
}
