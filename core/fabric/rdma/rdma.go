package rdma

import (
	"fmt"
	"time"

	"transportbench/core/transport"
)

// Access is a set of rights that peers have to a region's memory. The own device may
// always read and write it.
type Access uint32

// The rights of peers: IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ and
// IBV_ACCESS_REMOTE_ATOMIC of ibv_reg_mr(3).
const (
	RemoteWrite  Access = 1 << 1
	RemoteRead   Access = 1 << 2
	RemoteAtomic Access = 1 << 3
)

// RelaxedOrdering (IBV_ACCESS_RELAXED_ORDERING) is not a right: it lets the device write the
// region out of order over PCIe. Verbs ignore it where kernel or device do not know it; the soft
// device, which is on no bus, refuses it.
const RelaxedOrdering Access = 1 << 20

// QueuePairType is the service of a queue pair (ibv_qp_type).
type QueuePairType uint8

const (
	// ReliableConnected (RC) delivers in order and exactly once, or fails.
	ReliableConnected QueuePairType = iota + 1
	// UnreliableDatagram (UD) sends single packets, which may be lost.
	UnreliableDatagram
	// DynamicallyConnected (DC) reaches any number of peers with the reliability of RC. AddPeer
	// names them, as for UD. Only mlx5 devices have it: NewQueuePair opens their library. It needs
	// a shared receive queue. A failed request flushes those behind it, to any peer; the method
	// Restart takes the queue pair back to sending.
	DynamicallyConnected
)

func (t QueuePairType) String() string {
	switch t {
	case ReliableConnected:
		return "RC"
	case UnreliableDatagram:
		return "UD"
	case DynamicallyConnected:
		return "DC"
	}
	return fmt.Sprintf("queue pair type %d", uint8(t))
}

// GlobalRouteHeaderSize is the length in bytes of the header (GRH) that a datagram has
// before its payload in the memory of its receive.
const GlobalRouteHeaderSize = 40

// Opcode is the operation of a request or completion (ibv_wr_opcode, ibv_wc_opcode).
type Opcode uint8

// The opcodes of requests and completions.
const (
	// Write is RDMA WRITE. Nothing tells the target that it has arrived, and its bytes
	// arrive in any order: a program that polls memory for it must tolerate partially
	// written data.
	Write              Opcode = iota + 1
	WriteWithImmediate        // RDMA WRITE WITH IMMEDIATE; consumes a receive of the target
	Send                      // SEND; consumes a receive and fills its memory
	SendWithImmediate         // SEND WITH IMMEDIATE
	Read                      // RDMA READ
	// FetchAdd and CompareSwap change eight bytes at the target atomically and fetch what was
	// there before. The address is aligned to 8.
	FetchAdd
	CompareSwap
	// Receive completes a receive that a SEND consumed, ReceiveWriteImmediate one that a
	// WRITE WITH IMMEDIATE consumed.
	Receive
	ReceiveWriteImmediate
)

var opcodeNames = [...]string{
	Write: "write", WriteWithImmediate: "write with immediate", Send: "send",
	SendWithImmediate: "send with immediate", Read: "read", FetchAdd: "fetch and add",
	CompareSwap: "compare and swap", Receive: "receive",
	ReceiveWriteImmediate: "receive of a write with immediate",
}

func (o Opcode) String() string {
	if int(o) < len(opcodeNames) && o > 0 {
		return opcodeNames[o]
	}
	return fmt.Sprintf("opcode %d", uint8(o))
}

// SendFlags modify a request (ibv_send_flags).
type SendFlags uint8

const (
	// Signaled asks for a completion. An unsignaled request completes only if it fails. Its
	// entry of the send queue becomes free when a later signaled request completes.
	Signaled SendFlags = 1 << iota
	// Inline copies the payload into the request, so its memory belongs to the caller again
	// when PostSend returns. The memory need not be registered, and LocalKey is unused. The
	// payload may have up to QueuePair.MaxInline bytes.
	Inline
	// InPlace makes a WRITE announce bytes that the caller has stored in memory of
	// RemoteMapper.MapRemote. Local and LocalKey are unused.
	InPlace
)

