package transport

import (
	"context"
	"log/slog"
)

// Driver describes and opens one transport. A plugin serves exactly one driver. Its methods may
// be called concurrently.
type Driver interface {
	// Info describes the transport. It returns at once, opens no device, memory or socket, and also
	// works on machines where the transport cannot run.
	Info() Info

	// Open acquires the devices, memory and sockets of one rank. It may block until ctx ends. If
	// the transport cannot run on this machine, Open returns an error that wraps [ErrUnavailable]
	// with the reason. It never falls back to another provider than the options ask for.
	Open(ctx context.Context, cfg Config) (Transport, error)
}

// Info describes a transport before it is opened.
type Info struct {
	// Name selects the transport on the command line. It has lower-case letters and digits, and
	// is part of the plugin's file name.
	Name string `json:"name" bound:">=1,<=256"`
	// Version is the version of the transport: that of the project for its own transports.
	Version string `json:"version" bound:"any"`
	// Summary is one line for users who choose a transport.
	Summary string `json:"summary" bound:"any"`
	// Choose completes the sentence "choose it ..." in lists of transports: "for few peers with
	// RDMA", in one line of at most 100 bytes. The conformance suite requires it.
	Choose string `json:"choose,omitempty" bound:"<=256"`
	// Groups has what the transport can run on. Lists show it in the first one, which is what it is
	// made for.
	Groups []Group `json:"groups,omitempty" bound:"each=$groups,once"`
	// Providers are the possible values of Properties.Provider.
	Providers []string `json:"providers" bound:"<=1024,each>=1,each<=256"`
	// Capabilities apply with the default options. Limits are the largest that any options allow:
	// the host refuses a load that exceeds them before it starts a rank.
	Capabilities Capabilities `json:"capabilities"`
	Limits       Limits       `json:"limits"`
	Needs        Needs        `json:"needs,omitzero"`
	// Options is the schema of Config.Options.
	Options []Option `json:"options" bound:"<=1024,once"`
	// MicroOptions are those that the driver's microbenchmarks have besides, of other names.
	MicroOptions []Option `json:"micro_options,omitempty" bound:"<=1024,once"`
	// Layer is the microbenchmark that measures a part of the transport by itself, see
	// [Measurement.Layer]. It is empty if none does.
	Layer string `json:"layer,omitempty" bound:"<=256"`
	// Matched has the options that turn off checks of payloads which the transport makes itself,
	// for comparisons in which the runtime checks all payloads of all transports.
	Matched map[string]string `json:"matched,omitempty" bound:"any"`
	// Roles has the options that mean something to the host.
	Roles Roles `json:"roles,omitzero"`
	// PerPacket has the options with which every datagram is one packet. The host sets those that
	// have their defaults in an emulated network, which impairs packets.
	PerPacket map[string]string `json:"per_packet,omitempty" bound:"any"`
	// References are benchmarks of the field, for --witness: the first that fits a run measures it.
	// Without one that fits, the host takes that of the medium, if it has one.
	References []Reference `json:"references,omitempty" bound:"<=64"`
	// Unavailable is the reason why Open always fails in this build, and the remedy, such as for
	// a plugin that was built without its native library. It is empty if Open can succeed.
	Unavailable string `json:"unavailable,omitempty" bound:"any"`
	// Instrument marks a transport that tests the tool, not a candidate for use. The command runs
	// it only if it is named, not with "all".
	Instrument bool `json:"instrument,omitempty"`
}

// Group is what transports need of a machine. Lists of transports are grouped by it.
type Group string

// The groups. Their texts are as lists show them.
const (
	GroupMemory  Group = "memory"  // shared by the processes of one host
	GroupSockets Group = "sockets" // the kernel's
	GroupRDMA    Group = "RDMA"    // an RDMA device
	GroupGPU     Group = "GPU"     // the memory of a GPU
)

