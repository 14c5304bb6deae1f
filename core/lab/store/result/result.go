package result

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/base/replay"
	"transportbench/core/transport"
)

// SchemaVersion is the version that this package writes.
const SchemaVersion = "2.2.0"

// KindRun is the kind of a result of one transport under one configuration.
const KindRun = "run"

// KindCalibration is the kind of a calibration of a machine, which is no result: see package
// calibrate.
const KindCalibration = "calibration"

// KindReproduction is the kind of a comparison of runs with a document, which is no result: see
// package reproduce.
const KindReproduction = "reproduction"

// KindProfile is the kind of what perf saw of a run; see package perf. Its field "readings" is a
// set.
const KindProfile = "c2c"

// Result is one run.
type Result struct {
	SchemaVersion string `json:"schema_version" jsonschema:"pattern=^2\\.[0-9]+\\.[0-9]+$"`
	Kind          string `json:"kind" jsonschema:"enum=run"`
	// MigratedFrom is the version in which an older version wrote the result; empty if this one
	// did.
	MigratedFrom string `json:"migrated_from,omitempty"`
	// ID is 128 random bits in hex.
	ID string `json:"id" jsonschema:"pattern=^[0-9a-f]{32}$"`
	// StartedAt is in UTC.
	StartedAt   time.Time           `json:"started_at"`
	Argv        []string            `json:"argv"`
	Tool        Tool                `json:"tool"`
	Plugin      Plugin              `json:"plugin"`
	Config      config.Config       `json:"config"`
	Environment machine.Environment `json:"environment"`
	// ImpairedBy is the mechanism of the network that Config asks for.
	ImpairedBy Mechanism `json:"impaired_by,omitempty" jsonschema:"enum=netem,enum=relay,enum=imitated"`
	// Hosts are the hosts of the ranks, if these were not started on the host of the command.
	// Environment is then that of the first.
	Hosts []Host `json:"hosts,omitempty"`
	// Placement and Setup are those of the first launch.
	Placement []Placement `json:"placement"`
	Setup     Setup       `json:"setup"`
	// Launches are the starts of the ranks, by number. Each measured a part of the repeats.
	Launches []Launch `json:"launches,omitempty"`
	// Overhead is the cost of the harness: the medians over the repeats.
	Overhead record.Overhead `json:"overhead"`
	Repeats  []Repeat        `json:"repeats"`
	// Witness is set if a reference tool was to run beside the windows.
	Witness *Witness `json:"witness,omitempty"`
	// Capacity is set if the rate of an open loop is a share of it.
	Capacity *Capacity `json:"capacity,omitempty"`
	// Replay is the part of a trace that Config replays.
	Replay *replay.Part `json:"replay,omitempty"`
	// Summary has every metric that any repeat has a sample of, and those that are measured once
	// per run.
	Summary map[string]Metric `json:"summary"`
	// Pooled has the percentiles of an open loop's response times over all windows, by metric.
	Pooled map[string]Pooled `json:"pooled,omitempty"`
	Checks []Finding         `json:"checks"`
	// Incomplete is set if the run was cut short. All repeats in Repeats are complete.
	Incomplete       bool   `json:"incomplete"`
	IncompleteReason string `json:"incomplete_reason,omitempty"`
	// FailedRepeat is the repeat in which a rank failed, as far as the other ranks recorded it, and
	// Failure describes that rank. Neither counts in the summary.
	FailedRepeat *Repeat  `json:"failed_repeat,omitempty"`
	Failure      *Failure `json:"failure,omitempty"`
}

