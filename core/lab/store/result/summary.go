package result

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"transportbench/core/base/config"
)

// The names of the metrics.
const (
	Throughput      = "throughput"
	Goodput         = "goodput"
	LatencyP50      = "latency_p50"
	LatencyP90      = "latency_p90"
	LatencyP99      = "latency_p99"
	LatencyP999     = "latency_p999"
	LatencyMax      = "latency_max"
	ResponseP50     = "response_p50"
	ResponseP90     = "response_p90"
	ResponseP99     = "response_p99"
	ResponseP999    = "response_p999"
	ResponseMax     = "response_max"
	ScheduleLagP99  = "schedule_lag_p99"
	OfferedLoad     = "offered_load"
	LocalMean       = "latency_local_mean"
	RemoteMean      = "latency_remote_mean"
	EmptyLoops      = "empty_loops"
	IterationRate   = "iterations"
	TokenRate       = "tokens"
	Floor           = "floor"
	FloorRatio      = "floor_ratio"
	RateFloor       = "rate_floor"
	OpTimeRatio     = "op_time_ratio"
	Library         = "library"
	LibraryRatio    = "library_ratio"
	Bare            = "bare"
	BareRate        = "bare_rate"
	BareRatio       = "bare_ratio"
	BareTimeRatio   = "bare_time_ratio"
	LatencyMean     = "latency_mean"
	HarnessShare    = "harness_share"
	BusyPerOp       = "busy_per_op"
	ProcessCPUPerOp = "process_cpu_per_op"
	KernelPerOp     = "kernel_per_op"
	CoreDistance    = "bounce"
	Steal           = "steal"
	Stalled         = "stalled"
	GapLimit        = "gap_limit"
	CPUPerOp        = "cpu_per_op"
	HarnessOverhead = "harness_overhead"
	VerifyCost      = "verify_cost"
	ClientFairness  = "client_fairness"
	JainClients     = "jain_clients"
	JainPeers       = "jain_peers"
	StragglerRatio  = "straggler_ratio"

	StormRate       = "storm_rate"
	StormKept       = "storm_kept"
	StormConnectP50 = "storm_connect_p50"
	StormConnectP99 = "storm_connect_p99"
	StormClose      = "storm_close"

	CopiesPerOp           = "copies_per_op"
	CopiedBytesPerOp      = "copied_bytes_per_op"
	ChecksummedBytesPerOp = "checksummed_bytes_per_op"
	SyscallsPerOp         = "syscalls_per_op"
	KernelBytesPerOp      = "kernel_bytes_per_op"
	DoorbellsPerOp        = "doorbells_per_op"
	HarnessBytesPerOp     = "harness_bytes_per_op"
	Threads               = "threads"

	WitnessRoundTrip = "witness"
	WitnessRatio     = "witness_ratio"
	WitnessRate      = "witness_rate"
	WitnessTimeRatio = "witness_time_ratio"

	SetupOpen       = "setup_open"
	SetupRegister   = "setup_register"
	SetupConnect    = "setup_connect"
	SetupConnectAll = "setup_connect_all"
	SetupExchange   = "setup_exchange"
	FirstCall       = "first_call"
	Teardown        = "teardown"
)

// A metric with one of these suffixes is that of a kind of pair of ranks, in a run whose calls are
// of both kinds.
const (
	WithinMachine   = "_within_machine"
	BetweenMachines = "_between_machines"
)

// OfKinds are the metrics that each kind of pair has.
var OfKinds = []string{Throughput, LatencyP50, LatencyP99, Floor, FloorRatio}

// OfSetup reports whether a metric is of the setup or the end of a launch, which has one sample of
// it.
func OfSetup(metric string) bool {
	switch metric {
	case SetupOpen, SetupRegister, SetupExchange, SetupConnect, SetupConnectAll, FirstCall,
		Teardown:
		return true
	}
	return false
}