// Groups returns all groups in the order of lists: those that every machine has come first.
func Groups() []Group { return []Group{GroupMemory, GroupSockets, GroupRDMA, GroupGPU} }

// Group returns what the transport is made for, or "" if it does not say.
func (i *Info) Group() Group {
	if len(i.Groups) == 0 {
		return ""
	}
	return i.Groups[0]
}

// Config is the argument of Open. The counts are upper bounds for as long as the transport is
// open, so a transport can size its memory once.
type Config struct {
	Rank       int // number of this rank, from 0
	Workers    int // number of calls to NewWorker
	Peers      int // connections of one worker
	InFlight   int // calls in flight on one connection, in each direction
	MaxPayload int // bytes of the largest payload that will be posted
	// HostPrefix is the number of bytes at the start of each payload that must be in host memory
	// even if the rest stays in device memory.
	HostPrefix int
	// Crosses reports that ranks are on several machines, which no memory and no Unix socket joins.
	// A transport that chooses its provider chooses another.
	Crosses bool
	Options Values // from ParseOptions with the driver's schema
	Logger  *slog.Logger
}

// Transport is the open transport of one rank: its devices, memory and sockets. Its methods may
// be called concurrently.
type Transport interface {
	// Properties describes the open transport. It differs from the driver's Info if options
	// change limits or the option value "auto" chose a provider.
	Properties() Properties

	// NewWorker makes the worker of one polling thread. It is called at most once for each index
	// from 0 to Config.Workers-1. It may block and allocate.
	NewWorker(index int) (Worker, error)

	// Close releases everything, including the workers. It is called once, while no other call
	// is in progress, and returns in bounded time whatever the peers do. After it, NewWorker, and
	// Connect, Post, Flush and Poll of the workers, return ErrClosed.
	Close() error
}

// Properties describe an open transport. They are part of a result's identity.
type Properties struct {
	// Provider names what carries the bytes: "memfd", "verbs", "udp", ...
	Provider string `json:"provider" bound:">=1,<=256"`
	// Medium names what is under the provider, one of the constants below or a name of the
	// transport's own. Transports with the same medium have the same floor. It is empty if the
	// transport cannot tell.
	Medium       string       `json:"medium,omitempty" bound:"any"`
	Capabilities Capabilities `json:"capabilities"`
	Limits       Limits       `json:"limits"`
	// Libraries are the native libraries in use, name to version.
	Libraries map[string]string `json:"libraries,omitempty" bound:"<=1024"`
	// Notes are settings in effect that the options do not show, such as the lane that a
	// library chose.
	Notes map[string]string `json:"notes,omitempty" bound:"<=1024"`
	// Chosen has what the transport took for each option whose value left the choice to it, such
	// as "auto", by the name of the option. Tables show it beside the provider.
	Chosen map[string]string `json:"chosen,omitempty" bound:"<=1024"`
	// Integrity says in a few words which checks of payloads the transport, or the medium
	// below it, makes with these options, such as "checksum of headers". It is "none" without any.
	Integrity string `json:"integrity,omitempty" bound:"any"`
	// Uncounted names the library that copies, checksums or makes system calls for the transport
	// without being counted by [StatsReader]. It is empty if the counters are complete.
	Uncounted string `json:"uncounted,omitempty" bound:"any"`
	// Reference has the values of placeholders in Info.References that only the open transport
	// knows, such as the RDMA device. The argument with a placeholder is left out if its value
	// is empty.
	Reference map[string]string `json:"reference,omitempty" bound:"<=64,key>=1,key<=256,each<=256"`
}

// NoteAuto is the name of the note that says why the transport took what Properties.Chosen has.
const NoteAuto = "auto"

// The media of Properties.Medium.
const (
	MediumMemory = "memory" // shared by the processes of one host
	MediumUDP    = "udp"    // the kernel's
	MediumTCP    = "tcp"    // the kernel's
	MediumUnix   = "unix"   // the kernel's stream sockets of one host
	MediumVsock  = "vsock"  // between virtual machines and their host
	MediumVerbs  = "verbs"  // an RDMA device
)

