package wire

import (
	"context"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// failure is the wire form of an error and of all errors that it wraps, so that errors.Is and
// errors.As find in the host what they would find in the rank.
type failure struct {
	Text string `json:"text"` // of Error()
	// Kind is one of the kinds below or a key of sentinels; "" is an error that only its text and
	// its causes describe.
	Kind string `json:"kind,omitempty"`
	// Option and Problem are set for kindConfig and kindOption.
	Option  string `json:"option,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Transport, Op and Peer are set for kindOp.
	Transport string           `json:"transport,omitempty"`
	Op        string           `json:"op,omitempty"`
	Peer      transport.PeerID `json:"peer,omitempty"`
	// Exit is set for kindExit, and Invalid for kindInvalid.
	Exit    *record.ExitError    `json:"exit,omitempty"`
	Invalid *record.InvalidError `json:"invalid,omitempty"`
	Causes  []*failure           `json:"causes,omitempty"` // the errors that it wraps
}

const (
	kindConfig = "config" // *config.Error
	kindOption = "option" // *transport.OptionError
	kindOp     = "op"     // *transport.OpError

	kindInvalid = "invalid" // *record.InvalidError

	// Only agents send this: a plugin cannot report its own end.
	kindExit = "exit" // *record.ExitError
)

// sentinels are the errors that callers compare by identity, by kind.
var sentinels = map[string]error{
	"unsupported":       transport.ErrUnsupported,
	"peer_down":         transport.ErrPeerDown,
	"too_large":         transport.ErrTooLarge,
	"closed":            transport.ErrClosed,
	"corrupt":           transport.ErrCorrupt,
	"unavailable":       transport.ErrUnavailable,
	"canceled":          context.Canceled,
	"deadline_exceeded": context.DeadlineExceeded,
}

// maxDepth bounds the tree of wrapped errors in both directions.
const maxDepth = 32

// maxOutput bounds the lines of a plugin that died.
const maxOutput = 1000

// encodeFailure returns the wire form of err, or nil if err is nil. It looks at the type of err
// itself, never through it, so that each error keeps its position in the tree.
func encodeFailure(err error, depth int) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: err.Error()}
	switch e := err.(type) { //nolint:errorlint // the whole tree is walked, one error at a time
	case *config.Error:
		f.Kind, f.Option, f.Problem = kindConfig, e.Option, e.Problem
	case *transport.OptionError:
		f.Kind, f.Option, f.Problem = kindOption, e.Option, e.Problem
	case *transport.OpError:
		f.Kind, f.Transport, f.Op, f.Peer = kindOp, e.Transport, e.Op, e.Peer
	case *record.ExitError:
		f.Kind, f.Exit = kindExit, e
	case *record.InvalidError:
		f.Kind, f.Invalid = kindInvalid, e
	default:
		for kind, sentinel := range sentinels {
			if err == sentinel { //nolint:errorlint // causes of err follow by themselves
				f.Kind = kind
			}
		}
	}
	if depth == maxDepth {
		return f
	}
	for _, cause := range unwrap(err) {
		if cause != nil {
			f.Causes = append(f.Causes, encodeFailure(cause, depth+1))
		}
	}
	return f
}

func unwrap(err error) []error {
	switch e := err.(type) { //nolint:errorlint // this is how the tree is walked
	case interface{ Unwrap() error }:
		return []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}

// remoteError is an error of the plugin whose type the host does not know.
type remoteError struct {
	text   string
	causes []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.causes }

// decodeFailure returns the error that f describes, or nil if f is nil. It is the inverse of
// encodeFailure, except for types that only the plugin knows and text that is not printable.
func decodeFailure(f *failure, depth int) error {
	if f == nil {
		return nil
	}
	for _, text := range []*string{&f.Text, &f.Option, &f.Problem, &f.Transport, &f.Op} {
		// errors.Join has a line for each
		*text = record.Cut(printable.Text(strings.ReplaceAll(*text, "\n", "; ")))
	}
	printable.Strings(&f.Exit)
	printable.Strings(&f.Invalid)
	if e := f.Exit; e != nil {
		e.Plugin, e.State, e.Reason = record.Cut(e.Plugin), record.Cut(e.State),
			record.Cut(e.Reason)
		e.Output = e.Output[:min(len(e.Output), maxOutput)]
	}
	if e := f.Invalid; e != nil {
		e.Field, e.Value, e.Bound = record.Cut(e.Field), record.Cut(e.Value), record.Cut(e.Bound)
	}
	var causes []error
	if depth < maxDepth {
		for _, cause := range f.Causes {
			if err := decodeFailure(cause, depth+1); err != nil {
				causes = append(causes, err)
			}
		}
	}
	if err := f.typed(causes); err != nil {
		return err
	}
	return &remoteError{text: f.Text, causes: causes}
}

// typed returns the error of a type that the host knows, or nil.
func (f *failure) typed(causes []error) error {
	switch f.Kind {
	case kindConfig:
		return &config.Error{Option: f.Option, Problem: f.Problem}
	case kindOption:
		return &transport.OptionError{Option: f.Option, Problem: f.Problem}
	case kindOp:
		if len(causes) == 1 {
			return &transport.OpError{Transport: f.Transport, Op: f.Op, Peer: f.Peer,
				Err: causes[0]}
		}
	case kindExit:
		if f.Exit != nil {
			return f.Exit
		}
	case kindInvalid:
		if f.Invalid != nil {
			return f.Invalid
		}
	}
	return sentinels[f.Kind]
}
