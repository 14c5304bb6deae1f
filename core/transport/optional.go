package transport

import (
	"context"
	"slices"
	"time"
)

// Waiter is implemented by workers that can block until there is something to poll.
type Waiter interface {
	// Wait blocks until Poll may have an event, until Wake is called, or until timeout has
	// passed. It may return early without a reason. It returns at once if anything has arrived
	// or Wake was called since the last Poll.
	Wait(timeout time.Duration) error
	// Wake ends the current or the next Wait. Any thread may call it.
	Wake()
}

// StatsReader is implemented by workers with counters, and by transports that register memory with
// a device or a library. The names are the transport's own, except for those of the Stat constants.
// The values never decrease.
type StatsReader interface {
	// ReadStats appends the counters to dst. On a worker, it is called on the worker's thread
	// before and after each measured window. On a transport, any goroutine calls it after the
	// workers have connected, and only [StatRegisteredBytes] and [StatRegisterTime] are read.
	ReadStats(dst []Stat) []Stat
}

// Stat is one counter.
type Stat struct {
	Name  string `json:"name" bound:">=1,<=256"`
	Help  string `json:"help" bound:"any"`
	Value uint64 `json:"value" bound:"<=exact"`
	// Means is what the counter means to the host, which knows no transport's names. A time has a
	// name that ends in _ns.
	Means Meaning `json:"means,omitempty" bound:"=|shortage|retransmission|stranger"`
	// Level marks the value as a level, such as a number of threads or a peak. Results have a
	// level as it is at the end of a window, and other counters' growth in the window.
	Level bool `json:"level,omitempty"`
}

// Meaning is what a counter means to the host.
type Meaning string

// The meanings.
const (
	// MeansShortage counts waits and refusals, or their time, because something had run out:
	// credit, room in a ring or a socket, receives.
	MeansShortage Meaning = "shortage"
	// MeansRetransmission counts messages that were lost or sent again, or parts of them.
	MeansRetransmission Meaning = "retransmission"
	// MeansStranger counts packets or connections that belong to no peer, and were rejected.
	MeansStranger Meaning = "stranger"
)

// The counters of a transport that registers memory with a device or a library.
const (
	StatRegisteredBytes = "registered_bytes" // bytes registered since Open
	StatRegisterTime    = "register_ns"      // the time that it took, in nanoseconds
)

// StatValue returns the value of the counter with a name, or 0 if there is none.
func StatValue(list []Stat, name string) uint64 {
	for i := range list {
		if list[i].Name == name {
			return list[i].Value
		}
	}
	return 0
}

// PathReader is implemented by workers that know the paths to their peers: what carries their
// bytes, and why nothing comes from a peer.
type PathReader interface {
	// ReadPaths appends the worker's paths to dst. What it states comes from the library, the
	// device or the open connections, never from the options alone. It is called once on the
	// worker's thread, outside measured windows, after the first calls. The runtime completes each
	// statement with what the kernel knows of the path, and the host compares it with the counters
	// of the kernel.
	ReadPaths(dst []Path) []Path
	// Silence returns why a peer is lost or, if it is not, since when nothing has come from it. It
	// names the peer's address and the option that limits the time. It returns nil if the peer
	// answers, or if the worker does not know. It is called on the worker's thread.
	Silence(peer PeerID) error
}

// Recorder is implemented by workers that record the course of a window: quantities such as the
// share of the time that a stall takes, and the steps of single transfers. It is for transports
// whose performance changes within a window, as congestion control makes it.
type Recorder interface {
	// StartRecording begins a recording and drops the last one. It is called on the worker's thread
	// before a measured window, and may allocate.
	StartRecording(Recording)
	// ReadRecording returns what was recorded since the last StartRecording; nothing before the
	// first. It is called on the worker's thread, outside measured windows.
	ReadRecording() Recorded
}

// Recording is what a [Recorder] is to record.
type Recording struct {
	// Parts is the number of parts of equal length into which series divide a window, and Window is
	// about how long the window takes.
	Parts  int
	Window time.Duration
	// Transfers is how many transfers to record, the first ones that end. It is 0 unless the
	// transport declares [Capabilities.Traces].
	Transfers int
}

// Recorded is what a [Recorder] has recorded.
type Recorded struct {
	Series    []Series
	Transfers []Transfer
}