// MuchStalled is the share of stalled time above which a p99 shows the machine and not the
// transport.
const MuchStalled = 0.01

// Iteration begins the names of percentiles of whole iterations ("iteration_p50"), as
// the name of an operation begins those of its percentiles ("lookup_p99").
const Iteration = "iteration"

// FirstPart begins the names of percentiles of the time from an iteration's first call to its first
// response: of a value that is read in parts, that to the first part. Of a hand-off it is the time
// to the last response of the first layer.
const FirstPart = "first_part"

// Definition is the meaning of a metric.
type Definition struct {
	Name   string
	Unit   string
	Better Better
	Help   string
}

// Definitions lists the known metrics in the order in which they are shown.
var Definitions = []Definition{
	{Throughput, "op/s", Higher, "operations per second, summed over the clients"},
	{Goodput, "B/s", Higher, "value bytes read and written per second, without headers"},
	{LatencyMean, "ns", Lower,
		"service time, exact mean: calls in flight times the window over the operations"},
	{LatencyP50, "ns", Lower, "service time, median"},
	{LatencyP90, "ns", Lower, "service time, 90th percentile"},
	{LatencyP99, "ns", Lower, "service time, 99th percentile"},
	{LatencyP999, "ns", Lower, "service time, 99.9th percentile"},
	{LatencyMax, "ns", Lower, "service time, largest sample"},
	{IterationRate, "iteration/s", Higher,
		"operations per second over those of an iteration, summed over the clients"},
	{TokenRate, "token/s", Higher, "tokens of the blocks read and written per second"},
	{ResponseP50, "ns", Lower, "open loop: response time from the intended start, median"},
	{ResponseP90, "ns", Lower, "open loop: response time, 90th percentile"},
	{ResponseP99, "ns", Lower, "open loop: response time, 99th percentile"},
	{ResponseP999, "ns", Lower, "open loop: response time, 99.9th percentile"},
	{ResponseMax, "ns", Lower, "open loop: response time, largest sample"},
	{ScheduleLagP99, "ns", Lower, "open loop: how late operations started, 99th percentile"},
	{OfferedLoad, "op/s", None, "open loop: operations that were due per second"},
	{LocalMean, "ns", Lower, "mesh: mean service time of requests to the client's own rank"},
	{RemoteMean, "ns", Lower, "mesh: mean service time of requests to other ranks"},
	{EmptyLoops, "ratio", None, "share of the daemons' loop iterations that found nothing"},
	{Floor, "ns", None,
		"round trip of the bare medium, geometric mean of the probes around the window"},
	{FloorRatio, "ratio", Lower, "latency_p50 over floor, with one call in flight"},
	{RateFloor, "ns/op", None,
		"time per operation of the bare medium with the same calls in flight and payloads"},
	{OpTimeRatio, "ratio", Lower,
		"time per operation over rate_floor, with several calls in flight"},
	{Library, "ns", None, "round trip of the library under the transport, without the transport"},
	{LibraryRatio, "ratio", Lower, "latency_p50 over library, with one call in flight"},
	{Bare, "ns", Lower,
		"round trip over the transport alone, by the same threads without the runtime"},
	{BareRatio, "ratio", Lower, "latency_p50 over bare, with one call in flight"},
	{BareRate, "ns/op", Lower, "time per operation over the transport alone, with several calls " +
		"in flight"},
	{BareTimeRatio, "ratio", Lower, "time per operation over bare_rate; below 1 if the calls " +
		"alone are batched worse"},
	{WitnessRoundTrip, "ns", None, "round trip of the reference tool"},
	{WitnessRatio, "ratio", Lower, "latency_p50 over witness"},
	{WitnessRate, "ns/op", None, "time of the reference tool for the messages of a call, with " +
		"several in flight"},
	{WitnessTimeRatio, "ratio", Lower, "time per operation over witness_rate"},
	{CPUPerOp, "ns", Lower, "processor time of all polling threads per operation"},
	{BusyPerOp, "ns", Lower,
		"time of the polling threads' iterations that found work, per operation"},
	{ProcessCPUPerOp, "ns", Lower,
		"processor time of the ranks' processes per operation, helper threads included"},
	{KernelPerOp, "ns", Lower,
		"processor time of the kernel on the run's behalf per operation, soft interrupts included"},
	{HarnessOverhead, "ns/op", Lower,
		"benchmark overhead, measured with a transport that completes at once"},
	{HarnessShare, "ratio", Lower,
		"benchmark overhead as a share of an operation's time, or of the busiest thread's"},
	{CoreDistance, "ns", None,
		"round trip of one cache line between the run's processors: the machine's state"},
	{Steal, "ratio", None,
		"share of the window for which the hypervisor kept a processor of the run"},
	{Stalled, "ratio", None, "share of the window for which the client or the daemon of a call " +
		"was in a gap; time in which both were counts once"},
	{GapLimit, "ns", None,
		"how long an iteration of any thread has to take to be a gap without a known cause"},
	{VerifyCost, "ns/op", Lower, "part of the benchmark overhead that verifies checksums"},
	{ClientFairness, "ratio", Higher, "rate of the slowest client over that of the median client"},
	{JainClients, "ratio", Higher,
		"traffic: Jain's index of the clients' rates; 1 if all are equal"},
	{JainPeers, "ratio", None, "traffic: Jain's index of the rates of the ranks that were called"},
	{StragglerRatio, "ratio", Lower,
		"traffic: latency_p50 of the slowest pair of ranks over that of the median pair"},
	{StormRate, "connection/s", None, "storm: connections that were opened, used once and closed"},
	{StormKept, "ratio", Higher,
		"storm: share of the connections due that were made without an error"},
	{StormConnectP50, "ns", Lower,
		"storm: from the opening of both sides to the response of one call, median"},
	{StormConnectP99, "ns", Lower,
		"storm: from the opening of both sides to the response of one call, 99th percentile"},
	{StormClose, "ns", Lower, "storm: closing both sides, median"},
	{CopiesPerOp, "/op", None,
		"copies of payloads per operation, without those of the kernel and of devices"},
	{CopiedBytesPerOp, "B/op", None, "bytes of these copies per operation"},
	{ChecksummedBytesPerOp, "B/op", None, "bytes per operation of which a checksum was computed"},
	{SyscallsPerOp, "/op", None, "system calls of the transport per operation"},
	{KernelBytesPerOp, "B/op", None, "bytes per operation that the kernel copied in these calls"},
	{DoorbellsPerOp, "/op", None, "postings to a device and notifications of a peer per operation"},
	{HarnessBytesPerOp, "B/op", None,
		"bytes per operation that the runtime copies and checksums"},
	{"counters.ipc", "ratio", None, "microbenchmarks: instructions per cycle"},
	{"counters.cache_miss", "ratio", None,
		"microbenchmarks: share of cache references that missed"},
	{"counters.l1_miss", "ratio", None, "microbenchmarks: share of loads that missed the L1 cache"},
	{"counters.llc_miss", "ratio", None,
		"microbenchmarks: share of loads from the last-level cache that missed"},
	{Threads, "threads", None,
		"threads of all ranks that were on a processor for over 1% of the window"},
	{SetupOpen, "ns", Lower,
		"setup: opening the transport and making its workers, of the slowest rank"},
	{SetupRegister, "ns/MiB", Lower,
		"setup: registering memory with the device, which is a part of opening"},
	{SetupExchange, "ns", Lower, "setup: all addresses to all ranks and their answers: the step " +
		"connect without its connections"},
	{SetupConnect, "ns", Lower, "setup: one side of a connection, mean over all"},
	{SetupConnectAll, "ns", Lower, "setup: all connections of a rank, of the slowest rank"},
	{FirstCall, "ns", Lower,
		"setup: first call on a connection, median over all; compare latency_p50"},
	{Teardown, "ns", Lower,
		"closing all ranks after the last window, with a round trip of the control plane"},
}

