package analyze

import (
	"strings"

	"transportbench/core/base/replay"
	"transportbench/core/lab/store/result"
)

// Analysis is the analysis of the results of one configuration.
type Analysis struct {
	Transport string `json:"transport"`
	Provider  string `json:"provider,omitempty"`
	// Repeats is the number of windows.
	Repeats int     `json:"repeats"`
	Verdict Verdict `json:"verdict"`
	// Breakdowns split times into parts, the most informative one first.
	Breakdowns []Breakdown `json:"breakdowns"`
	// LittlesLaw is Little's law; absent for an open loop.
	Law *LittlesLaw `json:"littles_law,omitempty"`
	// Model is the queueing model, and Limit the highest possible throughput. Both are absent if
	// the results lack the figures; Missing says which.
	Model *Model `json:"model,omitempty"`
	Limit *Limit `json:"limit,omitempty"`
	// Overheads are the costs of the runtime's policies and of waiting for the transport, the
	// largest first.
	Overheads []Overhead `json:"losses"`
	// Processor is the processor time of an operation; absent in results of 1.x.
	Processor *ProcessorTime `json:"processor,omitempty"`
	// Stalls are the longest times for which threads made no progress; absent if there were none.
	Stalls *Stalls `json:"stalls,omitempty"`
	// OverTime has the time series of the transport: for each side its stalls, the largest first,
	// then other series.
	OverTime []TimeSeries `json:"over_time,omitempty"`
	// Replay is the part of a trace that was replayed; absent for other loads.
	Replay *replay.Part `json:"replay,omitempty"`
	// ReplayTimes are its response times over the time of the trace; absent without such times.
	ReplayTimes *ReplayTimes `json:"replay_times,omitempty"`
	// Threads has the events of polling threads.
	Threads []ThreadEvents `json:"threads"`
	// NoCounters is why there are no hardware counters.
	NoCounters string `json:"no_counters,omitempty"`
	// Findings are failed checks.
	Findings []result.Finding `json:"findings"`
	// Missing lists what could not be analyzed, and why.
	Missing []string `json:"missing,omitempty"`
}

// Bound is what limits the throughput.
type Bound string

// The bounds.
const (
	// ByClients: the clients' threads are always busy.
	ByClients Bound = "client-bound"
	// ByDaemons: the daemons' threads are always busy.
	ByDaemons Bound = "daemon-bound"
	// ByTransport: no thread is always busy; calls wait for the medium.
	ByTransport Bound = "transport-bound"
	// ByProcessors: threads share processors and wait for them.
	ByProcessors Bound = "oversubscribed"
	// BySchedule: the clients started the operations of an open loop late.
	BySchedule Bound = "schedule late"
	// ByLoad: the rate of an open loop was reached; only the load limits the throughput.
	ByLoad Bound = "load-bound"
	// ByNothing: the results do not tell.
	ByNothing Bound = "unknown"
)

// Verdict names what limits the throughput.
type Verdict struct {
	Bound Bound `json:"bound"`
	// Why is a clause of at most 60 characters, for tables.
	Why string `json:"why"`
	// Message is one or two sentences with the figures, and what would help.
	Message string `json:"message"`
	// Evidence lists the figures behind the verdict.
	Evidence []string `json:"evidence"`
}

// Breakdown is a time and its parts, which add up to it. All times are means in nanoseconds.
type Breakdown struct {
	Name  string  `json:"name"`  // "remote request", "operation", "daemon's loop", "processor time"
	Title string  `json:"title"` // for display
	Whole float64 `json:"whole_ns"`
	Parts []Part  `json:"parts"`
	// Note says how the parts were measured and what that cost.
	Note string `json:"note,omitempty"`
}

// of returns the name of the whole for a sentence.
func (b *Breakdown) of() string {
	name, _, _ := strings.Cut(b.Title, ",")
	return name
}

