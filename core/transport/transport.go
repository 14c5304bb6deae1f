package transport

import (
	"context"
	"log/slog"
)

// Driver opens one transport. A plugin serves exactly one. It must be safe to
// use from several goroutines.
type Driver interface {
	// Info describes the transport without touching hardware, memory or
	// sockets; it answers at once, also where the transport cannot run.
	Info() Info

	// Open takes the devices, memory and sockets of one rank. It may block
	// until ctx ends. A transport that cannot run here returns an error that
	// wraps [ErrUnavailable] with the reason; Open never falls back to another
	// provider than the one the options ask for.
	Open(ctx context.Context, cfg Config) (Transport, error)
}

// Info is what a transport says of itself before it is opened.
type Info struct {
	// Name selects the transport on the command line: lower case letters and
	// digits, the same as in the plugin's file name.
	Name string `json:"name"`
	// Version is the transport's own.
	Version string `json:"version"`
	// Summary is one line for people who choose a transport.
	Summary string `json:"summary"`
	// Providers are the values that Properties.Provider can take.
	Providers []string `json:"providers"`
	// Capabilities and Limits hold under the default options.
	Capabilities Capabilities `json:"capabilities"`
	Limits       Limits       `json:"limits"`
	// Options is the schema that Config.Options was checked against.
	Options []Option `json:"options"`
	// Unavailable says why no Open of this build can succeed, and the remedy;
	// it is empty for a build that can. A plugin built without its native
	// library sets it.
	Unavailable string `json:"unavailable,omitempty"`
}

// Config is what a transport is opened with. The counts are upper bounds that
// let a transport size its memory once; they are the run's and hold for as
// long as the transport is open.
type Config struct {
	Rank       int // this rank's number, from 0
	Workers    int // calls of NewWorker to come
	Peers      int // connections of one worker
	InFlight   int // calls in flight on one connection, in each direction
	MaxPayload int // bytes of the largest payload that will be posted
	// HostPrefix is how many leading bytes of each payload must be in host
	// memory even if the rest stays in device memory.
	HostPrefix int
	Options    Values // parsed by ParseOptions from the driver's schema
	Logger     *slog.Logger
}

// Transport is what one rank holds open: devices, memory, sockets. It must be
// safe to use from several goroutines.
type Transport interface {
	// Properties says what was opened; it differs from the driver's Info where
	// options move limits or `auto` chose a provider.
	Properties() Properties

	// NewWorker makes the worker of one polling thread. The indices are
	// 0 to Config.Workers-1, each used once. It may block and allocate.
	NewWorker(index int) (Worker, error)

	// Close releases everything, the workers included. It is called once,
	// when no other call is in progress, and returns in bounded time whatever
	// the peers do.
	Close() error
}

// Properties is what a transport is once it is open. It is part of a result's
// identity.
type Properties struct {
	// Provider is what carries the bytes ("memfd", "verbs", "udp", ...).
	Provider     string       `json:"provider"`
	Capabilities Capabilities `json:"capabilities"`
	Limits       Limits       `json:"limits"`
	// Libraries are the native libraries in use, name to version.
	Libraries map[string]string `json:"libraries,omitempty"`
	// Notes are settings in force that options do not show, such as the lane
	// that a library chose.
	Notes map[string]string `json:"notes,omitempty"`
}

// Worker belongs to one thread at a time: no two of its methods run
// concurrently, save Address and the Wake of a [Waiter]. Post, Flush and Poll
// never block, lock or allocate.
type Worker interface {
	// Address is opaque and says to a peer's Connect how to reach this worker.
	// It is constant; the caller must not change the bytes.
	Address() []byte

	// Connect makes the worker whose Address is given known as peer, a small
	// number that the caller chose and has not used on this worker before.
	// Both sides connect, in any order and at any time; neither waits for the
	// other. A call may be posted as soon as Connect has returned, and is
	// polled by the peer after the peer's own Connect.
	Connect(ctx context.Context, peer PeerID, address []byte) error

	// Post takes ops in order and returns how many it took. Fewer than all
	// with a nil error is back-pressure: poll, then post the rest again.
	// With an error, ops[n] is the one that was refused, nothing of it was
	// sent, and those before it were taken. A payload is copied before
	// Post returns; the caller may reuse its memory at once.
	// What was posted may reach the peer at once, and does after Flush.
	//
	// Errors: ErrTooLarge, ErrUnsupported (this op), ErrPeerDown (this peer),
	// ErrClosed.
	Post(ops []Op) (n int, err error)

	// Flush rings the doorbell for all that was posted since the last one.
	Flush() error

	// Poll makes progress and fills events with what has arrived, n of them.
	// A payload in them is valid, and not to be written to, until the next
	// Poll of this worker. With an error the n events are valid all the same.
	//
	// Errors: ErrCorrupt (this peer: it broke the protocol, is cut off, and
	// the others go on), ErrClosed.
	Poll(events []Event) (n int, err error)

	// Close tells the peers and gives up what is in flight. It is idempotent
	// and does not wait for any peer.
	Close() error
}

// PeerID names a connection of one worker: a small dense number, chosen by the
// caller of Connect, so that transports index arrays with it.
type PeerID uint32

// Token relates a completion to its op. For a call it is the caller's own (by
// convention a slot index); for a request it is the transport's reply handle.
type Token uint64

// OpKind says what an op asks for.
type OpKind uint8

const (
	// OpCall sends a request and expects one response.
	OpCall OpKind = iota + 1
	// OpReply answers a polled request: Peer and Token are the event's. Each
	// request is answered once, at any later time and in any order.
	OpReply
)

// Op is one message to post.
type Op struct {
	Kind    OpKind
	Peer    PeerID
	Token   Token
	Payload []byte // may be nil for an empty message
}

// EventKind says what arrived.
type EventKind uint8

const (
	// EventRequest is a peer's call; Token is its reply handle.
	EventRequest EventKind = iota + 1
	// EventResponse ends a call; Token is the caller's own.
	EventResponse
	// EventPeerLost says that a peer is gone for good. It comes once for a
	// peer, after all else that came from it; the calls in flight to it have
	// failed and no other event tells of them.
	EventPeerLost
)

// Event is something that arrived. Size is the payload's length in bytes also
// where it stays in device memory: Payload is then its first Config.HostPrefix bytes,
// or all of it where it has no more, and a [DeviceReader] reads the whole of it
// at DeviceOffset.
type Event struct {
	Kind         EventKind
	Peer         PeerID
	Token        Token
	Payload      []byte
	Size         int
	DeviceOffset uint64 // only where Payload is not the whole payload
}
