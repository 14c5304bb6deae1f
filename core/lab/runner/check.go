package runner

import (
	"fmt"
	"iter"
	"math"

	"transportbench/core/base/record"
	"transportbench/core/lab/result"
)

// evidence is the input of the checks.
type evidence struct {
	result         *result.Result
	sampleEvery    int
	pollers, cpus  int
	oversubscribed bool
	closing        []error // of each rank; nil for a rank that closed without an error
}

// clients iterates over the clients of all repeats.
func (e evidence) clients() iter.Seq[record.ClientReport] {
	return func(yield func(record.ClientReport) bool) {
		for i := range e.result.Repeats {
			for _, c := range e.result.Repeats[i].Clients() {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// daemons iterates over the daemons of all repeats.
func (e evidence) daemons() iter.Seq[record.DaemonReport] {
	return func(yield func(record.DaemonReport) bool) {
		for i := range e.result.Repeats {
			for _, d := range e.result.Repeats[i].Daemons() {
				if !yield(d) {
					return
				}
			}
		}
	}
}

// threads iterates over the polling threads of all repeats and their windows in nanoseconds.
func (e evidence) threads() iter.Seq2[record.ThreadReport, uint64] {
	return func(yield func(record.ThreadReport, uint64) bool) {
		for c := range e.clients() {
			if !yield(c.Thread, c.ElapsedNS) {
				return
			}
		}
		for d := range e.daemons() {
			if !yield(d.Thread, d.ElapsedNS) {
				return
			}
		}
	}
}

// finding is the outcome of a check. limit is the bound on value that the check applied.
type finding struct {
	ok           bool
	value, limit float64
	message      string
}

// notJudged completes the finding of a check that does not apply.
func (f finding) notJudged(reason string, args ...any) finding {
	f.ok, f.message = true, "not judged: "+fmt.Sprintf(reason, args...)
	return f
}

// failed is the finding of a check that could not read the result.
func failed(limit float64, err error) finding {
	return finding{value: math.Inf(1), limit: limit, message: err.Error()}
}

// checks are applied to every result, in this order. An error means that the numbers must not be
// used, a warning that they may mislead.
var checks = []struct {
	name     string
	severity result.Severity
	find     func(evidence) finding
}{
	{"complete", result.Error, checkComplete},
	{"verified", result.Error, checkVerified},
	{"stopped_early", result.Error, checkStoppedEarly},
	{"rate", result.Error, checkRate},
	{"consistent", result.Error, checkConsistent},
	{"overlong", result.Warning, checkOverlong},
	{"counters", result.Warning, checkCounters},
	{"littles_law", result.Warning, checkLittlesLaw},
	{"samples", result.Warning, checkSamples},
	{"sampling_cost", result.Warning, checkSamplingCost},
	{"loop_timing_cost", result.Warning, checkLoopTimingCost},
	{"stages", result.Warning, checkStages},
	{"schedule_lag", result.Warning, checkScheduleLag},
	{"drift", result.Warning, checkDrift},
	{"floor_stable", result.Warning, checkFloorStable},
	{"fairness", result.Warning, checkFairness},
	{"collections", result.Warning, checkCollections},
	{"involuntary_switches", result.Warning, checkInvoluntarySwitches},
	{"oversubscribed", result.Warning, checkOversubscribed},
	{"pinned", result.Warning, checkPinned},
	{"closed", result.Warning, checkClosed},
	{"interval", result.Info, checkInterval},
	{"warmup", result.Info, checkWarmup},
}

func runChecks(e evidence) []result.Check {
	list := make([]result.Check, len(checks))
	for i, c := range checks {
		f := c.find(e)
		list[i] = result.Check{
			Name: c.name, OK: f.ok, Severity: c.severity,
			Value: representable(f.value), Limit: f.limit, Message: f.message,
		}
	}
	return list
}

// representable replaces NaN and infinities, which JSON cannot represent.
func representable(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.MaxFloat64
	}
	return v
}
