package rdma

import (
	"fmt"
	"time"
)

// Access is what a region's memory may be used for by other devices. Its own
// device may always read and write it.
type Access uint32

// What other devices may do, as in ibv_reg_mr(3).
const (
	RemoteWrite Access = 1 << 1
	RemoteRead  Access = 1 << 2
)

// QueuePairType is the service of a queue pair.
type QueuePairType uint8

const (
	// ReliableConnected (RC) delivers in order and exactly once, or fails.
	ReliableConnected QueuePairType = iota + 1
	// UnreliableDatagram (UD) sends single packets that may be lost.
	UnreliableDatagram
)

func (t QueuePairType) String() string {
	switch t {
	case ReliableConnected:
		return "RC"
	case UnreliableDatagram:
		return "UD"
	}
	return fmt.Sprintf("queue pair type %d", uint8(t))
}

// GlobalRouteHeaderSize is the room in bytes that a datagram takes in its
// receive before the payload.
const GlobalRouteHeaderSize = 40

// Opcode is what a request does, or what a completion completes.
type Opcode uint8

// The opcodes of requests, and of their completions.
const (
	// Write is RDMA WRITE. Nothing tells the target when it is there, and its
	// bytes come in any order: who looks at memory for it must bear with half of it.
	Write              Opcode = iota + 1
	WriteWithImmediate        // RDMA WRITE WITH IMMEDIATE
	Send                      // SEND
	SendWithImmediate         // SEND WITH IMMEDIATE
	Read                      // RDMA READ
	// Receive completes a receive that a SEND consumed, and
	// ReceiveWriteImmediate one that a WRITE WITH IMMEDIATE consumed.
	Receive
	ReceiveWriteImmediate
)

var opcodeNames = [...]string{
	Write: "write", WriteWithImmediate: "write with immediate", Send: "send",
	SendWithImmediate: "send with immediate", Read: "read", Receive: "receive",
	ReceiveWriteImmediate: "receive of a write with immediate",
}

func (o Opcode) String() string {
	if int(o) < len(opcodeNames) && o > 0 {
		return opcodeNames[o]
	}
	return fmt.Sprintf("opcode %d", uint8(o))
}

// SendFlags modify a request.
type SendFlags uint8

const (
	// Signaled asks for a completion. Without it there is one only where the
	// request fails.
	Signaled SendFlags = 1 << iota
	// Inline copies the payload into the request, so that its memory is the
	// caller's again when PostSend returns. It may be up to
	// QueuePair.MaxInline long and need not be registered; LocalKey is unused.
	Inline
)

// SendRequest is one request to a send queue. The remote fields concern one-sided
// access, Peer concerns UD only.
//
// The layout is also that of struct tb_send in internal/ibverbs.
type SendRequest struct {
	ID        uint64 // comes back in the completion
	Local     uint64 // address of the payload, or of where a READ goes
	Remote    uint64 // address at the peer
	Length    uint32 // bytes
	LocalKey  uint32 // Region.LocalKey of Local
	RemoteKey uint32 // RemoteRegion.Key of Remote
	Immediate uint32
	Peer      PeerHandle
	Opcode    Opcode
	Flags     SendFlags
	_         [2]uint8
}

// ReceiveRequest is one receive. Length may be 0: a WRITE WITH IMMEDIATE consumes
// a receive and writes nothing to it.
//
// The layout is also that of struct tb_receive in internal/ibverbs.
type ReceiveRequest struct {
	ID       uint64 // comes back in the completion
	Local    uint64
	Length   uint32
	LocalKey uint32
}

// Completion is an entry of a completion queue. Where Status is not StatusOK
// only ID, QueuePair and Vendor hold besides. Opcode is Write or Send also for
// requests with an immediate, as verbs do not tell them apart.
//
// The layout is also that of struct tb_completion in internal/ibverbs.
type Completion struct {
	ID        uint64
	QueuePair uint32 // QueuePairConfig.Cookie
	Length    uint32 // bytes received; of a datagram with its GRH
	Immediate uint32
	Source    uint32 // number of the sending queue pair; datagrams only
	Vendor    uint32 // vendor's error code; verbs only
	Opcode    Opcode
	Status    Status
	// HasImmediate is 1 where Immediate was sent.
	HasImmediate uint8
	_            uint8
}

// PeerHandle names a peer of a UD queue pair; see QueuePair.AddPeer.
type PeerHandle uint32