// Series is one quantity over the course of a window.
type Series struct {
	Name string `json:"name" bound:">=1,<=256"`
	Help string `json:"help" bound:"any"`
	// Remedy marks a stall reason, whose values are shares of the time, and says how to reduce
	// it. It is empty for other quantities.
	Remedy string `json:"remedy,omitempty" bound:"any"`
	// Values has one value for each part of the window, in order.
	Values []float64 `json:"values" bound:"<=$slices,each<=exact"`
}

// Transfer is one transfer with its steps. A transfer is what the transport moves at a time:
// several messages, one, or a part of one.
type Transfer struct {
	Peer PeerID `json:"peer" bound:"any"`
	// Lane names what only one transfer has at a time, such as a slot of a ring.
	Lane string `json:"lane" bound:">=1,<=256"`
	Size int    `json:"size" bound:"<=int64"` // bytes
	// Steps are in the order of time. Each ends where the next one begins, and the last one at End.
	Steps []Step `json:"steps" bound:"<=16"`
	// End is in nanoseconds since 1970 by the clock of the worker's machine.
	End int64 `json:"end_unix_ns" bound:"<=int64"`
}

// Step is one step of a [Transfer].
type Step struct {
	Name  string `json:"name" bound:">=1,<=256"`
	Begin int64  `json:"begin_unix_ns" bound:"<=int64"` // as End
}

// DeviceWorker is implemented by workers of transports that declare [Capabilities.DeviceMemory].
// Its methods block, and are called on the worker's thread, outside measured windows.
type DeviceWorker interface {
	// ReadDevice copies the first len(into) bytes of a payload, at most Event.Size, from device
	// memory; peer and offset come from the event.
	//
	// A payload can be read until the next Poll. After that, valid reports whether the device
	// memory still holds it; if not, into has no meaning.
	ReadDevice(peer PeerID, offset uint64, into []byte) (valid bool, err error)

	// ReserveDevice reserves device memory for payloads of up to size bytes, in slots 1 to slots.
	// It is called at most once, and only with [Capabilities.DeviceSend]. Close of the transport
	// frees the memory.
	ReserveDevice(slots uint16, size int) error
	// WriteDevice copies a payload to a slot. Calls that Post took before keep the bytes that the
	// slot had then. A slot can be posted any number of times, to any peers.
	WriteDevice(slot uint16, payload []byte) error
}

// ProbeKind is what a [Probe] measures.
type ProbeKind string

// The kinds of probes.
const (
	// ProbeMedium measures the medium floor: round trips of one message at a time, with nothing
	// between the threads and the medium.
	ProbeMedium ProbeKind = "medium"
	// ProbeRate measures the rate floor: the time per operation that the medium reaches with
	// InFlight messages under way.
	ProbeRate ProbeKind = "rate"
	// ProbeLibrary measures round trips of the library under the transport, in the library's own
	// language and without the transport. It is a comparison, not a floor.
	ProbeLibrary ProbeKind = "library"
)

// Probe describes one measurement of a [Prober]. Both sides get the same, except for Initiate.
type Probe struct {
	Kind ProbeKind `json:"kind"`
	// Initiate is set on the side that measures; the other side answers.
	Initiate bool `json:"initiate,omitempty"`
	// Duration is about how long to measure.
	Duration time.Duration `json:"duration"`
	// Forth and Back are the payload bytes of a message from and to the initiator. A probe of a
	// medium adds [ProbeHeader] bytes to both.
	Forth int `json:"forth"`
	Back  int `json:"back"`
	// InFlight is how many messages ProbeRate keeps under way.
	InFlight int `json:"in_flight,omitempty"`
}

// ProbeHeader is the length in bytes of the header that probes of a medium add to each payload: a
// transport has to carry the token and the size of a message.
const ProbeHeader = 16

// Prober is implemented by workers that can measure floors: what the medium takes between two
// threads, without harness and protocol.
//
// The runtime itself measures the floors of MediumMemory between ranks on one host, so that they
// are the same for all transports. It asks a Prober for the others.
type Prober interface {
	// Probe takes one measurement against peer. Both sides call it at about the same time while
	// no call is in flight. The side with Initiate set returns the reading, the other a zero
	// Floor. Probe gives up when ctx ends, so a peer that does not take part cannot hang it. While
	// it waits longer than a peer that runs, it sleeps now and then (core/fabric/spin). For a kind
	// that it cannot measure, it returns an error that wraps ErrUnsupported, on both sides and
	// without waiting for the other.
	Probe(ctx context.Context, peer PeerID, probe Probe) (Floor, error)
}

