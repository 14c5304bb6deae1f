package record

import "transportbench/core/transport"

const (
	// Slices is the number of equal parts of a window whose operations are counted separately.
	Slices = 20
	// Steps is the number of equal parts of a replay whose response times are recorded separately.
	Steps = 3 * Slices
)

// Report is what one rank recorded in one window.
type Report struct {
	Rank    int            `json:"rank" bound:"=$rank"`
	Clients []ClientReport `json:"clients,omitempty" bound:"=$clients"`
	Daemons []DaemonReport `json:"daemons,omitempty" bound:"=$daemons"`
	Process ProcessReport  `json:"process"`
	// SampleEvery is the latency sampling of the window, or after a warm-up the sampling to use.
	SampleEvery int `json:"sample_every" bound:">=$sampling_min,<=$sampling_max"`
	// Stopped reports that the window was cut short.
	Stopped bool `json:"stopped"`
	// Storm is set for the calling ranks of a storm of connections.
	Storm *StormReport `json:"storm,omitempty" bound:"set=$storm"`
	// Setup is what the rank's setup took. Only the report of its first window has it.
	Setup *RankSetup `json:"setup,omitempty"`
	// Carried is what the kernel counted of the rank's bytes, from before the first call of a
	// measured window until after the last response.
	Carried *Carried `json:"carried,omitempty"`
}

