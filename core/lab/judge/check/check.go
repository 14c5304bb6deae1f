package check

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// Evidence is the input of the checks: a result, and what the run that made it knows besides.
type Evidence struct {
	Result *result.Result
	// Pollers is the number of polling threads of the busiest host, and CPUs that of its
	// processors.
	Pollers, CPUs  int
	Oversubscribed bool
	Closing        []error // of each rank; nil for a rank that closed without an error
}

// Add adds what the checks of a finished result say of its run.
func (e *Evidence) Add(part *result.Result) {
	for _, c := range part.Checks {
		switch c.Name {
		case oversubscribed:
			e.Pollers, e.CPUs = int(c.Value), int(c.Limit)
			e.Oversubscribed = e.Oversubscribed || !c.OK
		case closed:
			for range int(c.Value) {
				e.Closing = append(e.Closing, errors.New(c.Message))
			}
		}
	}
}

// clients returns the clients of all repeats.
func (e Evidence) clients() (all []record.ClientReport) {
	for i := range e.Result.Repeats {
		all = append(all, e.Result.Repeats[i].Clients()...)
	}
	return all
}

// daemons returns the daemons of all repeats.
func (e Evidence) daemons() (all []record.DaemonReport) {
	for i := range e.Result.Repeats {
		all = append(all, e.Result.Repeats[i].Daemons()...)
	}
	return all
}