// SendRequest is a request to a send queue (ibv_send_wr with one scatter element). Remote
// and RemoteKey are for one-sided operations, Operand and Swap for atomic ones, Peer is for UD and
// DC.
//
// struct tb_send of internal/ibverbs has the same layout.
type SendRequest struct {
	ID        uint64 // returned in the completion
	Local     uint64 // address of the payload; of a READ or atomic operation, where the data goes
	Remote    uint64 // address at the peer
	Length    uint32 // bytes
	LocalKey  uint32 // Region.LocalKey of Local
	RemoteKey uint32 // RemoteRegion.Key of Remote
	Immediate uint32
	Peer      PeerHandle
	Opcode    Opcode
	Flags     SendFlags
	_         [2]uint8
	Operand   uint64 // what FetchAdd adds, or what CompareSwap compares with
	Swap      uint64 // what CompareSwap stores if it is equal
}

// ReceiveRequest is a receive (ibv_recv_wr with one scatter element). Length may be 0 for a
// WRITE WITH IMMEDIATE, which consumes a receive and writes nothing to its memory.
//
// struct tb_receive of internal/ibverbs has the same layout.
type ReceiveRequest struct {
	ID       uint64 // returned in the completion
	Local    uint64
	Length   uint32
	LocalKey uint32
}

// Completion is an entry of a completion queue (ibv_wc). If Status is not StatusOK, only
// ID, QueuePair and Vendor are valid besides. Opcode is Write or Send also for requests
// with an immediate because verbs do not distinguish them.
//
// struct tb_completion of internal/ibverbs has the same layout.
type Completion struct {
	ID        uint64
	QueuePair uint32 // QueuePairConfig.Cookie
	Length    uint32 // bytes received; of a datagram with its GRH
	Immediate uint32
	Source    uint32 // number of the sending queue pair; datagrams only
	Vendor    uint32 // vendor's error code; verbs only
	Opcode    Opcode
	Status    Status
	// HasImmediate is 1 if the sender sent Immediate.
	HasImmediate uint8
	_            uint8
}

// PeerHandle identifies a peer of a UD or DC queue pair; see QueuePair.AddPeer.
type PeerHandle uint32

// Status is the outcome of a request, with the codes of ibv_wc_status.
type Status uint8

// The statuses that users of this package distinguish.
const (
	StatusOK                  Status = 0
	StatusLocalLength         Status = 1  // the receive is too short for the message
	StatusLocalOperation      Status = 2  // the queue pair cannot carry out the request
	StatusLocalProtection     Status = 4  // LocalKey does not cover Local
	StatusFlushed             Status = 5  // the queue pair failed before
	StatusRemoteInvalid       Status = 9  // the responder rejects the request, as for its length
	StatusRemoteAccess        Status = 10 // RemoteKey does not cover Remote or lacks the right
	StatusRemoteOperation     Status = 11 // the responder failed
	StatusRetryExceeded       Status = 12 // the peer does not answer
	StatusReceiverNotReadyOut Status = 13 // the peer had no receive posted for too long
)