// Part is one part of a breakdown.
type Part struct {
	Name string `json:"name"`
	// Inside is the name of the part to which this one belongs, which follows and has the rest.
	Inside string  `json:"inside,omitempty"`
	Mean   float64 `json:"mean_ns"` // may be negative if unexplained
	Share  float64 `json:"share"`   // of the whole
	Help   string  `json:"help"`
}

// Label returns the name of the part for display.
func (p *Part) Label() string {
	if p.Inside != "" {
		return p.Inside + ": " + p.Name
	}
	return p.Name
}

// Unexplained is the name of the part that remains of the whole without the other parts.
const Unexplained = "unexplained"

// LittlesLaw is Little's law over all clients: calls in flight = throughput x mean
// latency.
type LittlesLaw struct {
	Throughput float64 `json:"throughput"` // op/s
	Latency    float64 `json:"latency_ns"` // mean
	Found      float64 `json:"found"`      // their product
	Configured float64 `json:"configured"`
	Residual   float64 `json:"residual"` // configured minus found, as a share of configured
}

// Limit is the highest throughput that floor and service times allow: the lowest of its bounds.
type Limit struct {
	Throughput float64 `json:"throughput"` // op/s
	Measured   float64 `json:"measured"`   // op/s
	// Share is Measured over Throughput.
	Share  float64      `json:"share"`
	Bounds []LimitBound `json:"bounds"` // the tightest first
}

// LimitBound is one station's bound.
type LimitBound struct {
	Name       string  `json:"name"`
	Throughput float64 `json:"throughput"` // op/s
	Message    string  `json:"message"`    // the reason for it
}

// Overhead is a cost of each operation in time, or in iterations of a loop.
type Overhead struct {
	Name string `json:"name"` // flush, credits, scan, back_pressure, ...
	// PerOp is in nanoseconds; 0 if only Share is known.
	PerOp float64 `json:"per_op_ns"`
	// Share is a share of the mean service time, unless Message says otherwise.
	Share   float64 `json:"share"`
	Message string  `json:"message"`
}

// ProcessorTime is processor time per operation in nanoseconds: medians over the repeats.
type ProcessorTime struct {
	// Threads is the time of the polling threads, which spin, and Busy that of their iterations
	// that found work.
	Threads float64 `json:"threads_ns"`
	Busy    float64 `json:"busy_ns"`
	// Process is the time of the ranks' processes with their helper threads, and Kernel that of the
	// kernel on their behalf, soft interrupts included.
	Process float64 `json:"process_ns"`
	Kernel  float64 `json:"kernel_ns"`
	Message string  `json:"message"`
}

// Stalls are times for which polling threads made no progress.
type Stalls struct {
	Count int     `json:"count"`
	Total float64 `json:"total_ns"` // of threads that stalled together, once
	// Causes has the time of the stalls by cause, and Longest the longest of them.
	Causes  map[result.Cause]float64 `json:"causes"`
	Longest []Stall                  `json:"longest"`
}

// Stall is one of them.
type Stall struct {
	Repeat  int          `json:"repeat"` // from 0
	At      float64      `json:"at_ns"`  // since the start of the window
	Time    float64      `json:"time_ns"`
	Threads []string     `json:"threads"`
	Cause   result.Cause `json:"cause"`
	Message string       `json:"message"`
}

// ThreadEvents counts the events of one polling thread over all repeats, per operation and per
// second.
type ThreadEvents struct {
	Rank   int    `json:"rank"`
	Thread string `json:"thread"` // "daemon 0", "client 3"
	// IPC is instructions per cycle; absent without hardware counters.
	IPC *float64 `json:"ipc,omitempty"`
	// PerOp has the hardware counters per operation of this thread.
	PerOp map[string]float64 `json:"per_op,omitempty"`
	// PerSecond has the software events: voluntary_switches, involuntary_switches, migrations,
	// minor_faults, major_faults.
	PerSecond map[string]float64 `json:"per_second"`
}