// ClientReport is what one client recorded. The counts cover the window; ops that were in flight
// at its end count in Drained only.
type ClientReport struct {
	ElapsedNS uint64 `json:"elapsed_ns" bound:">=$began,<=$took"`
	Reads     uint64 `json:"reads" bound:"<=elapsed_ns"`
	// Writes counts writes, inserts, and read-modify-writes, each as one operation.
	Writes uint64 `json:"writes" bound:"<=elapsed_ns-reads"`
	// Lookups counts reads of an entry's header.
	Lookups uint64 `json:"lookups,omitempty" bound:"<=elapsed_ns-reads-writes"`
	// PayloadBytes counts the bytes of values read and written, without headers.
	PayloadBytes uint64 `json:"payload_bytes" bound:"<=exact"`
	Drained      uint64 `json:"drained" bound:"<=$in_flight"`
	// Issued counts the requests that were posted in the window, up to the end of the drain.
	Issued uint64 `json:"issued,omitempty" bound:">=reads+writes+lookups,<=$took"`
	// Lost counts calls that were not answered until the end of the drain.
	Lost uint64 `json:"lost" bound:"<=$in_flight"`
	// VerifiedKeys counts the ops whose token, key and version were right, and VerifiedSums the
	// responses whose checksum was checked too.
	VerifiedKeys uint64 `json:"verified_keys" bound:"<=reads+writes+lookups"`
	VerifiedSums uint64 `json:"verified_checksums" bound:"<=$took"`
	// Failures counts wrong responses by failure.
	Failures map[string]uint64 `json:"failures,omitempty" bound:"<=1024,each<=$took"`
	// ChecksummedBytes counts the bytes of values of which the client computed a checksum: of
	// those that it wrote and of those that it verified.
	ChecksummedBytes uint64 `json:"checksummed_bytes,omitempty" bound:"<=exact"`
	// Starved counts the requests of a trace that had not been read when they were due. Others were
	// sent in their place.
	Starved uint64 `json:"starved,omitempty" bound:"<=$took"`
	// BackPressure counts posts that took only part of the ops.
	BackPressure uint64 `json:"back_pressure" bound:"<=$took"`
	Polls        uint64 `json:"polls" bound:"<=$took"`
	EmptyPolls   uint64 `json:"empty_polls" bound:"<=polls"`
	// Latency is the service time of the sampled ops in nanoseconds, as an HDR histogram in V2
	// compressed form, base64. ReadLatency and WriteLatency have its reads and writes.
	Latency      string  `json:"latency" bound:"records=samples"`
	ReadLatency  string  `json:"read_latency" bound:"records<=samples"`
	WriteLatency string  `json:"write_latency" bound:"records<=samples-read_latency"`
	Samples      uint64  `json:"samples" bound:"<=reads+writes+lookups"`
	MeanNS       float64 `json:"mean_ns" bound:"<=$took"` // exact mean of the samples
	// InFlightNS is the number of calls in flight, integrated over the window. Over the operations,
	// and half of Drained, it is the exact mean of their service times, whatever was sampled.
	InFlightNS uint64 `json:"in_flight_ns,omitempty" bound:"<=exact,<=$in_flight*elapsed_ns+$in_flight"`
	// BusyNS is the time of the iterations that found responses, extrapolated from sampled ones.
	BusyNS uint64 `json:"busy_ns,omitempty" bound:"<=exact"`
	// Local and Remote are the samples of requests to the client's own rank and to others, in a
	// mesh.
	Local  *TimingReport `json:"local,omitempty" bound:"set=$mesh"`
	Remote *TimingReport `json:"remote,omitempty" bound:"set=$mesh"`
	// Stages are the parts of calls, by DirectStages, or in mesh-proxied those of remote requests,
	// by StageNames. They are sampled less often than latencies. If the daemon shares no memory
	// with the client, NoStages has the reason why there are none.
	Stages   map[string]TimingReport `json:"stages,omitempty" bound:"key=$stages"`
	NoStages string                  `json:"no_stages,omitempty" bound:"any"`
	// StageNS is the cost of the stamps in a call whose stages are taken. It has been subtracted
	// from the stages.
	StageNS float64 `json:"stage_cost_ns,omitempty" bound:"<=$took"`
	// Peers are the operations by the rank that was called, in the order of ranks, for loads with a
	// pattern of traffic.
	Peers []PeerReport `json:"peers,omitempty" bound:"=$peers,sum=reads+writes+lookups"`
	// Kinds are the operations by [CallKind], if the plan asks for them.
	Kinds []OperationReport `json:"kinds,omitempty" bound:"=0|$kinds,sum=reads+writes+lookups"`
	// Operations are the latencies by operation, for loads with a mix or a pattern.
	Operations map[string]OperationReport `json:"operations,omitempty" bound:"key=$operations,each<=reads+writes+lookups"`
	// Iterations are the times of whole iterations, from the first call to the last response. All
	// are timed.
	Iterations *TimingReport `json:"iterations,omitempty" bound:"set=$iterations"`
	// FirstParts are the times from the first call of an iteration to its first response. Results
	// before version 0.9.0 have none.
	FirstParts *TimingReport `json:"first_parts,omitempty"`
	// Open is set for an open-loop load.
	Open *OpenReport `json:"open_loop,omitempty" bound:"set=$open"`
	// Slices are the operations completed in each slice of the window, to the nearest sampled
	// operation.
	Slices []uint64 `json:"slices,omitempty" bound:"=0|$slices,sum<=reads+writes+lookups"`
	// Silences are the longest times in which the client polled and no response came, if they are
	// far longer than its calls take.
	Silences []Gap        `json:"silences,omitempty" bound:"<=64"`
	Thread   ThreadReport `json:"thread"`
	// Transport are the worker's counters over the window.
	Transport []transport.Stat `json:"transport,omitempty" bound:"<=1024,once"`
	// Series are the worker's time series over the slices of the window.
	Series []transport.Series `json:"series,omitempty" bound:"<=1024"`
	// Trace are the steps of the worker's transfers, if the window asks for them. Results have
	// none.
	Trace []transport.Transfer `json:"trace,omitempty" bound:"<=$trace"`
}

// Ops returns the number of operations that the client completed in the window.
func (c *ClientReport) Ops() uint64 { return c.Reads + c.Writes + c.Lookups }

// OperationReport has the figures of one operation.
type OperationReport struct {
	Count   uint64       `json:"count" bound:"<=$took"` // completed in the window
	Latency TimingReport `json:"latency" bound:"samples<=count"`
}

// PeerReport has the operations of a client that one rank served.
type PeerReport struct {
	Rank    int          `json:"rank" bound:"any"`
	Count   uint64       `json:"count" bound:"<=$took"` // completed in the window
	Latency TimingReport `json:"latency" bound:"samples<=count"`
}