// Capacity is the throughput that a rate is a share of. A sweep measures it as the throughput of
// the same configuration at [config.RateMax].
type Capacity struct {
	// Value is the capacity in op/s: the lower end of Throughput's interval, which most launches
	// reach. With too few windows for an interval it is their median if the others were in faster
	// states of the machine, else the lowest throughput.
	Value float64 `json:"value"`
	// Share is the load as a share of Value, and Rate in op/s.
	Share float64 `json:"share"`
	Rate  float64 `json:"rate"`
	// Throughput is the throughput at that rate of the windows in State.
	Throughput Metric `json:"throughput"`
	// State is the slowest state of the machine that two windows of this capacity were in, or one
	// if no state has two. It is absent if the sweep's capacities show fewer than two states.
	State string `json:"state,omitempty"`
	// Windows are all windows at that rate, mixed ones included.
	Windows []Window `json:"windows,omitempty"`
}

// FormatShare returns a share in percent, as a sweep's file has it: "70%".
func FormatShare(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e8)/1e6, 'f', -1, 64) + "%"
}

// Witness is a reference tool that ran beside the windows.
type Witness struct {
	Tool    string `json:"tool,omitempty"`
	Version string `json:"version,omitempty"`
	// Server and Client are the command lines of its last reading.
	Server []string `json:"server,omitempty"`
	Client []string `json:"client,omitempty"`
	// Missing is the reason why readings are missing.
	Missing string `json:"missing,omitempty"`
}

// Failure describes the rank that ended a run.
type Failure struct {
	Rank      int    `json:"rank"` // -1 if no single rank failed
	Operation string `json:"operation"`
	Error     string `json:"error"`
	// Output has the last lines that the rank's process wrote, if it died.
	Output []string `json:"output,omitempty"`
}

// Tool is the command that made the result.
type Tool struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// Plugin is the transport's program and what it opened.
type Plugin struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	// RuntimeDigest identifies the measured loop that the plugin links.
	RuntimeDigest string `json:"runtime_digest"`
	// Sources identifies the sources of the transport itself, without those that all share. It is
	// absent if the build of the plugin did not give it.
	Sources string `json:"sources,omitempty"`
	// Revision is the commit that the plugin was built from, if it is known and not the tool's:
	// that of another build, or of another module's repository.
	Revision  string            `json:"revision,omitempty"`
	Provider  string            `json:"provider"`
	Libraries map[string]string `json:"libraries,omitempty"`
	Notes     map[string]string `json:"notes,omitempty"`
	// Chosen has what the transport took for options that left the choice to it, such as "auto".
	Chosen map[string]string `json:"chosen,omitempty"`
	// Integrity says which checks of payloads the transport makes by itself, and Uncounted names
	// the library whose work its counters do not have.
	Integrity string `json:"integrity,omitempty"`
	Uncounted string `json:"uncounted,omitempty"`
	// Matched has the options that turn off the own checks of payloads.
	Matched      map[string]string      `json:"matched,omitempty"`
	Capabilities transport.Capabilities `json:"capabilities"`
	Limits       transport.Limits       `json:"limits"`
}

// Host is a host on which ranks ran.
type Host struct {
	Name string `json:"name"`
	// Machine is the kernel's boot ID: hosts with the same one are on one machine.
	Machine string `json:"machine"`
	// Address is the host's in its connection to the coordinator.
	Address string `json:"address"`
	CPUs    []int  `json:"cpus"` // that the ranks could use
	Ranks   []int  `json:"ranks"`
	// Options are the transport's options that differ from those of the configuration.
	Options map[string]string `json:"options,omitempty"`
	// Device carries the host's traffic, and the ranks got the processors of its NUMA node first.
	// It is absent if it is not known, or if the configuration says which processors to use.
	Device      *Device             `json:"device,omitempty"`
	Environment machine.Environment `json:"environment"`
}

// Device is a network device and its NUMA node.
type Device struct {
	Name string `json:"name"`
	Node int    `json:"node"`
}

// Machines returns the machine of each rank; it is empty if the ranks were started on the host of
// the command.
func (r *Result) Machines() map[int]string {
	machines := map[int]string{}
	for _, h := range r.Hosts {
		for _, rank := range h.Ranks {
			machines[rank] = h.Machine
		}
	}
	return machines
}

