package result

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// SchemaVersion is the version that this package writes.
const SchemaVersion = "1.4.0"

// KindRun is the kind of a result of one transport under one configuration.
const KindRun = "run"

// Result is one run.
type Result struct {
	SchemaVersion string `json:"schema_version" jsonschema:"pattern=^1\\.[0-9]+\\.[0-9]+$"`
	Kind          string `json:"kind" jsonschema:"enum=run"`
	// ID is 128 random bits in hex.
	ID string `json:"id" jsonschema:"pattern=^[0-9a-f]{32}$"`
	// StartedAt is in UTC.
	StartedAt   time.Time           `json:"started_at"`
	Argv        []string            `json:"argv"`
	Tool        Tool                `json:"tool"`
	Plugin      Plugin              `json:"plugin"`
	Config      config.Config       `json:"config"`
	Environment machine.Environment `json:"environment"`
	Placement   []Placement         `json:"placement"`
	Setup       Setup               `json:"setup"`
	// Overhead is what the harness costs, measured once before the warm-up.
	Overhead record.Overhead `json:"overhead"`
	Repeats  []Repeat        `json:"repeats"`
	// Summary has a metric for each name that any repeat has a sample of, and
	// for those that are measured once a run.
	Summary map[string]Metric `json:"summary"`
	Checks  []Check           `json:"checks"`
	// Incomplete says that the run was cut short; the repeats that are here
	// are complete ones.
	Incomplete       bool   `json:"incomplete"`
	IncompleteReason string `json:"incomplete_reason,omitempty"`
	// FailedRepeat is the repeat in which a rank failed, as far as the others
	// recorded it, and Failure that rank. Neither counts in the summary.
	FailedRepeat *Repeat  `json:"failed_repeat,omitempty"`
	Failure      *Failure `json:"failure,omitempty"`
}

// Failure is a rank that ended a run.
type Failure struct {
	Rank      int    `json:"rank"` // -1 where it was none alone
	Operation string `json:"operation"`
	Error     string `json:"error"`
	// Output is the last of what the rank's process wrote, if it died.
	Output []string `json:"output,omitempty"`
}

// Tool is the command that made the result.
type Tool struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// Plugin is the transport's program, and what it opened.
type Plugin struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
	// RuntimeDigest identifies the measured loop that the plugin links.
	RuntimeDigest string                 `json:"runtime_digest"`
	Provider      string                 `json:"provider"`
	Libraries     map[string]string      `json:"libraries,omitempty"`
	Notes         map[string]string      `json:"notes,omitempty"`
	Capabilities  transport.Capabilities `json:"capabilities"`
	Limits        transport.Limits       `json:"limits"`
}

// Placement is where the polling threads of one rank ran, daemons before
// clients.
type Placement struct {
	Rank int `json:"rank"`
	PID  int `json:"pid"`
	// CPUs are the processors asked for; -1 leaves it to the scheduler.
	CPUs []int `json:"cpus"`
	// Affinity is what the kernel said afterwards, as a list ("0", "0-3").
	Affinity []string `json:"affinity"`
	// Idle is the idle strategy in force: spin, yield or park.
	Idle string `json:"idle"`
}

// Setup is the time until the first window.
type Setup struct {
	// Steps are in order of execution, warm-up and first floor included.
	Steps []Step `json:"steps"`
	// FirstWindowMS is from the start of the command to that of the first
	// measured window, in milliseconds.
	FirstWindowMS float64 `json:"first_window_ms"`
	// Warmup is absent where there was none.
	Warmup *Warmup `json:"warmup,omitempty"`
}

// Warmup is the load before the first window.
type Warmup struct {
	LastedMS float64 `json:"lasted_ms"`
	// Ended says what ended it: WarmupSteady or WarmupLimit.
	Ended string `json:"ended" jsonschema:"enum=steady,enum=limit"`
}

// What ends a warm-up: the throughput was steady, or the time was up.
const (
	WarmupSteady = "steady"
	WarmupLimit  = "limit"
)

// Step is one step of the setup.
type Step struct {
	Name string  `json:"name"`
	MS   float64 `json:"ms"`
}

// Repeat is one measured window and the floors around it.
type Repeat struct {
	Index     int       `json:"index"` // from 0
	StartedAt time.Time `json:"started_at"`
	// Samples are this repeat's values of the metrics.
	Samples map[string]float64 `json:"samples"`
	// Latency, ReadLatency and WriteLatency are merged over all clients, in
	// HDR's V2 compressed format as base64, in nanoseconds.
	Latency      string `json:"latency"`
	ReadLatency  string `json:"read_latency"`
	WriteLatency string `json:"write_latency"`
	// Response and Lag are those of an open-loop load: response time from the
	// intended start, and how late operations started.
	Response string          `json:"response,omitempty"`
	Lag      string          `json:"lag,omitempty"`
	Ranks    []record.Report `json:"ranks"`
	// FloorBefore and FloorAfter are absent where the transport has no probe;
	// FloorNote then says so.
	FloorBefore *transport.Floor `json:"floor_before,omitempty"`
	FloorAfter  *transport.Floor `json:"floor_after,omitempty"`
	FloorNote   string           `json:"floor_note,omitempty"`
}

// Clients are the reports of all clients, by rank.
func (r *Repeat) Clients() []record.ClientReport {
	var clients []record.ClientReport
	for _, report := range r.Ranks {
		clients = append(clients, report.Clients...)
	}
	return clients
}

// Daemons are the reports of all daemons, by rank.
func (r *Repeat) Daemons() []record.DaemonReport {
	var daemons []record.DaemonReport
	for _, report := range r.Ranks {
		daemons = append(daemons, report.Daemons...)
	}
	return daemons
}

// PerSecond is the rate of a count in a window; 0 for one without length.
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
	// Low and High are absent where too few repeats (fewer than 6) leave the
	// interval without a finite bound.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// N is the number of repeats behind the median.
	N int `json:"n"`
}

// Better is the direction in which a metric improves.
type Better string

// The directions of metrics.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
	None   Better = "none"
)

// Check is one test of the result's trustworthiness.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Severity is how bad it is that the check is not OK.
	Severity Severity `json:"severity" jsonschema:"enum=info,enum=warning,enum=error"`
	Value    float64  `json:"value"`
	Limit    float64  `json:"limit"`
	Message  string   `json:"message"`
}

// Severity grades checks.
type Severity string

// The severities. A check of severity error that is not OK makes the result a
// failed one.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Failed says whether a check of severity [Error] is not OK: the numbers must
// not be used.
func (r *Result) Failed() bool {
	for _, c := range r.Checks {
		if !c.OK && c.Severity == Error {
			return true
		}
	}
	return false
}

// Histograms decodes and merges encoded histograms, those of several clients,
// repeats or results. Empty strings count as empty histograms.
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

// ShortID is the part of an id that is shown to people.
func ShortID(id string) string { return id[:min(8, len(id))] }
