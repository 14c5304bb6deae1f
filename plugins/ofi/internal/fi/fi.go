package fi

import "fmt"

// SharedMemoryName returns the endpoint name that makes provider shm create its file at a path
// below /dev/shm.
func SharedMemoryName(path string) string { return "fi_shm://" + path }

// Error is an error of libfabric.
type Error struct {
	Code int    // positive; those below 256 are of the C library
	Text string // libfabric's message
}

func (e *Error) Error() string { return fmt.Sprintf("%s (libfabric error %d)", e.Text, e.Code) }

// The errors that callers distinguish, with the values of FI_E*.
const (
	ErrNoMemory = 12
	ErrNoData   = 61 // no provider matches
	ErrNoSystem = 38 // FI_ENOSYS
)

// The formats of addresses that callers distinguish, with the values of FI_*.
const (
	FormatInet  = 2
	FormatInet6 = 3
	FormatText  = 9
)

// Modes of memory registration, with the values of FI_MR_*.
var mrModes = []struct {
	bit  uint64
	name string
}{
	{mrLocal, "local"}, {1 << 4, "virtual address"}, {1 << 5, "allocated"},
	{1 << 6, "provider key"}, {1 << 9, "endpoint"},
}

// Interface is one of libfabric's interfaces to a provider.
type Interface struct {
	Provider   string // "shm", "tcp;ofi_rxm"
	Version    string // of the provider
	Fabric     string // "shm", "127.0.0.1/32"
	Domain     string // "shm", "lo", "mlx5_0"
	Endpoint   string // type of its endpoints: "FI_EP_RDM"
	Protocol   string // that they speak: "FI_PROTO_RXM"
	Format     int    // of addresses
	Address    []byte // of this side, in that format; may be empty
	Inject     int    // largest message in bytes that libfabric copies at once
	Sends      int    // outstanding sends that libfabric accepts
	Receives   int    // that can be posted
	MaxMessage uint64 // bytes of the largest message
	MRMode     uint64
}

// mrLocal is FI_MR_LOCAL.
const mrLocal = 1 << 2

// Pins reports whether the provider requires registered memory for messages, which pins it.
func (i *Interface) Pins() bool { return i.MRMode&mrLocal != 0 }

// MRModes returns the modes of memory registration that the provider requires.
func (i *Interface) MRModes() []string {
	var names []string
	for _, m := range mrModes {
		if i.MRMode&m.bit != 0 {
			names = append(names, m.name)
		}
	}
	return names
}

// WorkerConfig sizes a worker. All counts are upper bounds.
type WorkerConfig struct {
	Peers      int
	Window     int // calls in flight per connection and direction
	MaxPayload int // bytes
	Small      int // bytes of the largest payload of a plain message
	LargeBytes int // bytes for the slots of larger payloads, per direction
	Bound      int // reads of the completion queue in one Progress
	WakeUp     bool
}

// Counts are the counters of a worker since it was made.
type Counts struct {
	Sent, Injected, Gathered, Retried, Received, Early, Errors, Strangers uint64
}