// Placement has the processors on which the polling threads of one rank ran, daemons before
// clients.
type Placement struct {
	Rank int `json:"rank"`
	// Host is the name of its host; empty for the host of the command.
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid"`
	// CPUs are the processors that were requested; -1 leaves the choice to the scheduler.
	CPUs []int `json:"cpus"`
	// Affinity is what the kernel reported afterwards, as a list ("0", "0-3").
	Affinity []string `json:"affinity"`
	// Idle is the idle strategy in force: spin, yield or park.
	Idle string `json:"idle"`
}

// Launch is one start of the ranks, which measure some repeats and end.
type Launch struct {
	Placement []Placement `json:"placement"`
	Setup     Setup       `json:"setup"`
}

// Setup is the time until the first window.
type Setup struct {
	// Steps are in order of execution, including the warm-up and the first floor. With several
	// hosts, and in the first run of a command, they begin with the steps "join" and "describe".
	Steps []Step `json:"steps"`
	// FirstWindowMS is the time from the start of the command to the start of the first measured
	// window, in milliseconds.
	FirstWindowMS float64 `json:"first_window_ms"`
	// Warmup is absent if there was none.
	Warmup *Warmup `json:"warmup,omitempty"`
	// Ranks is what the setup took each rank by its own clock, CollectMS the time from the last
	// answer of the first window until the reports of all ranks had come, and CloseMS the time to
	// close all after the last window; 0 if the launch failed. They are absent in results of older
	// versions.
	Ranks     []record.RankSetup `json:"ranks,omitempty"`
	CollectMS float64            `json:"collect_ms,omitempty"`
	CloseMS   float64            `json:"close_ms,omitempty"`
}

// StepConnect is the name of the step that tells all ranks the addresses of the others and makes
// the connections.
const StepConnect = "connect"

// ExchangeNS returns the part of the step connect that passed before and after the ranks made their
// connections, in nanoseconds; 0 if the setup does not have the step.
func (s *Setup) ExchangeNS() float64 {
	connecting := uint64(0)
	for _, r := range s.Ranks {
		connecting = max(connecting, r.ConnectAllNS)
	}
	for _, step := range s.Steps {
		if step.Name == StepConnect {
			return max(0, step.MS*float64(time.Millisecond)-float64(connecting))
		}
	}
	return 0
}

// Warmup is the load before the first window.
type Warmup struct {
	LastedMS float64 `json:"lasted_ms"`
	// Ended is WarmupSteady or WarmupLimit.
	Ended string `json:"ended" jsonschema:"enum=steady,enum=limit"`
}

// The reasons for which a warm-up ends: the throughput was steady, or the time was up.
const (
	WarmupSteady = "steady"
	WarmupLimit  = "limit"
)

// Step is one step of the setup.
type Step struct {
	Name string  `json:"name"`
	MS   float64 `json:"ms"`
}

// Repeat is one measured window and what was probed before and after it.
type Repeat struct {
	Index     int       `json:"index"`  // from 0
	Launch    int       `json:"launch"` // of the processes that measured it, from 0
	StartedAt time.Time `json:"started_at"`
	// Samples are this repeat's values of the metrics.
	Samples map[string]float64 `json:"samples"`
	// Latency, ReadLatency and WriteLatency are histograms of all clients in nanoseconds, in HDR's
	// V2 compressed format as base64. In a file, a text that is the sum of the clients' is empty,
	// as is the latency of a client that is the sum of its reads and writes.
	Latency      string `json:"latency"`
	ReadLatency  string `json:"read_latency"`
	WriteLatency string `json:"write_latency"`
	// Response and Lag are histograms of an open-loop load: the response time from the intended
	// start, and how late operations started.
	Response string          `json:"response,omitempty"`
	Lag      string          `json:"lag,omitempty"`
	Ranks    []record.Report `json:"ranks"`
	// PairsAlone has the operations of each pair of ranks of a matrix of traffic while no other one
	// called, one element for each client.
	PairsAlone []PairAlone `json:"pairs_alone,omitempty"`
	// Network has what the network with impairments did to packets in the window.
	Network *NetworkCounters `json:"network,omitempty"`
	// Overhead is the cost of the harness on the threads of the window, measured beside it.
	Overhead *record.Overhead `json:"overhead,omitempty"`
	Before   Readings         `json:"before"`
	After    Readings         `json:"after"`
	Machine  MachineTime      `json:"machine"`
	// Stalls are the longest times in the window for which polling threads made no progress, in
	// order.
	Stalls []Stall `json:"stalls,omitempty"`
	// Mixed marks a window during which the machine changed its state: the core distances
	// before and after it differ too much. Remeasured has the mixed, starved and empty windows that
	// this one replaces.
	Mixed      bool     `json:"mixed,omitempty"`
	Remeasured []Window `json:"remeasured,omitempty"`
	// Starved is the reason why the window measured next to nothing: a rank had no processor in it.
	Starved string `json:"starved,omitempty"`
}