// StormReport has the connections that a rank made and dropped in the window besides its load.
type StormReport struct {
	Due uint64 `json:"due" bound:"<=$took"`
	// made, used for one call, and closed without an error
	Connections uint64 `json:"connections" bound:"<=due"`
	Failed      uint64 `json:"failed,omitempty" bound:"<=due-connections"`
	Error       string `json:"error,omitempty" bound:"any"` // of the first that failed
	// Connect is the time from the opening of both sides to the response of the one call, and Close
	// the time to close both.
	Connect TimingReport `json:"connect" bound:"samples=connections"`
	Close   TimingReport `json:"close" bound:"samples=connections"`
	// Leaked is by how many descriptors of the process the storm left more than there were.
	Leaked int `json:"leaked_descriptors,omitempty" bound:"<=1048576"`
}

// TimingReport has the samples of one duration.
type TimingReport struct {
	// Histogram is in nanoseconds, in the HDR V2 compressed form, base64.
	Histogram string  `json:"histogram" bound:"records=samples"`
	MeanNS    float64 `json:"mean_ns" bound:"<=$took"` // exact mean of the samples
	Samples   uint64  `json:"samples" bound:"<=$took"`
}

// OpenReport has the figures of an open-loop client other than service times.
type OpenReport struct {
	// Scheduled counts the operations that were due in the window. The client issued those for
	// which a call was free.
	Scheduled uint64 `json:"scheduled" bound:"<=$scheduled"`
	// Response is the time from the intended start to the end of an operation.
	Response TimingReport `json:"response"`
	// Steps are the response times in each step of the window, for a replay at the times of its
	// trace, with histograms of little space ([Histogram.Outline]). With many clients there are
	// none.
	Steps []TimingReport `json:"steps,omitempty" bound:"=0|$steps"`
	// Lag is the time from the moment at which an operation was due and a call was free to the
	// start of the operation.
	Lag TimingReport `json:"lag"`
}

// StageNames are the stages of a remote request in mesh-proxied, in order. They add up to its
// service time.
var StageNames = []string{"client_to_daemon", "daemon_to_flush", "flush_to_completion",
	"completion_to_client"}

// DirectStages are the stages of a call of a client to a daemon over the transport, in order. They
// add up to its service time.
var DirectStages = []string{StageClient, StageRequest, StageServe, StageFlush, StageResponse,
	StageReturn}

// The stages of a call over the transport.
const (
	// StageClient is the client's harness: from the poll that freed the call to the post of its
	// request.
	StageClient = "client"
	// StageRequest is the way of the request: from its post to the end of the poll that returned
	// it to the daemon. It includes the wait for that poll.
	StageRequest = "request"
	// StageServe is from the end of that poll to the reply, and StageFlush from there to the post
	// of the reply.
	StageServe = "serve"
	StageFlush = "flush"
	// StageResponse is the way of the response: from its post to the end of the poll that returned
	// it to the client, without the part in StageReturn.
	StageResponse = "response"
	// StageReturn is the part of the response's way for which the client handled other responses
	// and did not poll.
	StageReturn = "client_return"
)

// PhaseNames are the phases of a daemon's loop, in order. Only mesh-proxied has scan, and only
// daemons that delegate have delegate.
var PhaseNames = []string{"poll", "serve", "scan", "delegate", "flush"}

// The keys of DaemonReport.Phases other than PhaseNames.
const (
	// PhaseLoop is a whole iteration of the loop without the wait at its end.
	PhaseLoop = "loop"
	// PhaseTurnaround is the time from the end of the poll that returned requests to the
	// doorbell for their replies.
	PhaseTurnaround = "turnaround"
)

