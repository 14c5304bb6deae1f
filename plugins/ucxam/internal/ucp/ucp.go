package ucp

import "fmt"

// Status is an error of UCX.
type Status struct {
	Code int
	Text string // UCX's message
}

func (s *Status) Error() string { return fmt.Sprintf("%s (UCX status %d)", s.Text, s.Code) }

// The statuses that callers distinguish, with the values of ucs_status_t.
const (
	StatusUnreachable = -6
	StatusNoDevice    = -14
)

// Setting is a variable of UCX, without its prefix UCX_.
type Setting struct{ Name, Value string }

// SettingError reports a setting that UCX refused.
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
	Window     int  // calls in flight per connection and direction
	MaxPayload int  // bytes
	Small      int  // bytes of the largest payload in a small slot
	Eager      int  // bytes of the largest payload that is sent as a header alone
	LargeBytes int  // bytes for the slots of larger payloads, per direction
	Bound      int  // UCX progress calls in one Progress
	PeerErrors bool // UCP_ERR_HANDLING_MODE_PEER
	Pack       bool // send the messages of a flush to one peer together
}

// Counts are the counters of a worker since it was made.
type Counts struct {
	Sent, Received, Pended, Rendezvous, Copied, CopiedBytes, Kept, Strangers uint64

	// Packed are payloads that were copied into packs.
	Packed, PackedBytes uint64
}