// Readings are the probes on one side of a window.
type Readings struct {
	// CoreDistance is the round trip of one cache line between the processors of a client and its
	// daemon: the median over all pairs, in nanoseconds; 0 if it was not measured. It shows the
	// state of the machine, whatever the transport. CoreDistances has those before, between and
	// after the other probes, in order; CoreDistance is the one next to the window.
	CoreDistance  float64   `json:"bounce_ns,omitempty"`
	CoreDistances []float64 `json:"bounces_ns,omitempty"`
	// Medium is the floor of a round trip, Rate that of operations in flight, and Library the
	// ping-pong of the library under the transport. Each is the median over all pairs, and absent
	// if it was not measured.
	Medium  *transport.Floor `json:"medium,omitempty"`
	Rate    *transport.Floor `json:"rate,omitempty"`
	Library *transport.Floor `json:"library,omitempty"`
	// Transport is the transport without the harness: a round trip with one call in flight,
	// otherwise the time per operation. It is measured for a stack only.
	Transport *transport.Floor `json:"transport,omitempty"`
	// Witness is the reading of a reference tool, farther from the window than the others.
	Witness *transport.Floor `json:"witness,omitempty"`
	// Pairs has the readings of each calling pair if there are several.
	Pairs []PairReadings `json:"pairs,omitempty"`
	// Failures are the probes that failed and were taken again.
	Failures []ProbeFailure `json:"failures,omitempty"`
	// Note is the reason why probes are missing.
	Note string `json:"note,omitempty"`
}

// ProbeFailure is a probe between one calling thread and one daemon that failed.
type ProbeFailure struct {
	Kind   transport.ProbeKind `json:"kind"`
	Caller record.Thread       `json:"caller"`
	Daemon record.Thread       `json:"daemon"`
	Times  int                 `json:"times"`
	Error  string              `json:"error"` // of the last time
	// GivenUp is set if it failed for so long that this side of the window was probed no more.
	GivenUp bool `json:"given_up,omitempty"`
}

// PairReadings are the probes between one calling thread and one daemon, in nanoseconds; 0 if not
// measured.
type PairReadings struct {
	Caller       record.Thread `json:"caller"`
	Daemon       record.Thread `json:"daemon"`
	CoreDistance float64       `json:"bounce_ns,omitempty"`
	Medium       float64       `json:"medium_ns,omitempty"`
	Rate         float64       `json:"rate_ns,omitempty"`
	Library      float64       `json:"library_ns,omitempty"`
	// Transport is a round trip, or the time per operation.
	Transport float64 `json:"transport_ns,omitempty"`
	// Crosses is set for a pair on different machines.
	Crosses bool `json:"crosses,omitempty"`
}

