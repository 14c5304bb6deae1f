package record

import "transportbench/core/transport"

// Slices is the number of equal parts of a window that are counted apart.
const Slices = 20

// Report is what one rank recorded in one phase.
type Report struct {
	Rank    int            `json:"rank"`
	Clients []ClientReport `json:"clients,omitempty"`
	Daemons []DaemonReport `json:"daemons,omitempty"`
	Process ProcessReport  `json:"process"`
	// SampleEvery is the latency sampling that was in force; after a warm-up,
	// the one that it advises.
	SampleEvery int `json:"sample_every"`
	// Stopped says that Stop or the end of the context cut the phase short.
	Stopped bool `json:"stopped"`
}

// ClientReport is one client thread. The counts cover the window; ops that
// were still in flight at its end are in Drained alone.
type ClientReport struct {
	ElapsedNS uint64 `json:"elapsed_ns"`
	Reads     uint64 `json:"reads"`
	// Writes are all operations that send a value: writes, inserts, and
	// read-modify-writes, which are one operation each.
	Writes uint64 `json:"writes"`
	// Lookups ask for an entry's header alone.
	Lookups uint64 `json:"lookups,omitempty"`
	// PayloadBytes counts values read and written, without headers.
	PayloadBytes uint64 `json:"payload_bytes"`
	Drained      uint64 `json:"drained"`
	// Lost counts calls without an answer at the end of the drain.
	Lost uint64 `json:"lost"`
	// VerifiedKeys counts responses checked for token, key and version, and
	// VerifiedSums those checked for their checksum too.
	VerifiedKeys uint64 `json:"verified_keys"`
	VerifiedSums uint64 `json:"verified_checksums"`
	// Failures are responses that were wrong, by what was wrong with them.
	Failures map[string]uint64 `json:"failures,omitempty"`
	// BackPressure counts posts that took fewer ops than offered.
	BackPressure uint64 `json:"back_pressure"`
	Polls        uint64 `json:"polls"`
	EmptyPolls   uint64 `json:"empty_polls"`
	// Latency is the service time in nanoseconds of the sampled ops, as an
	// HDR histogram in V2 compressed form, base64; ReadLatency and
	// WriteLatency are its two parts.
	Latency      string  `json:"latency"`
	ReadLatency  string  `json:"read_latency"`
	WriteLatency string  `json:"write_latency"`
	Samples      uint64  `json:"samples"`
	MeanNS       float64 `json:"mean_ns"` // exact mean of the samples
	// Local and Remote are the parts of the samples that went to the client's
	// own rank and to others; meshes have them.
	Local  *TimingReport `json:"local,omitempty"`
	Remote *TimingReport `json:"remote,omitempty"`
	// Stages take a remote request of mesh-proxied apart, by name; see
	// StageNames. They are sampled more rarely than latencies.
	Stages map[string]TimingReport `json:"stages,omitempty"`
	// Operations are the latencies by operation, where there are others than
	// reads and writes, sampled like all latencies.
	Operations map[string]OperationReport `json:"operations,omitempty"`
	// Iterations are the times of whole cycles of a pattern, from the first
	// call to the last response; every one is timed.
	Iterations *TimingReport `json:"iterations,omitempty"`
	// Open is present for an open-loop load.
	Open *OpenReport `json:"open_loop,omitempty"`
	// Slices are the operations completed in each of as many equal parts of
	// the window, known to the nearest sampled one.
	Slices    []uint64         `json:"slices,omitempty"`
	Thread    ThreadReport     `json:"thread"`
	Transport []transport.Stat `json:"transport,omitempty"`
	// Series are the worker's own, over as many parts of the window.
	Series []transport.Series `json:"series,omitempty"`
}

// Ops is what the client completed in the window.
func (c *ClientReport) Ops() uint64 { return c.Reads + c.Writes + c.Lookups }

// OperationReport is one kind of operation.
type OperationReport struct {
	Count   uint64       `json:"count"` // completed in the window
	Latency TimingReport `json:"latency"`
}

// TimingReport is a time that was sampled.
type TimingReport struct {
	// Histogram is in nanoseconds, as HDR's V2 compressed form in base64.
	Histogram string  `json:"histogram"`
	MeanNS    float64 `json:"mean_ns"` // exact mean of the samples
	Samples   uint64  `json:"samples"`
}

// OpenReport is what an open-loop client has besides service times.
type OpenReport struct {
	// Scheduled counts the operations that were due in the window. The client
	// issued those for which it had calls in flight left.
	Scheduled uint64 `json:"scheduled"`
	// Response is from the intended start to the end of an operation.
	Response TimingReport `json:"response"`
	// Lag is how late an operation started that could have: after it was due
	// and a call was free.
	Lag TimingReport `json:"lag"`
}

// StageNames are the stages of a remote request in mesh-proxied, in order. They
// add up to its service time.
var StageNames = []string{"client_to_daemon", "daemon_to_flush", "flush_to_completion", "completion_to_client"}

// PhaseNames are the phases of a daemon's loop, in order; scan is that of
// mesh-proxied.
var PhaseNames = []string{"poll", "serve", "scan", "flush"}

// What DaemonReport.Phases has besides PhaseNames.
const (
	// PhaseLoop is a whole turn of the loop without its rest.
	PhaseLoop = "loop"
	// PhaseTurnaround is from the poll that brought requests of other ranks or
	// clients to the doorbell for their replies.
	PhaseTurnaround = "turnaround"
)

