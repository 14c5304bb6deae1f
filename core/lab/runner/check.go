package runner

import (
	"math"

	"transportbench/core/lab/result"
)

// evidence is what the checks look at.
type evidence struct {
	result         *result.Result
	sampleEvery    int
	pollers, cpus  int
	oversubscribed bool
	closing        []error // of each rank; nil for those that closed well
}

// finding is a check's outcome. A value is judged against limit by the check
// itself; ok is its verdict.
type finding struct {
	ok           bool
	value, limit float64
	message      string
}

type check struct {
	name     string
	severity result.Severity
	find     func(evidence) finding
}

// checks run over every result, in this order. Errors mean that the numbers
// must not be used, warnings that they may not mean what they seem to, and
// infos that something is worth knowing.
var checks = []check{
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

// representable turns what JSON has no number for into the largest one.
func representable(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.MaxFloat64
	}
	return v
}