// MachineTime is what the processors of a run did in a window besides the run.
type MachineTime struct {
	// Processors is the number of processors that the run used. The times are summed over them, and
	// the kernel counts them in steps of 10 ms.
	Processors int `json:"processors,omitempty"`
	// CoveredNS is the time in which they are counted: the window, and the calls that begin and end
	// it.
	CoveredNS uint64 `json:"covered_ns,omitempty"`
	// StealNS is the time for which the hypervisor ran something else, and SoftIRQNS the time of
	// the kernel's deferred work, such as network receive, summed over the run's processors.
	StealNS   uint64 `json:"steal_ns,omitempty"`
	SoftIRQNS uint64 `json:"softirq_ns,omitempty"`
	// KernelNS is all time in the kernel, SoftIRQNS included.
	KernelNS uint64 `json:"kernel_ns,omitempty"`
	// Frequency is the processors' mean frequency over their nominal one; 0 if the machine does not
	// show it.
	Frequency float64 `json:"frequency,omitempty"`
}

// Window is a window in brief: what it measured, and the state of the machine around it.
type Window struct {
	StartedAt      time.Time `json:"started_at"`
	Throughput     float64   `json:"throughput"` // op/s
	DistanceBefore float64   `json:"bounce_before_ns"`
	DistanceAfter  float64   `json:"bounce_after_ns"`
	// Starved is the reason why the window measured next to nothing if a rank had little of a
	// processor. Empty is the reason if nothing was completed though no rank was starved. Both are
	// absent for a mixed window.
	Starved string `json:"starved,omitempty"`
	Empty   string `json:"empty,omitempty"`
	// Stalls are those of the window, as in a repeat.
	Stalls []Stall `json:"stalls,omitempty"`
}

// Stall is a time for which polling threads of one host made no progress.
type Stall struct {
	AtNS  uint64 `json:"at_ns"` // since the first thread of the host began the window
	ForNS uint64 `json:"for_ns"`
	// Threads are the threads that stalled at the time, as "client 0 of rank 1".
	Threads []string `json:"threads"`
	Cause   Cause    `json:"cause" jsonschema:"enum=steal,enum=machine,enum=switch,enum=collector,enum=page_fault,enum=no_traffic,enum=unknown"`
}

// Cause is the cause of a stall.
type Cause string

// The causes of stalls. A stall is of the machine if threads of several ranks stalled together, and
// not by their own doing.
const (
	CauseSteal     Cause = "steal"      // the hypervisor ran something else
	CauseMachine   Cause = "machine"    // several ranks at once
	CauseSwitch    Cause = "switch"     // the scheduler ran another thread
	CauseCollector Cause = "collector"  // the Go runtime collected garbage
	CausePageFault Cause = "page_fault" // the thread touched memory that was not mapped
	// clients polled, and no response came: packets were lost, or a link was down
	CauseNoTraffic Cause = "no_traffic"
	CauseUnknown   Cause = "unknown"
)

// Path returns what identifies the path of the bytes in the first launch, one line for each way, as
// [record.PathIdentity] does, and one for what impairs it.
func Path(r *Result) []string {
	var all []transport.Path
	for _, rank := range r.Setup.Ranks {
		all = append(all, rank.Paths...)
	}
	list := record.PathIdentity(all)
	if r.ImpairedBy != "" {
		list = append(list, "impaired by "+string(r.ImpairedBy))
	}
	return list
}

// Clients returns the reports of all clients, by rank.
func (r *Repeat) Clients() []record.ClientReport {
	var clients []record.ClientReport
	for _, report := range r.Ranks {
		clients = append(clients, report.Clients...)
	}
	return clients
}

// Daemons returns the reports of all daemons, by rank.
func (r *Repeat) Daemons() []record.DaemonReport {
	var daemons []record.DaemonReport
	for _, report := range r.Ranks {
		daemons = append(daemons, report.Daemons...)
	}
	return daemons
}

// ClockStep returns the resolution of the times in nanoseconds: the coarsest of all ranks' clocks.
func (r *Repeat) ClockStep() float64 {
	step := 0.0
	for _, report := range r.Ranks {
		step = max(step, report.Process.ClockStepNS)
	}
	return step
}