// DaemonReport is what one daemon recorded in the window.
type DaemonReport struct {
	ElapsedNS  uint64 `json:"elapsed_ns" bound:">=$began,<=$took"`
	Loops      uint64 `json:"loops" bound:"<=elapsed_ns"`
	EmptyLoops uint64 `json:"empty_loops" bound:"<=loops"`
	Requests   uint64 `json:"requests" bound:"<=elapsed_ns"`
	Gets       uint64 `json:"gets" bound:"<=requests"`
	Puts       uint64 `json:"puts" bound:"<=requests-gets"`
	Lookups    uint64 `json:"lookups,omitempty" bound:"<=requests"`
	Rejected   uint64 `json:"rejected" bound:"<=requests"` // requests that could not be served
	// Served counts the requests from StateReady to StateStopped. Over all daemons, they are those
	// that the clients Issued.
	Served uint64 `json:"served,omitempty" bound:"<=$took"`
	// StoredBytes counts the bytes of values that were copied into the store, and
	// ChecksummedBytes those whose checksum was verified before.
	StoredBytes      uint64 `json:"stored_bytes,omitempty" bound:"<=exact,<=$value_size*requests"`
	ChecksummedBytes uint64 `json:"checksummed_bytes,omitempty" bound:"<=exact"`
	Flushes          uint64 `json:"flushes" bound:"<=$took"`
	BackPressure     uint64 `json:"back_pressure" bound:"<=$took"`
	// Proxy is set in mesh-proxied.
	Proxy *ProxyReport `json:"proxy,omitempty" bound:"set=$proxied"`
	// Delegation is set if daemons delegate.
	Delegation *DelegationReport `json:"delegation,omitempty" bound:"set=$delegated"`
	// Storage is set if a storage delays values.
	Storage *StorageReport `json:"storage,omitempty" bound:"set=$stored"`
	// Device is set if payloads stay in device memory.
	Device *DeviceReport `json:"device,omitempty"`
	// Phases are sampled times of the loop, by PhaseNames, PhaseLoop and PhaseTurnaround.
	Phases map[string]TimingReport `json:"phases,omitempty" bound:"key=$phases"`
	// BusyNS is the time of the iterations that found work, extrapolated from sampled ones.
	BusyNS uint64 `json:"busy_ns,omitempty" bound:"<=exact"`
	// PhaseEvery is the sampling: one iteration in PhaseEvery is timed. PhaseNS is the cost of
	// timing one.
	PhaseEvery int          `json:"phase_every,omitempty" bound:"<=1048576"`
	PhaseNS    float64      `json:"phase_cost_ns,omitempty" bound:"<=$took"`
	Thread     ThreadReport `json:"thread"`
	// Transport are the worker's counters over the window.
	Transport []transport.Stat `json:"transport,omitempty" bound:"<=1024,once"`
	// Series are the worker's time series over the slices of the window.
	Series []transport.Series `json:"series,omitempty" bound:"<=1024"`
	// Trace are the steps of the worker's transfers, if the window asks for them. Results have
	// none.
	Trace []transport.Transfer `json:"trace,omitempty" bound:"<=$trace"`
}

// ProxyReport counts the work of a daemon of mesh-proxied for its own rank's clients. Requests,
// Gets and Puts of the DaemonReport also include the requests of other ranks.
type ProxyReport struct {
	FromClients uint64 `json:"from_clients" bound:"<=$took"` // requests of the rank's own clients
	Local       uint64 `json:"local" bound:"<=$took"`        // of FromClients, served here
	Remote      uint64 `json:"remote" bound:"<=$took"`       // of FromClients, forwarded
	Responses   uint64 `json:"responses" bound:"<=$took"`    // to forwarded requests
	Incoming    uint64 `json:"incoming" bound:"<=$took"`     // requests of other ranks
	// Held counts the iterations that did not poll the clients, because the transport had no
	// room for their earlier requests.
	Held uint64 `json:"held" bound:"<=$took"`
}

// DelegationReport counts the requests that the daemons of a rank pass on to the one that owns the
// key. Requests of the DaemonReport includes Served and not Sent.
type DelegationReport struct {
	Sent   uint64 `json:"sent" bound:"<=$took"`   // passed on to other daemons
	Served uint64 `json:"served" bound:"<=$took"` // for other daemons
}

// DeviceReport counts the written values that stayed in device memory.
type DeviceReport struct {
	Values uint64 `json:"values" bound:"<=$took"` // left there in the window
	// Verified and Wrong count the last values, which were copied to the host after the window
	// if they were still in device memory. They include values that arrived in the drain.
	Verified uint64 `json:"verified" bound:"<=$took"`
	Wrong    uint64 `json:"wrong" bound:"<=$took"`
}