// init inserts the percentiles of operations and of iterations, and the metrics of kinds of pairs.
func init() {
	var kinds []Definition
	for _, kind := range []struct{ suffix, help string }{
		{WithinMachine, "calls between ranks on one machine: "},
		{BetweenMachines, "calls between machines: "},
	} {
		for _, name := range OfKinds {
			d := Define(name)
			d.Name += kind.suffix
			d.Help = kind.help + d.Help
			kinds = append(kinds, d)
		}
	}
	at := slices.IndexFunc(Definitions, func(d Definition) bool { return d.Name == EmptyLoops })
	Definitions = slices.Insert(Definitions, at, kinds...)
	var list []Definition
	for _, op := range append(config.OpNames(), FirstPart, Iteration) {
		for _, percentile := range []struct{ name, help string }{{"p50", "median"},
			{"p90", "90th percentile"}, {"p99", "99th percentile"}} {
			help := "service time of " + op + " operations, "
			switch op {
			case FirstPart:
				help = "time from an iteration's first call to its first response, or to the " +
					"last one of the first layer of a hand-off, "
			case Iteration:
				help = "time of a whole iteration, "
			}
			list = append(list, Definition{op + "_" + percentile.name, "ns", Lower,
				help + percentile.help})
		}
	}
	at = slices.IndexFunc(Definitions, func(d Definition) bool { return d.Name == IterationRate })
	Definitions = slices.Insert(Definitions, at, list...)
}