// PerSecond returns the rate of count over elapsedNS; it returns 0 if elapsedNS is 0.
func PerSecond(count, elapsedNS uint64) float64 {
	if elapsedNS == 0 {
		return 0
	}
	return float64(count) / float64(elapsedNS) * 1e9
}

// Metric is a median over repeats and its 95% interval.
type Metric struct {
	Unit   string  `json:"unit"`
	Better Better  `json:"better" jsonschema:"enum=higher,enum=lower,enum=none"`
	Median float64 `json:"median"`
	// Low and High are absent if there are fewer than 6 repeats: the interval then has no finite
	// bounds.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// N is the number of repeats behind the median.
	N int `json:"n"`
}

// Better is the direction in which a metric gets better.
type Better string

// The directions of metrics.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
	None   Better = "none"
)

// Finding is what a judge says of a result, of a part of one, or of a machine. A result has those
// of its checks, whether they are OK or not.
type Finding struct {
	Name string `json:"name"` // of the check or rule
	// Subject is what the finding is about, if not the whole result: "repeat 2", "a row".
	Subject string `json:"subject,omitempty"`
	OK      bool   `json:"ok"`
	// NotJudged is set for a check that is OK because it does not apply or could not be made; the
	// message has the reason.
	NotJudged bool `json:"not_judged,omitempty"`
	// Severity grades the finding if it is not OK.
	Severity Severity `json:"severity" jsonschema:"enum=info,enum=warning,enum=error"`
	Value    float64  `json:"value"`
	Limit    float64  `json:"limit"`
	Message  string   `json:"message"` // what was found, its effect and the remedy
	// Effect is what it does to the figures, and Remedy what helps, as parts of the message; each
	// is absent if nothing is known.
	Effect string `json:"effect,omitempty"`
	Remedy string `json:"remedy,omitempty"`
	// Scope is ScopeMachine for a fact of the machine, which is the same for all results of it.
	Scope Scope `json:"scope,omitempty" jsonschema:"enum=machine"`
}

// Unjudged begins the message of a check that is not judged.
const Unjudged = "not judged: "

// StarvedShare is the share of the time off their processors, the value of check preempted, from
// which spinning threads are starved: figures are then those of the scheduler, and late calls may
// look lost.
const StarvedShare = 0.15

// Scope is what a check is about.
type Scope string

// The scopes.
const (
	ScopeRun     Scope = ""
	ScopeMachine Scope = "machine"
)

// Severity grades checks.
type Severity string

// The severities. A result fails if a check of severity Error is not OK.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Failed reports whether a check of severity [Error] is not OK. The numbers of such a result must
// not be used.
func (r *Result) Failed() bool {
	return slices.ContainsFunc(r.Checks,
		func(c Finding) bool { return !c.OK && c.Severity == Error })
}

// Failed returns the findings that are not OK: errors first, then warnings.
func Failed(findings []Finding) (failed []Finding) {
	for _, severity := range []Severity{Error, Warning, Info} {
		for _, f := range findings {
			if !f.OK && f.Severity == severity {
				failed = append(failed, f)
			}
		}
	}
	return failed
}

// Histograms decodes and merges histograms. An empty string is an empty histogram.
func Histograms(encoded ...string) (*record.Histogram, error) {
	merged := record.NewHistogram()
	for _, text := range encoded {
		if text == "" {
			continue
		}
		h, err := record.DecodeHistogram(text)
		if err != nil {
			return nil, err
		}
		merged.Merge(h)
	}
	return merged, nil
}

// NewID returns 128 random bits in hex.
func NewID() string {
	var bits [16]byte
	rand.Read(bits[:]) // never fails
	return hex.EncodeToString(bits[:])
}

// ShortID returns the first eight digits of an ID, for display.
func ShortID(id string) string { return id[:min(8, len(id))] }
