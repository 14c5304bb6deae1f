package analyze

import (
	"strings"

	"transportbench/core/lab/result"
)

// Analysis is what the results of one configuration say.
type Analysis struct {
	Transport string `json:"transport"`
	Provider  string `json:"provider,omitempty"`
	// Repeats is how many windows the figures are over.
	Repeats int     `json:"repeats"`
	Verdict Verdict `json:"verdict"`
	// Breakdowns are where time goes, the most telling one first; each adds up
	// to its whole by its part "unexplained".
	Breakdowns []Breakdown `json:"breakdowns"`
	// Law is Little's law; absent for an open loop.
	Law *Law `json:"littles_law,omitempty"`
	// Model is the queueing model, and Limit what it allows at most; absent
	// where the results do not have what it takes, for which Missing has a line.
	Model *Model `json:"model,omitempty"`
	Limit *Limit `json:"limit,omitempty"`
	// Overheads are what policies of the runtime and room in the transport took,
	// the largest first.
	Overheads []Overhead `json:"losses"`
	// OverTime is what the transport tells of itself in the course of a window: for each
	// side what holds it up, the largest share of time first, then the other series.
	OverTime []TimeSeries `json:"over_time,omitempty"`
	// Threads are the events of polling threads; see Events.
	Threads []ThreadEvents `json:"threads"`
	// NoCounters says why there are no hardware counters.
	NoCounters string `json:"no_counters,omitempty"`
	// Findings are what speaks against the figures, and what a reader should
	// know of them: failed checks, and figures that do not fit together.
	Findings []Finding `json:"findings"`
	// Missing are lines on what could not be said, and why.
	Missing []string `json:"missing,omitempty"`
}

// Bound is what keeps the throughput from being higher.
type Bound string

// The bounds.
const (
	// ByClients: the clients' threads are busy all the time.
	ByClients Bound = "client-bound"
	// ByDaemons: the daemons' threads are.
	ByDaemons Bound = "daemon-bound"
	// ByTransport: neither is, and calls wait for the medium.
	ByTransport Bound = "transport-bound"
	// ByProcessors: threads share processors and wait for them.
	ByProcessors Bound = "oversubscribed"
	// BySchedule: an open loop's operations started late; the harness was.
	BySchedule Bound = "schedule late"
	// ByLoad: an open loop's rate was kept: nothing bounds but what was asked.
	ByLoad Bound = "load-bound"
	// ByNothing: the results do not say.
	ByNothing Bound = "unknown"
)

// Verdict is what bounds the throughput.
type Verdict struct {
	Bound Bound `json:"bound"`
	// Why is a clause of at most 60 characters, for strips and tables.
	Why string `json:"why"`
	// Message is one or two sentences with the figures, and what would help.
	Message string `json:"message"`
	// Evidence are the figures that were weighed, a line each.
	Evidence []string `json:"evidence"`
}

// Finding is one thing to know of the figures.
type Finding struct {
	Name     string          `json:"name"` // that of the check or rule
	Severity result.Severity `json:"severity"`
	Message  string          `json:"message"` // a sentence that stands alone
}

// Breakdown is a time and what it consists of. All times are means in
// nanoseconds.
type Breakdown struct {
	Name  string  `json:"name"`  // "remote request", "operation", "daemon's loop", "processor time"
	Title string  `json:"title"` // for people
	Whole float64 `json:"whole_ns"`
	Parts []Part  `json:"parts"`
}

// of names the whole in a sentence.
func (b *Breakdown) of() string {
	name, _, _ := strings.Cut(b.Title, ",")
	return name
}

// Part is one part of a breakdown.
type Part struct {
	Name  string  `json:"name"`
	Mean  float64 `json:"mean_ns"` // negative where an unexplained part is
	Share float64 `json:"share"`   // of the whole
	Help  string  `json:"help"`
}

// Unexplained is the name of the part that is the whole less the others.
const Unexplained = "unexplained"

// Law is Little's law over all clients: calls in flight = throughput x mean
// latency.
type Law struct {
	Throughput float64 `json:"throughput"` // op/s
	Latency    float64 `json:"latency_ns"` // mean
	Found      float64 `json:"found"`      // their product
	Configured float64 `json:"configured"`
	Residual   float64 `json:"residual"` // share of configured by which found is off
}

// Limit is the most throughput that floor and service times allow: the least of
// its bounds.
type Limit struct {
	Throughput float64 `json:"throughput"` // op/s
	Measured   float64 `json:"measured"`   // op/s
	// Share is measured over limit.
	Share  float64      `json:"share"`
	Bounds []LimitBound `json:"bounds"` // the tightest first
}

// LimitBound is one station's bound.
type LimitBound struct {
	Name       string  `json:"name"`
	Throughput float64 `json:"throughput"` // op/s
	Message    string  `json:"message"`    // how it comes about
}

// Overhead is time that something took of each operation, or turns of a loop that
// it spoilt.
type Overhead struct {
	Name string `json:"name"` // flush, credits, scan, back_pressure, ...
	// PerOp is in nanoseconds; 0 where only Share is known.
	PerOp float64 `json:"per_op_ns"`
	// Share is of the mean service time, or what Message says.
	Share   float64 `json:"share"`
	Message string  `json:"message"`
}

// ThreadEvents are what happened on one polling thread over all repeats, for
// each operation of the whole run and each second.
type ThreadEvents struct {
	Rank   int    `json:"rank"`
	Thread string `json:"thread"` // "daemon 0", "client 3"
	// IPC is instructions per cycle; absent without hardware counters.
	IPC *float64 `json:"ipc,omitempty"`
	// PerOp are the events for each operation of this thread, by the names of
	// the hardware counters.
	PerOp map[string]float64 `json:"per_op,omitempty"`
	// PerSecond are software events: voluntary_switches, involuntary_switches,
	// migrations, minor_faults, major_faults.
	PerSecond map[string]float64 `json:"per_second"`
}