// ThreadReport has the kernel's figures for one polling thread in the window.
type ThreadReport struct {
	// StartNS is the start of the window on the kernel's monotonic clock, which all processes of a
	// host share, and MonotonicNS the window's length by that clock. ClockNS is the length by the
	// clock of the measurement, between the same two moments.
	StartNS     uint64 `json:"start_ns,omitempty" bound:"<=int64"`
	MonotonicNS uint64 `json:"monotonic_ns,omitempty" bound:"<=$took"`
	ClockNS     uint64 `json:"clock_ns,omitempty" bound:"<=$took"`
	// Sharing is how many clients the OS thread served in turn, if several. The counts of the
	// kernel below are then equal parts of the thread's.
	Sharing     int    `json:"sharing,omitempty" bound:"<=$clients"`
	CPUNS       uint64 `json:"cpu_ns" bound:"<=$took+$tick"`
	SystemNS    uint64 `json:"system_ns,omitempty" bound:"<=$took+$tick"` // of CPUNS, in the kernel
	Voluntary   uint64 `json:"voluntary_switches" bound:"<=$took"`
	Involuntary uint64 `json:"involuntary_switches" bound:"<=$took"`
	// MinorFaults are page faults without I/O and MajorFaults those with I/O. Migrations are
	// moves to another processor, 0 if the kernel does not report them.
	MinorFaults uint64 `json:"minor_faults,omitempty" bound:"<=$took"`
	MajorFaults uint64 `json:"major_faults,omitempty" bound:"<=$took"`
	Migrations  uint64 `json:"migrations,omitempty" bound:"<=$took"`
	// Gaps are the longest gaps between two iterations of the loop in the window, longest first.
	// GapCount and GapNS count all gaps and their time. A gap has a cause, such as a context
	// switch, or is as long as GapLimitNS, which is far longer than the thread's working
	// iterations. Time that a thread gives away by itself is not a gap.
	Gaps       []Gap  `json:"gaps,omitempty" bound:"<=64"`
	GapCount   uint64 `json:"gap_count,omitempty" bound:"<=$took"`
	GapNS      uint64 `json:"gap_ns,omitempty" bound:"<=$took"`
	GapLimitNS uint64 `json:"gap_limit_ns,omitempty" bound:"<=exact"`
	// Counters are hardware counters by name; if there are none, ProcessReport.NoCounters has the
	// reason.
	Counters map[string]uint64 `json:"counters,omitempty" bound:"<=1024,each<=exact"`
}

// Polling is what one polling thread recorded, of a client or of a daemon.
type Polling struct {
	Thread
	*ThreadReport
	Ops       uint64 // completed by the client, or requests at the daemon
	ElapsedNS uint64
	Transport []transport.Stat
	Trace     *[]transport.Transfer
}

// Threads returns the polling threads of reports, by rank, daemons first.
func Threads(reports []Report) (list []Polling) {
	for i := range reports {
		r := &reports[i]
		for j := range r.Daemons {
			d := &r.Daemons[j]
			list = append(list, Polling{Thread{Rank: r.Rank, Daemon: j, Client: -1}, &d.Thread,
				d.Requests, d.ElapsedNS, d.Transport, &d.Trace})
		}
		for j := range r.Clients {
			c := &r.Clients[j]
			list = append(list, Polling{Thread{Rank: r.Rank, Daemon: -1, Client: j}, &c.Thread,
				c.Ops(), c.ElapsedNS, c.Transport, &c.Trace})
		}
	}
	return list
}

// Gap is a time for which a loop made no progress. The counts are what the kernel and the Go
// runtime counted for the thread, or for its process, since the gap before or the window's start.
type Gap struct {
	AtNS  uint64 `json:"at_ns" bound:"<=int64"` // its start on the kernel's monotonic clock
	ForNS uint64 `json:"for_ns" bound:"<=$took"`
	// Voluntary and Involuntary are context switches, MinorFaults and MajorFaults page faults of
	// the thread; Collections are GC cycles of the process.
	Voluntary   uint64 `json:"voluntary_switches,omitempty" bound:"<=exact"`
	Involuntary uint64 `json:"involuntary_switches,omitempty" bound:"<=exact"`
	MinorFaults uint64 `json:"minor_faults,omitempty" bound:"<=exact"`
	MajorFaults uint64 `json:"major_faults,omitempty" bound:"<=exact"`
	Collections uint64 `json:"collections,omitempty" bound:"<=exact"`
	// Parked marks a gap at the end of a wait: the wait was over, and the thread got no processor.
	Parked bool `json:"parked,omitempty"`
}