var statusNames = map[Status]string{
	StatusOK: "success", StatusLocalLength: "local length error",
	StatusLocalOperation:  "local queue pair operation error",
	StatusLocalProtection: "local protection error",
	StatusFlushed:         "flushed in error", StatusRemoteInvalid: "remote invalid request",
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

// Device is one open port of an RDMA device, with a protection domain (ibv_open_device(3),
// ibv_alloc_pd(3)). Its methods are safe for concurrent use. Objects of one device cannot
// be combined with those of another; that is ErrInvalid.
type Device interface {
	// Attributes returns what was opened, and its limits. They do not change.
	Attributes() Attributes

	// Allocate returns size bytes of new, zeroed, page-aligned, registered memory
	// (ibv_reg_mr(3)). If the limit on locked memory is the cause of a failure, the error
	// names it.
	Allocate(size int, access Access) (*Region, error)

	// ReadStats appends how many bytes Allocate has returned, and how long that took: the counters
	// of a transport, as [transport.StatsReader] has them.
	ReadStats(dst []transport.Stat) []transport.Stat

	// NewCompletionQueue makes a queue of at least capacity entries (ibv_create_cq(3)). If
	// more requests and receives are outstanding than it has entries, it overruns and is
	// lost.
	NewCompletionQueue(capacity int) (CompletionQueue, error)

	// NewSharedReceiveQueue makes a queue of at least capacity receives for the queue pairs
	// of one completion queue (ibv_create_srq(3)).
	NewSharedReceiveQueue(capacity int) (SharedReceiveQueue, error)

	// NewQueuePair makes a queue pair (ibv_create_qp(3)). A UD queue pair is ready; an RC
	// queue pair takes receives, and takes requests once it is connected.
	NewQueuePair(QueuePairConfig) (QueuePair, error)

	// NewNotifier makes a notifier for completion queues that have no queue pairs yet. A
	// queue has at most one notifier.
	NewNotifier(queues ...CompletionQueue) (Notifier, error)

	// ReceiverNotReady returns how many messages found no receive posted, if the device
	// counts them. The count may include other users of the same hardware.
	ReceiverNotReady() uint64

	// Close closes everything that was made of the device, queue pairs first, and the
	// device. It is idempotent.
	Close() error
}

// Attributes describe an open device (ibv_query_device(3), ibv_query_port(3)).
type Attributes struct {
	Provider  Provider
	Name      string // "mlx5_0"
	Port      int    // from 1
	Link      string // "InfiniBand", "Ethernet"; "memory" for soft
	GIDIndex  int
	GID       string // "" for soft
	MTU       int    // of the port, in bytes: the largest datagram
	Libraries map[string]string
	Fallback  string // why Auto took soft; "" otherwise

	MaxQueuePairs    int
	MaxSendDepth     int
	MaxReceiveDepth  int
	MaxShared        int // receives of a shared receive queue
	MaxCompletions   int
	MaxMessage       int // bytes
	MaxReadsInFlight int // READs and atomic operations that a queue pair may have in progress
	// Atomics reports whether the device has FetchAdd and CompareSwap.
	Atomics bool

	// DeliversAfterClose reports whether posted messages still arrive if the queue pair
	// closes at once. If it is false, wait for their completion before closing.
	DeliversAfterClose bool
}

// CompletionQueue is where requests and receives complete. It belongs to one thread at a
// time, with all that completes on it.
type CompletionQueue interface {
	// Poll fills completions with those that are there and returns how many
	// (ibv_poll_cq(3)). It does not block. After an error the queue is lost.
	Poll(completions []Completion) (n int, err error)
	// Close fails while the queue has queue pairs.
	Close() error
}

// Notifier lets the owner of completion queues sleep until one of them may have something
// (ibv_req_notify_cq(3) and ibv_get_cq_event(3)). If no thread waits, it costs peers at most a load
// per request.
type Notifier interface {
	// Wait blocks until polling one of the queues may find something, Notify is called, or
	// timeout has passed. It may return early. Only the thread of the queues may call it.
	// Completions that are there already, and a Notify since the last Wait, make it return
	// at once. On verbs a WRITE of a peer without an immediate completes nothing here, so it
	// does not end the Wait.
	Wait(timeout time.Duration) error
	// Notify ends the current or next Wait. Any thread may call it.
	Notify()
	// Close frees the notifier. It is idempotent.
	Close() error
}

// SharedReceiveQueue is a queue of receives for several queue pairs. It belongs to the
// thread of their completion queue.
type SharedReceiveQueue interface {
	// PostReceive posts in order and returns how many it took (ibv_post_srq_recv(3)). The
	// error is ErrQueueFull if there is no room for all.
	PostReceive(requests []ReceiveRequest) (n int, err error)
	// Close frees the queue. Its queue pairs must be closed before.
	Close() error
}

// QueuePairConfig configures a queue pair (ibv_qp_init_attr).
type QueuePairConfig struct {
	Type        QueuePairType
	Completions CompletionQueue // of sends and receives
	// Shared is the queue of its receives. If it is nil, the queue pair has its own, with
	// ReceiveDepth entries.
	Shared       SharedReceiveQueue
	SendDepth    int    // requests in the send queue
	ReceiveDepth int    // receives, without Shared
	MaxInline    int    // bytes; QueuePair.MaxInline returns what was granted
	Cookie       uint32 // any number; it is Completion.QueuePair
	QKey         uint32 // UD, DC: what is sent with another key is dropped; Endpoint carries it
	// Peers is how many peers may send to a UD queue pair of the soft device; 0 is 64.
	// Verbs have no such limit.
	Peers int
}

// QueuePair is one end of a connection (RC), or an end for datagrams (UD).
type QueuePair interface {
	// Endpoint returns what a peer needs to reach this queue pair.
	Endpoint() Endpoint

	// MaxInline returns how many bytes an Inline request may have: at least what was asked
	// for.
	MaxInline() int

	// Connect connects an RC queue pair to the remote one, which must connect to this one as
	// well (ibv_modify_qp(3), to RTR and RTS). Post no requests before the remote's Connect
	// has returned; receives may be posted before. An error wraps ErrPeer or
	// ErrInvalid.
	Connect(remote Endpoint, options ConnectOptions) error

	// AddPeer returns a handle for requests to the remote UD or DC queue pair
	// (ibv_create_ah(3)). The handles of a queue pair count up from 0.
	AddPeer(remote Endpoint) (PeerHandle, error)

	// PostSend posts requests in order, with one doorbell, and returns how many it took
	// (ibv_post_send(3)). If n < len(requests), the error is about requests[n]:
	// ErrQueueFull, which passes once completions are polled, or one that wraps ErrInvalid
	// or ErrClosed. The requests slice belongs to the caller again when PostSend returns.
	PostSend(requests []SendRequest) (n int, err error)

	// PostReceive posts receives of a queue pair without a shared receive queue
	// (ibv_post_recv(3)), like SharedReceiveQueue.PostReceive.
	PostReceive(requests []ReceiveRequest) (n int, err error)

	// Close drops requests that have not completed, unless
	// Attributes.DeliversAfterClose, and discards completions that are not polled. It is
	// idempotent.
	Close() error
}

// InlineWriter is implemented by queue pairs that post the most frequent request of a ring
// transport with less work than PostSend.
type InlineWriter interface {
	// WriteInline posts an unsignaled inline WRITE WITH IMMEDIATE. If it returns false it has done
	// nothing, and the caller uses PostSend, which posts the request or returns the reason.
	WriteInline(id, local uint64, length uint32, remote uint64, remoteKey, immediate uint32) bool
}

// RemoteMapper is implemented by RC queue pairs of devices that share memory with the peer.
type RemoteMapper interface {
	// MapRemote returns bytes of a region of the connected peer, or nil if its key does not allow
	// to write there. They stay mapped until the queue pair closes. The caller stores the payload
	// of an InPlace request there before it posts the request; the peer may see it at any time.
	MapRemote(remote uint64, remoteKey, length uint32) []byte
}

// ConnectOptions are the parameters of an RC connection (ibv_qp_attr). Zero values are the
// defaults.
type ConnectOptions struct {
	// MTU is the path MTU in bytes: 256, 512, 1024, 2048 or 4096. 0 is the smaller of both
	// ports' MTUs.
	MTU int
	// Timeout is the exponent n of the acknowledgement timeout, 4.096 us << n, from 1 to 31;
	// 0 is 14 (67 ms). Retries is the number of retransmissions, 1 to 7; 0 is 7.
	Timeout, Retries int
	// ReceiverNotReadyRetries is how often a message that found no receive is sent again,
	// 1 to 6; 0 is without end.
	ReceiverNotReadyRetries int
	// ReceiverNotReadyTimer is the code of the delay that this side asks of the peer between
	// two of these tries, 1 (10 us) to 31; 0 is 12 (640 us).
	ReceiverNotReadyTimer int
	// ReadsInFlight is how many READs and atomic operations each side may have in progress; 0 is 1.
	ReadsInFlight int
}

// Region is registered memory (ibv_mr).
type Region struct {
	Bytes    []byte // outside the Go heap, page aligned; unmapped by Close
	Address  uint64 // of Bytes, for requests
	LocalKey uint32
	Remote   RemoteRegion // for peers
	Free     func() error // the device's part of Close
}

// Close ends the registration and unmaps the memory. It is idempotent, and implied by the
// device's Close.
func (r *Region) Close() error {
	if r.Free == nil {
		return nil
	}
	err := r.Free()
	r.Free, r.Bytes = nil, nil
	return err
}

// RemoteRegion is what a peer must know of a region for one-sided access.
type RemoteRegion struct {
	Address uint64 `json:"address"`
	Key     uint32 `json:"key"`
	Length  uint64 `json:"length"`
}