// Define returns the definition of a metric. That of an unknown name has no unit, direction or
// help.
func Define(name string) Definition {
	for _, d := range Definitions {
		if d.Name == name {
			return d
		}
	}
	if IsOfClass(name) {
		return defineOfClass(name)
	}
	return Definition{Name: name, Better: None}
}

// RatiosToFloor are the ratios to a floor of the medium.
var RatiosToFloor = []string{FloorRatio, OpTimeRatio, FloorRatio + WithinMachine,
	FloorRatio + BetweenMachines}

// RatioApplies reports whether a metric, if it is a ratio to a floor, means something for a pair of
// a client and a daemon with so many calls in flight. One call at a time compares with a round
// trip. Several overlap: their latency has the wait for other calls in it, so the time per
// operation compares with the rate floor.
func RatioApplies(metric string, calls int) bool {
	switch metric {
	case FloorRatio, LibraryRatio, BareRatio:
		return calls == 1
	case OpTimeRatio, BareTimeRatio:
		return calls > 1
	}
	return true
}

const confidence = 0.95

// Summarize returns the median and 95% interval of a metric over its samples, one for each repeat.
// The interval comes from order statistics and assumes nothing about the distribution. Summarize
// panics without samples.
func Summarize(name string, samples []float64) Metric {
	if len(samples) == 0 {
		panic("result: no samples of " + name)
	}
	d := Define(name)
	s := benchmath.AssumeNothing.Summary(
		benchmath.NewSample(slices.Clone(samples), &benchmath.DefaultThresholds), confidence)
	m := Metric{Unit: d.Unit, Better: d.Better, Median: s.Center, N: len(samples)}
	// With few samples, one bound or both are infinite.
	if !math.IsInf(s.Lo, 0) && !math.IsInf(s.Hi, 0) {
		m.Low, m.High = &s.Lo, &s.Hi
	}
	return m
}

// SummarizeRepeats summarizes every metric that the repeats have samples of.
func SummarizeRepeats(repeats []Repeat) map[string]Metric {
	samples := map[string][]float64{}
	for _, r := range repeats {
		for name, value := range r.Samples {
			samples[name] = append(samples[name], value)
		}
	}
	summary := make(map[string]Metric, len(samples))
	for name, values := range samples {
		summary[name] = Summarize(name, values)
	}
	return summary
}