// Software returns the events that the kernel counts on every machine, by name.
func (t *ThreadReport) Software() map[string]uint64 {
	return map[string]uint64{
		"voluntary_switches": t.Voluntary, "involuntary_switches": t.Involuntary,
		"migrations":   t.Migrations,
		"minor_faults": t.MinorFaults, "major_faults": t.MajorFaults,
	}
}

// Busy returns how many of the window's elapsed nanoseconds the thread was on a processor, or
// elapsedNS if the kernel does not report it. When threads share processors, the cost of
// measuring an op is a share of this time and not of the elapsed time.
func (t *ThreadReport) Busy(elapsedNS uint64) uint64 {
	if t.CPUNS == 0 {
		return elapsedNS
	}
	return min(t.CPUNS, elapsedNS)
}

// StorageReport has the figures of the storage behind a daemon's store.
type StorageReport struct {
	Lanes  int    `json:"lanes,omitempty" bound:"=$lanes"` // 0 is no limit
	Reads  uint64 `json:"reads" bound:"<=$took"`           // served in the window
	Writes uint64 `json:"writes" bound:"<=$took"`
	// WriteLanes are those of writes alone, if there are such. Lookups were delayed.
	WriteLanes int    `json:"write_lanes,omitempty" bound:"=$write_lanes"`
	Lookups    uint64 `json:"lookups,omitempty" bound:"<=$took"`
	// BusyNS is the time of all values, and WaitNS the time for which they waited for a lane. Both
	// are of what was served in the window, lookups included.
	BusyNS uint64 `json:"busy_ns" bound:"<=exact"`
	WaitNS uint64 `json:"wait_ns" bound:"<=exact"`
	// MaxQueued is the largest number of values that waited at a time.
	MaxQueued int `json:"most_queued" bound:"<=2147483648"`
}

// ProcessReport has the figures of the whole process in the window.
type ProcessReport struct {
	Collections uint64 `json:"collections" bound:"<=$took"` // GC cycles
	// CPUNS is the processor time of all threads of the process, helpers included, and SystemNS
	// the part of it in the kernel.
	CPUNS    uint64 `json:"cpu_ns,omitempty" bound:"<=exact,<=16384*$took+16384*$tick"`
	SystemNS uint64 `json:"system_ns,omitempty" bound:"<=exact,<=16384*$took+16384*$tick"`
	PeakRSS  uint64 `json:"peak_rss_bytes" bound:"<=exact"`
	Clock    string `json:"clock" bound:"=tsc|cntvct|monotonic"` // "tsc", "cntvct" or "monotonic"
	// Threads is the number of threads of the process at the end of the window, those of the Go
	// runtime included. BusyThreads are those that were on a processor for over 1% of the window:
	// the polling threads and the helpers of the transport.
	Threads     int `json:"threads,omitempty" bound:"<=4194304"`
	BusyThreads int `json:"busy_threads,omitempty" bound:"<=4194304"`
	// ClockStepNS is the most frequent difference between two successive clock readings that
	// differ, which is the resolution of every latency.
	ClockStepNS float64 `json:"clock_step_ns,omitempty" bound:"<=1000000000"`
	// ClockCostNS is the time of one clock reading. A client's loop reads the clock once in each
	// iteration that found responses, so all latencies include one reading.
	ClockCostNS float64 `json:"clock_cost_ns,omitempty" bound:"<=1000000000"`
	// NoCounters is the reason why there are no hardware counters.
	NoCounters string `json:"no_counters,omitempty" bound:"any"`
}

// Overhead is the cost of the harness.
type Overhead struct {
	// PerOpNS is the time per operation of a client's loop and a daemon's loop against a transport
	// that completes at once: ClientNS plus DaemonNS.
	PerOpNS  float64 `json:"per_op_ns" bound:"<=$took"`
	ClientNS float64 `json:"client_ns,omitempty" bound:"<=$took"`
	DaemonNS float64 `json:"daemon_ns,omitempty" bound:"<=$took"`
	// VerifyNS is the part of PerOpNS that verifies checksums, at the configured value size and
	// sampling.
	VerifyNS float64 `json:"verify_ns" bound:"<=$took"`
	// StampNS is the cost of timing one op.
	StampNS float64 `json:"stamp_ns" bound:"<=$took"`
}