// DaemonReport is one daemon thread over the window.
type DaemonReport struct {
	ElapsedNS    uint64 `json:"elapsed_ns"`
	Loops        uint64 `json:"loops"`
	EmptyLoops   uint64 `json:"empty_loops"`
	Requests     uint64 `json:"requests"`
	Gets         uint64 `json:"gets"`
	Puts         uint64 `json:"puts"`
	Lookups      uint64 `json:"lookups,omitempty"`
	Rejected     uint64 `json:"rejected"` // requests that could not be served
	Flushes      uint64 `json:"flushes"`
	BackPressure uint64 `json:"back_pressure"`
	// Proxy is present in mesh-proxied.
	Proxy *ProxyReport `json:"proxy,omitempty"`
	// Device is present where payloads stay in device memory.
	Device *DeviceReport `json:"device,omitempty"`
	// Phases are sampled times of the loop: PhaseNames, PhaseLoop and
	// PhaseTurnaround.
	Phases map[string]TimingReport `json:"phases,omitempty"`
	// PhaseEvery is how many loops pass for each that is timed, and PhaseNS
	// what timing one costs.
	PhaseEvery int              `json:"phase_every,omitempty"`
	PhaseNS    float64          `json:"phase_cost_ns,omitempty"`
	Thread     ThreadReport     `json:"thread"`
	Transport  []transport.Stat `json:"transport,omitempty"`
	// Series are the worker's own, over as many equal parts of the window as a client
	// has slices.
	Series []transport.Series `json:"series,omitempty"`
}

// ProxyReport is what a daemon of mesh-proxied did for its own rank's clients.
// Requests, Gets and Puts of the DaemonReport are those that it served, whoever
// asked.
type ProxyReport struct {
	FromClients uint64 `json:"from_clients"` // requests of the rank's own clients
	Local       uint64 `json:"local"`        // of them, served here
	Remote      uint64 `json:"remote"`       // of them, forwarded
	Responses   uint64 `json:"responses"`    // to what was forwarded
	Incoming    uint64 `json:"incoming"`     // requests of other ranks
	// Held counts the loops that left clients waiting because the transport had
	// no room for what they had asked before.
	Held uint64 `json:"held"`
}

// DeviceReport is what became of written values that stayed in device memory.
type DeviceReport struct {
	Values uint64 `json:"values"` // left there in the window
	// Verified and Wrong count the last of them, as many as were still there, which
	// were copied back after the window; those that came in the drain are among them.
	Verified uint64 `json:"verified"`
	Wrong    uint64 `json:"wrong"`
}

// ThreadReport is what the kernel says of one polling thread over the window.
type ThreadReport struct {
	CPUNS       uint64 `json:"cpu_ns"`
	Voluntary   uint64 `json:"voluntary_switches"`
	Involuntary uint64 `json:"involuntary_switches"`
	// MinorFaults are pages that the thread touched first and that were in
	// memory, MajorFaults those that had to be read, and Migrations its moves to
	// another processor, 0 where the kernel does not tell.
	MinorFaults uint64 `json:"minor_faults,omitempty"`
	MajorFaults uint64 `json:"major_faults,omitempty"`
	Migrations  uint64 `json:"migrations,omitempty"`
	// Counters are hardware counters by name; empty with a reason in
	// ProcessReport.NoCounters.
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// Software are the events that the kernel counts on every machine, by name.
func (t *ThreadReport) Software() map[string]uint64 {
	return map[string]uint64{
		"voluntary_switches": t.Voluntary, "involuntary_switches": t.Involuntary, "migrations": t.Migrations,
		"minor_faults": t.MinorFaults, "major_faults": t.MajorFaults,
	}
}

// Busy returns how long the thread was on a processor in a window that lasted
// so long, both in nanoseconds; all of it where the kernel does not say. Where
// threads share processors, what one of them spends on being measured is a share
// of that: all the time, it is somebody's turn.
func (t *ThreadReport) Busy(elapsedNS uint64) uint64 {
	if t.CPUNS == 0 {
		return elapsedNS
	}
	return min(t.CPUNS, elapsedNS)
}

// ProcessReport is what concerns the whole process over the window.
type ProcessReport struct {
	Collections uint64 `json:"collections"` // GC cycles
	PeakRSS     uint64 `json:"peak_rss_bytes"`
	Clock       string `json:"clock"` // "tsc", "cntvct" or "monotonic"
	// ClockStepNS is the least difference between two readings of the clock:
	// no latency is known better than that.
	ClockStepNS float64 `json:"clock_step_ns,omitempty"`
	// ClockCostNS is what one reading takes. It has been taken out of the
	// latencies, since only ops that are timed have it. 0 without clients.
	ClockCostNS float64 `json:"clock_cost_ns,omitempty"`
	// NoCounters says why there are no hardware counters.
	NoCounters string `json:"no_counters,omitempty"`
}

// Overhead is what the harness itself costs.
type Overhead struct {
	// PerOpNS is the client loop against a transport that completes at once.
	PerOpNS float64 `json:"per_op_ns"`
	// VerifyNS is the part of it that verifies checksums, at the configured
	// value size and sampling.
	VerifyNS float64 `json:"verify_ns"`
	// StampNS is one reading of the clock and one entry in the histogram.
	StampNS float64 `json:"stamp_ns"`
}