// Floor is the reading of a [Probe].
type Floor struct {
	// Name describes the measurement: "cache-line bounce", "raw UDP ping-pong", ...
	Name string `json:"name" bound:"<=256"`
	// RoundTrip is the median round trip in nanoseconds, for ProbeMedium and ProbeLibrary.
	RoundTrip float64 `json:"round_trip_ns,omitempty" bound:"<=$took"`
	// PerOp is the mean time per operation in nanoseconds, for ProbeRate.
	PerOp float64 `json:"per_op_ns,omitempty" bound:"<=$took"`
	// Samples is the number of round trips or operations behind the reading.
	Samples int `json:"samples" bound:"<=exact,<=$took"`
}

// Microbenchmarker is implemented by drivers that can measure the parts of their medium without
// the transport: the cost of an operation of the device, the kernel or the library.
type Microbenchmarker interface {
	// Microbenchmarks returns the names of the measurements.
	Microbenchmarks() []string
	// Microbenchmark takes the measurements for which wanted returns true, about d each, and
	// calls report with each reading. options have the names of [Info.AllMicroOptions].
	// It blocks until it is done, ctx ends, or report returns an error.
	Microbenchmark(ctx context.Context, options Values, wanted func(name string) bool,
		d time.Duration, report func(Measurement) error) error
}

// OptionReading is the name of an option of microbenchmarks that selects the readings whose names
// begin with its value, so that one reading can be profiled.
const OptionReading = "reading"

// AllMicroOptions returns the options of the driver's microbenchmarks: those of the transport, and
// MicroOptions.
func (i *Info) AllMicroOptions() []Option {
	return append(slices.Clip(i.Options), i.MicroOptions...)
}

// Measurement is one reading of a [Microbenchmarker]. Quantities that it does not measure are 0.
type Measurement struct {
	// Name names the microbenchmark; one with several readings adds what tells them apart,
	// behind slashes: "write/inline".
	Name string `json:"name" bound:">=1,<=256"`
	// Layer names the part of the transport that the reading measures by itself, such as "ring,
	// between processes". The command stack shows it as a layer: one call in flight if the reading
	// has a latency, and several otherwise.
	Layer      string  `json:"layer,omitempty" bound:"<=256"`
	Size       int     `json:"size" bound:"<=exact"`                     // bytes of a message
	Latency    float64 `json:"latency_ns,omitempty" bound:"<=exact"`     // median
	LatencyP99 float64 `json:"latency_p99_ns,omitempty" bound:"<=exact"` // 99th percentile
	Rate       float64 `json:"rate,omitempty" bound:"<=exact"`           // messages per second
	Bandwidth  float64 `json:"bandwidth,omitempty" bound:"<=exact"`      // bytes per second
	Samples    int     `json:"samples" bound:"<=exact"`
	// Floor is the round trip of the bare medium beside the reading, and RateFloor its time per
	// message with many under way.
	Floor     float64 `json:"floor_ns,omitempty" bound:"<=exact"`
	RateFloor float64 `json:"rate_floor_ns,omitempty" bound:"<=exact"`
	// Baseline names the reading of the same size that this one replaces. It has the same
	// quantities, and comes before this one.
	Baseline string `json:"baseline,omitempty" bound:"any"`
	// Witness is the command line of a tool of the field that measures the same, without addresses.
	// If the tool is installed, the host runs it and adds its figures.
	Witness        []string `json:"witness,omitempty" bound:"any"`
	WitnessLatency float64  `json:"witness_latency_ns,omitempty" bound:"<=exact"`
	WitnessRate    float64  `json:"witness_rate,omitempty" bound:"<=exact"`
	// Counters are the hardware events of the plugin's process during the reading, with its warm-up
	// and floor, if the host asked for them; the runtime adds them.
	Counters map[string]uint64 `json:"counters,omitempty" bound:"<=1024,each<=exact"`
	// Note is what a reader must know: what the device refused, if there are no samples.
	Note string `json:"note,omitempty" bound:"any"`
}
