package ucp

import "fmt"

// Kind says what a message is.
type Kind uint32

// The kinds of arrivals. The values are the shim's.
const (
	Call  Kind = 1
	Reply Kind = 2
	Lost  Kind = 7 // the peer is lost, and the arrival's token is a Reason
)

// Reason is why a peer was lost: Closed, Corrupt or a negative status of UCX's.
type Reason int64

// The reasons that are not UCX's.
const (
	Closed  Reason = 0
	Corrupt Reason = 1
)

// HeaderSize is what the shim puts before each payload, in bytes.
const HeaderSize = 16

// NonceMask has the bits that a worker's nonce may use.
const NonceMask = ^uint64(0xff)

// Status is an error of UCX's.
type Status struct {
	Code int
	Text string // UCX's own words
}

func (s *Status) Error() string { return fmt.Sprintf("%s (UCX status %d)", s.Text, s.Code) }

// The statuses that callers tell apart; values are ucs_status_t's.
const (
	StatusUnreachable = -6
	StatusNoDevice    = -14
)

// Setting is a variable of UCX's, without its prefix UCX_.
type Setting struct{ Name, Value string }

// SettingError is a setting that UCX refused.
type SettingError struct {
	Setting Setting
	Err     error
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("UCX_%s=%s: %v", e.Setting.Name, e.Setting.Value, e.Err)
}

func (e *SettingError) Unwrap() error { return e.Err }

// WorkerConfig sizes a worker. All counts are upper bounds.
type WorkerConfig struct {
	Peers      int
	Window     int  // calls in flight on one connection, each way
	MaxPayload int  // bytes
	Small      int  // bytes of payloads that have slots of their own size
	Eager      int  // bytes of payloads that travel as a header alone
	LargeBytes int  // bytes for slots of larger payloads, each way
	Bound      int  // progresses of UCX in one Progress, at most
	PeerErrors bool // UCP_ERR_HANDLING_MODE_PEER
}

// Counts are what a worker has counted since it was made.
type Counts struct {
	Sent, Received, Pended, Rendezvous, Copied, Kept, Strangers uint64
}