// Worker is the endpoint of one thread. Its methods are not called concurrently, except Address
// and the Wake of a [Waiter]. Post, Flush and Poll never block, lock or allocate;
// with [Capabilities].Goroutines they may do the last two, and still never block.
type Worker interface {
	// Address returns the bytes by which a peer's Connect reaches this worker. They are opaque to
	// others and constant, and the caller must not change them.
	Address() []byte

	// Connect connects the worker to the one with the given address. The caller chooses peer, a
	// small number that it has not used on this worker before. Both sides call Connect, in any
	// order and at any time, and neither waits for the other. A call may be posted as soon as
	// Connect has returned; the peer polls it after its own Connect.
	Connect(ctx context.Context, peer PeerID, address []byte) error

	// Post takes ops in order and returns how many it took. A count below len(ops) with a nil
	// error is back-pressure: poll, then post the rest again. With an error, Post has taken
	// ops[:n] and refused ops[n], of which it sent nothing. Post copies each payload that it
	// takes, so the caller may reuse the memory when Post returns. The peer may receive ops
	// that Post took at any time, and receives all of them after Flush. Ops to one peer, such as a
	// list of pages, may share one message of the medium.
	//
	// Errors: ErrTooLarge, ErrUnsupported (this op), ErrPeerDown (this peer), ErrClosed.
	Post(ops []Op) (n int, err error)

	// Flush sends all ops posted since the last Flush that have not left yet, and rings the
	// doorbell if the medium has one.
	Flush() error

	// Poll makes progress, fills events with what has arrived, and returns their number. Their
	// payloads are valid until the next Poll of this worker, and the caller must not write to
	// them. The n events are also valid if there is an error.
	//
	// Errors: ErrCorrupt (a peer broke the protocol and is disconnected; other peers are not
	// affected), ErrClosed.
	Poll(events []Event) (n int, err error)

	// Close notifies the peers and abandons the calls in flight. It is idempotent and does not
	// wait for any peer. After it, Connect, Post, Flush and Poll return ErrClosed.
	Close() error
}

// PeerID is the number of a connection of one worker. The caller of Connect chooses small, dense
// numbers, so transports use them as array indices.
type PeerID uint32

// Token relates a completion to its op. The caller chooses the token of a call, all 64 bits of
// it. The transport chooses the token of a request, which is a reply handle.
type Token uint64

// OpKind is the kind of an op.
type OpKind uint8

const (
	// OpCall sends a request and expects one response.
	OpCall OpKind = iota + 1
	// OpReply answers a request; Peer and Token come from its event. Each request is
	// answered once, at any later time and in any order.
	OpReply
)

// Op is one message to post.
type Op struct {
	Kind OpKind
	// DeviceSlot, if not 0, is the slot of a [DeviceWorker] that has the whole payload of a call;
	// Payload then has only its first bytes, which are sent in place of the slot's.
	DeviceSlot uint16
	Peer       PeerID
	Token      Token
	Payload    []byte // may be nil for an empty message
}

// EventKind is the kind of an event.
type EventKind uint8

const (
	// EventRequest is a call of a peer; Token is its reply handle.
	EventRequest EventKind = iota + 1
	// EventResponse completes a call; Token is the caller's.
	EventResponse
	// EventPeerLost reports that a peer is gone for good. It arrives once for each lost peer,
	// after all its other events. Calls in flight to the peer have failed without an event of
	// their own.
	EventPeerLost
)

// Event is one arrival. Size is the length of the payload in bytes. If the payload stays in
// device memory, Payload has only its first Config.HostPrefix bytes, or all of it if it is not
// longer, and a [DeviceWorker] reads the whole at DeviceOffset.
type Event struct {
	Kind         EventKind
	Peer         PeerID
	Token        Token
	Payload      []byte
	Size         int
	DeviceOffset uint64 // set only if Payload is not the whole payload
}
