package calibration

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"transportbench/core/base/machine"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Kind is the kind of the document.
const Kind = result.KindCalibration

// SchemaVersion is the version of the document that this package writes.
const SchemaVersion = "2.0.0"

// FileName is the name of the document in the directory of a set that was measured on the same
// machine.
const FileName = "calibration.json"

// Document is one calibration of one machine.
type Document struct {
	SchemaVersion string `json:"schema_version" jsonschema:"pattern=^2\\.[0-9]+\\.[0-9]+$"`
	Kind          string `json:"kind" jsonschema:"enum=calibration"`
	// ID is 128 random bits in hex.
	ID string `json:"id" jsonschema:"pattern=^[0-9a-f]{32}$"`
	// StartedAt is in UTC. TookS is the time in seconds that was spent measuring, over all parts of
	// a calibration that was resumed.
	StartedAt   time.Time           `json:"started_at"`
	TookS       float64             `json:"took_s"`
	Argv        []string            `json:"argv"`
	Tool        result.Tool         `json:"tool"`
	Plugin      result.Plugin       `json:"plugin"` // the transport "calibration"
	Environment machine.Environment `json:"environment"`
	// Quick marks a calibration that is too short to bound rates and power.
	Quick bool `json:"quick,omitempty"`
	// Alpha is the significance level of every comparison.
	Alpha float64 `json:"alpha"`

	// The conclusions follow from Experiments; see [Conclude].
	Recovery      []Recovery      `json:"recovery"`
	Observer      []Observer      `json:"observer"`
	Resolution    Resolution      `json:"resolution"`
	FalseVerdicts []FalseVerdicts `json:"false_verdicts"`
	Power         []Power         `json:"power"`
	// Drift is absent if there are too few comparisons to tell.
	Drift *Drift `json:"drift,omitempty"`
	// Pairs is absent unless calibrate pairs has added it. It does not follow from Experiments.
	Pairs *Pairs `json:"pairs,omitempty"`

	Experiments []Experiment `json:"experiments"`
}

// Length returns "full" or "quick", and what a quick one cannot say.
func (d *Document) Length() string {
	if d.Quick {
		return "quick, too short to bound rates and power"
	}
	return "full"
}

// Experiment is what was measured for one purpose. The i-th windows of its cells are one round.
type Experiment struct {
	// Name is one of the constants Experiment*.
	Name string `json:"name"`
	// Loaded is set if every processor also ran a process that spins.
	Loaded bool `json:"loaded,omitempty"`
	// Unit and Known describe what is known of the cells, in the order of Set.Cells: the injected
	// delay in ns, the rate in op/s, the added time as a share of an operation, and so on. The
	// reference, of which nothing was changed, has 0.
	Unit  string    `json:"unit"`
	Known []float64 `json:"known"`
	// Discarded counts by cell the launches that failed and were made again; absent if there were
	// none.
	Discarded []int `json:"discarded,omitempty"`
	// Set has the cells with their windows, and samples of the metrics that are needed.
	Set *set.Set `json:"set"`
}

// Estimate is a value with its 95% interval, which is absent if there are too few windows for one.
type Estimate struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

// UnmarshalJSON refuses an interval with one bound, because users of conclusions rely on both. The
// figures follow from the experiments.
func (e *Estimate) UnmarshalJSON(text []byte) error {
	type plain Estimate
	if err := json.Unmarshal(text, (*plain)(e)); err != nil {
		return err
	}
	if (e.Low == nil) != (e.High == nil) {
		return fmt.Errorf("the interval of %g has one bound only", e.Value)
	}
	return nil
}

// transform applies an ascending function to the value and its interval.
func (e Estimate) transform(f func(float64) float64) Estimate {
	t := Estimate{Value: f(e.Value)}
	if e.Low != nil {
		t.Low, t.High = new(f(*e.Low)), new(f(*e.High))
	}
	return t
}