// Status is how a request ended: the codes of ibv_wc_status in
// infiniband/verbs.h.
type Status uint8

// The codes that this package's users tell apart.
const (
	StatusOK                  Status = 0
	StatusLocalLength         Status = 1  // receive too short for what was sent
	StatusLocalOperation      Status = 2  // the queue pair cannot do that
	StatusLocalProtection     Status = 4  // LocalKey does not cover Local
	StatusFlushed             Status = 5  // the queue pair had failed before
	StatusRemoteInvalid       Status = 9  // the responder refused, as for its length
	StatusRemoteAccess        Status = 10 // RemoteKey does not cover Remote, or not for this
	StatusRemoteOperation     Status = 11 // the responder failed
	StatusRetryExceeded       Status = 12 // the peer does not answer
	StatusReceiverNotReadyOut Status = 13 // the peer had no receive posted for too long
)

var statusNames = map[Status]string{
	StatusOK: "success", StatusLocalLength: "local length error",
	StatusLocalOperation: "local queue pair operation error", StatusLocalProtection: "local protection error",
	StatusFlushed: "flushed in error", StatusRemoteInvalid: "remote invalid request",
	StatusRemoteAccess: "remote access error", StatusRemoteOperation: "remote operation error",
	StatusRetryExceeded:       "transport retry counter exceeded",
	StatusReceiverNotReadyOut: "receiver-not-ready retry counter exceeded",
}