// sampling names the latency sampling of all clients, which each process start chooses by itself:
// "100", or "100 to 250".
func (e Evidence) sampling() string {
	low, high := 0, 0
	for i := range e.Result.Repeats {
		for _, report := range e.Result.Repeats[i].Ranks {
			if n := sampleEvery(&report); len(report.Clients) > 0 {
				high = max(high, n)
				if low == 0 || n < low {
					low = n
				}
			}
		}
	}
	if low == high {
		return strconv.Itoa(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}

// sampleEvery returns the latency sampling of a rank's clients in one window.
func sampleEvery(report *record.Report) int { return max(report.SampleEvery, 1) }

// starts returns the starts of the ranks, also for a result of 1.x, which has one.
func (e Evidence) starts() []result.Launch {
	if len(e.Result.Launches) == 0 {
		return []result.Launch{{Placement: e.Result.Placement, Setup: e.Result.Setup}}
	}
	return e.Result.Launches
}

type threadWindow struct {
	record.ThreadReport
	elapsedNS uint64
}

// threads returns the polling threads of all repeats.
func (e Evidence) threads() (all []threadWindow) {
	for _, c := range e.clients() {
		all = append(all, threadWindow{c.Thread, c.ElapsedNS})
	}
	for _, d := range e.daemons() {
		all = append(all, threadWindow{d.Thread, d.ElapsedNS})
	}
	return all
}

// notJudged completes the finding of a check that does not apply.
func notJudged(f result.Finding, reason string, args ...any) result.Finding {
	f.OK, f.NotJudged, f.Message = true, true, result.Unjudged+fmt.Sprintf(reason, args...)
	return f
}

// say formats a part of a finding, its effect or its remedy, for its message.
func say(part *string, format string, args ...any) string {
	*part = fmt.Sprintf(format, args...)
	return *part
}

// failed is the finding of a check that could not read the result.
func failed(limit float64, err error) result.Finding {
	return result.Finding{Value: math.Inf(1), Limit: limit, Message: err.Error()}
}

// checks are applied to every result, in this order. An error means that the numbers must not be
// used, a warning that they may mislead. A check about a quantity judges its share of all windows,
// or its median over them, because the worst of many windows grows with their number. Its message
// has the effect on the result.
var checks = []struct {
	name     string
	severity result.Severity
	find     func(Evidence) result.Finding
	scope    result.Scope
	// cause is a check whose failure explains that of this one, which is then not judged: one
	// disturbance, one warning.
	cause string
	// applies reports whether results have the check, unless all do.
	applies func(*result.Result) bool
}{
	{name: "complete", severity: result.Error, find: checkComplete},
	{name: "verified", severity: result.Error, find: checkVerified},
	{name: "stopped_early", severity: result.Error, find: checkStoppedEarly},
	{name: "served", severity: result.Error, find: checkServed},
	{name: "path", severity: result.Error, find: checkPath},
	{name: "clock", severity: result.Error, find: checkClock},
	{name: "rate", severity: result.Error, find: checkRate},
	{name: "replay", severity: result.Error, find: checkReplay, applies: isReplayed},
	{name: "window", severity: result.Warning, find: checkWindow, cause: "preempted"},
	{name: "mean", severity: result.Warning, find: checkMean},
	{name: set.FloorBeaten, severity: result.Warning, find: checkFloorBeaten},
	{name: "ceiling", severity: result.Error, find: checkCeiling},
	{name: "probes", severity: result.Warning, find: checkProbes},
	{name: "witness", severity: result.Info, find: checkWitness, applies: isWitnessed},
	{name: "sampling_cost", severity: result.Info, find: checkSamplingCost},
	{name: "loop_timing_cost", severity: result.Info, find: checkLoopTimingCost},
	{name: "stages", severity: result.Warning, find: checkStages},
	{name: "schedule_lag", severity: result.Warning, find: checkScheduleLag},
	{name: "drift", severity: result.Warning, find: checkDrift, cause: "preempted"},
	{name: "mixed", severity: result.Warning, find: checkMixed},
	{name: "disturbed_windows", severity: result.Warning, find: checkDisturbedWindows},
	{name: "starved", severity: result.Warning, find: checkStarved},
	{name: "empty_windows", severity: result.Warning, find: checkEmptyWindows},
	{name: "traffic", severity: result.Warning, find: checkTraffic},
	{name: "steal", severity: result.Warning, find: checkSteal},
	{name: "preempted", severity: result.Warning, find: checkPreempted},
	{name: "storm", severity: result.Warning, find: checkStorm, applies: isStorm},
	{name: "relay", severity: result.Warning, find: checkRelay, applies: isRelayed},
	{name: "fairness", severity: result.Warning, find: checkFairness},
	{name: "collections", severity: result.Warning, find: checkCollections},
	{name: "pinned", severity: result.Warning, find: checkPinned},
	{name: "machines", severity: result.Warning, find: checkMachines, scope: result.ScopeMachine,
		applies: namesHosts},
	{name: closed, severity: result.Warning, find: checkClosed},
	{name: "strangers", severity: result.Warning, find: checkStrangers},
	{name: "interval", severity: result.Info, find: checkInterval},
	{name: "warmup", severity: result.Info, find: checkWarmup, cause: "preempted"},
	{name: oversubscribed, severity: result.Warning, find: checkOversubscribed,
		scope: result.ScopeMachine},
	{name: "spare_processor", severity: result.Info, find: checkSpareProcessor,
		scope: result.ScopeMachine},
	{name: "virtual_machine", severity: result.Info, find: checkVirtualMachine,
		scope: result.ScopeMachine},
}

// The checks that [Evidence.Add] reads.
const (
	closed         = "closed"
	oversubscribed = "oversubscribed"
)

func namesHosts(r *result.Result) bool  { return len(r.Hosts) > 0 }
func isWitnessed(r *result.Result) bool { return r.Witness != nil }
func isReplayed(r *result.Result) bool  { return r.Config.Replays() }
func isStorm(r *result.Result) bool     { return r.Config.Traffic.StormRate() > 0 }
func isRelayed(r *result.Result) bool   { return r.ImpairedBy == result.Relay }

// Run applies the checks that apply to a result, in a fixed order.
func Run(e Evidence) []result.Finding {
	list := make([]result.Finding, 0, len(checks))
	causes := make([]string, 0, len(checks)) // of the findings in list
	failed := map[string]bool{}
	for _, c := range checks {
		if c.applies != nil && !c.applies(e.Result) {
			continue
		}
		f := c.find(e)
		f.Name, f.Severity, f.Scope, f.Value = c.name, cmp.Or(f.Severity, c.severity), c.scope,
			representable(f.Value)
		list, causes, failed[c.name] = append(list, f), append(causes, c.cause), !f.OK
	}
	for i := range list {
		if f := &list[i]; !f.OK && failed[causes[i]] {
			*f = notJudged(*f, "%s explains it: %s", causes[i], f.Message)
			f.Effect, f.Remedy = "", ""
		}
	}
	return list
}

// overWindows returns the median of a quantity over the repeats for which it is known, and their
// number.
func (e Evidence) overWindows(of func(*result.Repeat) (value float64, ok bool)) (middle float64,
	windows int) {
	var values []float64
	for i := range e.Result.Repeats {
		if v, ok := of(&e.Result.Repeats[i]); ok && !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return record.Median(values), len(values)
}

// percent formats a share with two digits.
func percent(share float64) string {
	p := 100 * share
	switch {
	case math.Abs(p) < 0.005:
		return "0%"
	case math.Abs(p) < 9.95:
		return fmt.Sprintf("%.2g%%", p)
	}
	return fmt.Sprintf("%.0f%%", p)
}

// representable replaces NaN and infinities, which JSON cannot represent.
func representable(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.MaxFloat64
	}
	return v
}