// Recovery compares a known quantity with what was measured.
type Recovery struct {
	// "delay", "rate", "exponential delay: p99", "stall: p99, open loop", ...
	Quantity string `json:"quantity"`
	Unit     string `json:"unit"` // "ns", "op/s", "share"
	// Known is what was injected, or what follows from it in theory.
	Known    float64  `json:"known"`
	Measured Estimate `json:"measured"`
	Windows  int      `json:"windows"` // with the quantity injected
	// Tolerance is the error that the project promises, in Unit; 0 if it promises none here. Within
	// is set if Measured.Value is within Tolerance of Known, and the interval reaches no further
	// than Tolerance from Measured.Value.
	Tolerance float64 `json:"tolerance,omitempty"`
	Within    bool    `json:"within,omitempty"`
}

// Beyond reports whether the estimate breaks the promise.
func (r *Recovery) Beyond() bool {
	return r.Tolerance > 0 && math.Abs(r.Measured.Value-r.Known) > r.Tolerance
}

// Bias returns the measured minus the known value, with its interval.
func (r *Recovery) Bias() Estimate {
	return r.Measured.transform(func(v float64) float64 { return v - r.Known })
}

// Observer is the effect of timing one of SampleEvery operations on throughput, relative to timing
// none.
type Observer struct {
	SampleEvery int      `json:"sample_every"`
	InFlight    int      `json:"in_flight"`
	Change      Estimate `json:"change"` // as a share; negative if it costs throughput
	Windows     int      `json:"windows"`
}

// Resolution is the smallest delay that a comparison of Repeats repeats a side tells from none.
type Resolution struct {
	Repeats int `json:"repeats"`
	// Delay in ns is the smallest one that was found in at least FoundShare of the trials, as was
	// every longer one; 0 if none was.
	Delay      float64  `json:"delay_ns"`
	FoundShare float64  `json:"found_share"`
	Trials     []Trials `json:"trials"`
}

// Trials counts the comparisons that found a known change.
type Trials struct {
	// Known is a delay in ns, or a change as a share. Of power, it is what was measured over all
	// rounds, because a burn costs more than its time; Sought is what was to be injected.
	Known  float64 `json:"known"`
	Sought float64 `json:"sought,omitempty"`
	Count  int     `json:"count"` // of trials
	// Found counts those that differ significantly from no change in the right direction, and Wrong
	// those in the wrong one.
	Found int `json:"found"`
	Wrong int `json:"wrong"`
	// Beyond counts those that diff calls worse with its default minimum effect, which a change
	// must significantly exceed.
	Beyond int `json:"beyond"`
	// Share is Found over Count with its exact 95% interval (Clopper and Pearson 1934).
	Share Estimate `json:"share"`
}

// FalseVerdicts counts the comparisons of a configuration with itself that reported a difference.
type FalseVerdicts struct {
	Method  string `json:"method"` // "diff", "along" or "ab"
	Repeats int    `json:"repeats"`
	// Comparisons is how many were made, each of Tests tests.
	Comparisons int `json:"comparisons"`
	Tests       int `json:"tests"`
	// False counts those in which any test was significant, and Beyond those in which any change
	// was significantly beyond the default minimum effect.
	False  int `json:"false"`
	Beyond int `json:"beyond"`
	// Share is False over Comparisons with its exact 95% interval. Within is set if the interval is
	// not wholly above alpha, of at least 100 comparisons: fewer bound nothing.
	Share  Estimate `json:"share"`
	Within bool     `json:"within"`
}

// Power is how often known changes of one load were found.
type Power struct {
	Load string `json:"load"` // for people
	// Class is the class of operations, "memory" or "sockets". It is empty in calibrations until
	// 0.8.0, which slowed down operations that were padded by 2 us: they are not shown.
	Class   string   `json:"class,omitempty"`
	Loaded  bool     `json:"loaded,omitempty"`
	Repeats int      `json:"repeats"`
	Trials  []Trials `json:"trials"` // by size of the change
}