func (s Status) String() string {
	if name, ok := statusNames[s]; ok {
		return name
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// Device is one open port of an RDMA device. It may be used from several
// goroutines.
type Device interface {
	Attributes() Attributes

	// Allocate returns size bytes of new, zeroed, registered memory outside
	// the Go heap, page aligned. The error names the limit on locked memory
	// where that was the cause.
	Allocate(size int, access Access) (*Region, error)

	// NewCompletionQueue makes a queue of at least capacity entries.
	NewCompletionQueue(capacity int) (CompletionQueue, error)

	// NewSharedReceiveQueue makes a queue of at least capacity receives, which
	// queue pairs of one completion queue share.
	NewSharedReceiveQueue(capacity int) (SharedReceiveQueue, error)

	NewQueuePair(QueuePairConfig) (QueuePair, error)

	// NewNotifier makes a notifier for completion queues that have no queue pairs yet.
	// A queue has one notifier at most.
	NewNotifier(queues ...CompletionQueue) (Notifier, error)

	// ReceiverNotReady counts messages of this device that found no receive
	// posted, as far as the device tells; it may count those of other users of
	// the same hardware.
	ReceiverNotReady() uint64

	// Close closes the device and all that was made of it.
	Close() error
}

// Attributes say what was opened.
type Attributes struct {
	Provider  Provider
	Name      string // "mlx5_0"
	Port      int    // from 1
	Link      string // "InfiniBand", "Ethernet"; "memory" for soft
	GIDIndex  int
	GID       string // "" for soft
	MTU       int    // of the path, in bytes: the largest datagram
	Libraries map[string]string

	MaxQueuePairs    int
	MaxSendDepth     int
	MaxReceiveDepth  int
	MaxShared        int // receives of a shared receive queue
	MaxCompletions   int
	MaxMessage       int // bytes
	MaxReadsInFlight int // READs that a queue pair has in progress

	// DeliversAfterClose: what was posted still arrives though the queue pair
	// closes at once. Where it is false, wait for the completion first.
	DeliversAfterClose bool
}

// CompletionQueue is where requests and receives complete. It belongs to one
// thread at a time, together with all that completes on it.
type CompletionQueue interface {
	// Poll fills completions with those that are there, without blocking, and
	// returns how many. An error says that the queue is lost.
	Poll(completions []Completion) (n int, err error)
	Close() error
}

// Notifier lets the owner of completion queues sleep until one of them may have something.
// Who never waits pays a load for each request, or nothing.
type Notifier interface {
	// Wait blocks until polling one of the queues may find something, Notify is
	// called, or timeout has passed; it may return early for no reason. It is for
	// the queues' own thread. What was there before, and a Notify since the last
	// Wait, make it return at once. A WRITE without an immediate that completes
	// nothing here does not end it on verbs.
	Wait(timeout time.Duration) error
	// Notify ends the current or next Wait. Any thread may call it.
	Notify()
	Close() error
}

// SharedReceiveQueue is a queue of receives for several queue pairs.
type SharedReceiveQueue interface {
	// PostReceive posts in order and returns how many it took; fewer with
	// ErrQueueFull.
	PostReceive(requests []ReceiveRequest) (n int, err error)
	Close() error
}

// QueuePairConfig is what a queue pair is made of.
type QueuePairConfig struct {
	Type        QueuePairType
	Completions CompletionQueue // of sends and receives
	// Shared is the queue of its receives; nil for one of its own, with
	// ReceiveDepth entries.
	Shared       SharedReceiveQueue
	SendDepth    int    // requests in the send queue
	ReceiveDepth int    // receives, without Shared
	MaxInline    int    // bytes wanted; QueuePair.MaxInline is what was granted
	Cookie       uint32 // Completion.QueuePair
	QKey         uint32 // UD: who sends must know it
	// Peers is how many peers may send to a UD queue pair of the soft device;
	// 0 is 64. Verbs have no such limit.
	Peers int
}

// QueuePair is one end of a connection, or of datagrams.
type QueuePair interface {
	// Endpoint says how a peer reaches this queue pair.
	Endpoint() Endpoint

	// MaxInline is how many bytes Inline takes.
	MaxInline() int

	// Connect connects an RC queue pair with the remote one, which connects
	// with this one by itself. Before the remote's Connect has returned,
	// nothing must be posted here; receives may be posted before.
	Connect(remote Endpoint, options ConnectOptions) error

	// AddPeer makes a UD queue pair's peer known.
	AddPeer(remote Endpoint) (PeerHandle, error)

	// PostSend posts in order, with one doorbell, and returns how many it took;
	// fewer with ErrQueueFull, which passes when completions are polled, or
	// with an error that says what is wrong with requests[n]. What is found to
	// be wrong later is the status of its completion, and all that follows on
	// this queue pair is flushed.
	PostSend(requests []SendRequest) (n int, err error)

	// PostReceive is for queue pairs with receives of their own.
	PostReceive(requests []ReceiveRequest) (n int, err error)

	// Close gives up what has not completed; see
	// Attributes.DeliversAfterClose. No completion of this queue pair is
	// polled any more. It is idempotent.
	Close() error
}

// ConnectOptions are the parameters of an RC connection; the zero value is the
// default of each.
type ConnectOptions struct {
	// MTU is the path's in bytes: 256, 512, 1024, 2048 or 4096; 0 is the
	// smaller of both ports'.
	MTU int
	// Timeout is the exponent of the acknowledgement timeout, 4.096 us << n;
	// 0 is 14, 67 ms. Retries is how often it is tried again, 1 to 7; 0 is 7.
	Timeout, Retries int
	// ReceiverNotReadyRetries is how often a message is sent again that found
	// no receive, 1 to 6; 0 is without end.
	ReceiverNotReadyRetries int
	// ReceiverNotReadyTimer is the code of the time between two of these
	// tries that this side asks of the peer, 1 (10 us) to 31; 0 is 12, 640 us.
	ReceiverNotReadyTimer int
	// ReadsInFlight is how many READs each side may have in progress; 0 is 1.
	ReadsInFlight int
}

// Region is registered memory.
type Region struct {
	Bytes    []byte // off the Go heap, page aligned, gone with Close
	Address  uint64 // of Bytes, as requests want it
	LocalKey uint32
	Remote   RemoteRegion // for peers
	close    func() error
}

// Close ends the registration and frees the memory, which must not be touched
// any more. It is idempotent, and implied by the device's Close.
func (r *Region) Close() error {
	if r.close == nil {
		return nil
	}
	err := r.close()
	r.close, r.Bytes = nil, nil
	return err
}

// RemoteRegion is what a peer must know of a region for one-sided access.
type RemoteRegion struct {
	Address uint64 `json:"address"`
	Key     uint32 `json:"key"`
	Length  uint64 `json:"length"`
}

// Endpoint is how a queue pair is reached, for the peer's Connect or AddPeer. It
// can be sent as JSON.
type Endpoint struct {
	Provider Provider      `json:"provider"`
	Type     QueuePairType `json:"type"`
	Number   uint32        `json:"qpn"`
	Sequence uint32        `json:"psn"`
	QKey     uint32        `json:"qkey,omitempty"`
	LID      uint16        `json:"lid,omitempty"`
	GID      []byte        `json:"gid,omitempty"`
	MTU      int           `json:"mtu"`
	Soft     *SoftEndpoint `json:"soft,omitempty"`
}
