package analyze

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/aclements/go-moremath/stats"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/judge/consistency"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// measurements holds the repeats of one configuration and their sums.
type measurements struct {
	cfg     config.Config
	spins   bool // polling threads never yield or park
	repeats []result.Repeat
	checks  []result.Finding
	// harness has the medians over the repeats.
	harness record.Overhead
	windows []*measurements // of each repeat by itself
	// phases and stages are nil if nothing was timed.
	phases map[string]result.Spread
	stages *result.Stages
	direct *result.Stages // of calls of clients to daemons

	totals
}

// totals are sums over repeats. Times are in nanoseconds, summed over threads.
type totals struct {
	ops, requests              float64
	clientTime, daemonTime     float64 // lengths of the windows
	clientCPU, daemonCPU       float64
	clientBusy, daemonBusy     float64 // in iterations that found work; 0 if unknown
	processCPU                 float64
	polls, emptyPolls          float64
	loops, emptyLoops, flushes float64
	fromClients, forwarded     float64 // requests that daemons of mesh-proxied took and passed on
	throughput                 float64 // op/s of all clients, median over repeats
	inFlight                   float64 // by Little's law, median over repeats
	// floor is the geometric mean over repeats of the medium's round trip, or of the library's if
	// only that is known. rateFloor is the time per operation that the medium allows. Both are 0 if
	// unknown.
	floor, rateFloor float64
	// latency is the median over repeats of the exact mean service time; 0 if unknown.
	latency float64
}

// Results analyzes the results of one configuration. The repeats of several results count together.
// It fails if there is no complete repeat.
func Results(list []*result.Result) (*Analysis, error) {
	e, err := gather(list)
	if err != nil {
		return nil, err
	}
	first := list[0]
	s := e.utilization()
	a := &Analysis{
		Transport: first.Plugin.Name, Provider: first.Plugin.Provider, Repeats: len(e.repeats),
		Replay:   first.Replay,
		Findings: findings(e.checks), Breakdowns: e.breakdowns(), Law: e.law(),
		Overheads: e.overheads(),
		Processor: e.processorTime(), Stalls: e.stalls(),
		OverTime: e.timeSeries(), Threads: e.threads(), NoCounters: noCounters(e.repeats),
	}
	if a.ReplayTimes, err = ReplayTimesOf(list); err != nil {
		return nil, err
	}
	a.Model, a.Limit = e.model(s), e.limit(s)
	a.Verdict = e.verdict(a, s)
	a.Missing = e.missing()
	return a, nil
}

func gather(list []*result.Result) (*measurements, error) {
	if len(list) == 0 {
		return nil, errors.New("there is no result to analyze")
	}
	e := &measurements{cfg: list[0].Config, spins: true}
	for _, p := range list[0].Placement {
		e.spins = e.spins && p.Idle == config.IdleSpin
	}
	var harness []record.Overhead // of each repeat
	for _, r := range list {
		e.repeats = append(e.repeats, r.Repeats...)
		for i := range r.Repeats {
			if own := r.Repeats[i].Overhead; own != nil {
				harness = append(harness, *own)
			} else { // 1.x measured it once
				harness = append(harness, r.Overhead)
			}
		}
		e.checks = append(e.checks, r.Checks...)
	}
	if len(e.repeats) == 0 {
		return nil, fmt.Errorf("result %s has no complete repeat: %s", result.ShortID(list[0].ID),
			list[0].IncompleteReason)
	}
	e.totals, e.harness = sum(e.repeats), medianOverhead(harness)
	for i := range e.repeats {
		one := e.repeats[i : i+1]
		e.windows = append(e.windows, &measurements{cfg: e.cfg, spins: e.spins, repeats: one,
			checks: e.checks, harness: harness[i], totals: sum(one)})
	}
	if e.ops == 0 {
		return nil, fmt.Errorf("result %s has no completed operation", result.ShortID(list[0].ID))
	}
	var err error
	if e.phases, err = result.PhasesOf(e.repeats); err != nil {
		return nil, err
	}
	if e.stages, err = result.StagesOf(e.repeats); e.stages != nil && e.stages.Direct {
		e.stages, e.direct = nil, e.stages
	}
	return e, err
}

func sum(repeats []result.Repeat) (t totals) {
	var floors, rateFloors, latencies, throughputs, inFlight []float64
	for i := range repeats {
		r := &repeats[i]
		clients := r.Clients()
		throughput, calls := 0.0, 0.0
		for j := range clients {
			c := &clients[j]
			t.ops += float64(c.Ops())
			t.clientTime += float64(c.ElapsedNS)
			t.clientCPU += float64(c.Thread.CPUNS)
			t.clientBusy += float64(c.BusyNS)
			t.polls += float64(c.Polls)
			t.emptyPolls += float64(c.EmptyPolls)
			rate := result.PerSecond(c.Ops(), c.ElapsedNS)
			throughput, calls = throughput+rate, calls+consistency.InFlight(rate, c.MeanNS)
		}
		for _, report := range r.Ranks {
			t.processCPU += float64(report.Process.CPUNS)
		}
		throughputs = append(throughputs, throughput)
		inFlight = append(inFlight, calls)
		for _, d := range r.Daemons() {
			t.requests += float64(d.Requests)
			t.daemonTime += float64(d.ElapsedNS)
			t.daemonCPU += float64(d.Thread.CPUNS)
			t.daemonBusy += float64(d.BusyNS)
			t.loops += float64(d.Loops)
			t.emptyLoops += float64(d.EmptyLoops)
			t.flushes += float64(d.Flushes)
			if p := d.Proxy; p != nil {
				t.fromClients += float64(p.FromClients)
				t.forwarded += float64(p.Remote)
			}
		}
		if floor := cmp.Or(r.Samples[result.Floor], r.Samples[result.Library]); floor > 0 {
			floors = append(floors, floor)
		}
		if floor := r.Samples[result.RateFloor]; floor > 0 {
			rateFloors = append(rateFloors, floor)
		}
		if latency := r.Samples[result.LatencyMean]; latency > 0 {
			latencies = append(latencies, latency)
		}
	}
	t.rateFloor, t.latency = record.Median(rateFloors), record.Median(latencies)
	if len(floors) > 0 {
		t.floor = stats.GeoMean(floors)
	}
	t.throughput, t.inFlight = record.Median(throughputs), record.Median(inFlight)
	return t
}

// medianOverhead returns the medians of the costs of the harness.
func medianOverhead(list []record.Overhead) record.Overhead {
	return medians(list, func(o *record.Overhead) []*float64 {
		return []*float64{&o.PerOpNS, &o.ClientNS, &o.DaemonNS, &o.VerifyNS, &o.StampNS}
	})
}

// medians returns the median of each of the fields.
func medians[T any](list []T, fields func(*T) []*float64) (middle T) {
	for i, field := range fields(&middle) {
		values := make([]float64, len(list))
		for k := range list {
			values[k] = *fields(&list[k])[i]
		}
		*field = record.Median(values)
	}
	return middle
}

// clientHarness returns the time that the harness takes a client for an operation.
func (e *measurements) clientHarness() float64 {
	return cmp.Or(e.harness.ClientNS, e.harness.PerOpNS)
}

// meanLatency returns the mean service time over all operations: the exact one, or if that is
// unknown the one of the sampled operations.
func (e *measurements) meanLatency() float64 {
	return cmp.Or(e.latency, e.inFlight/e.throughput*1e9)
}

// sample returns the median over repeats of a metric, or 0 if it is unknown.
func (e *measurements) sample(metric string) float64 {
	var values []float64
	for i := range e.repeats {
		if v, has := e.repeats[i].Samples[metric]; has {
			values = append(values, v)
		}
	}
	return record.Median(values)
}

// clients, configured and daemons return the numbers of clients, of calls in flight, and of daemons
// that the configuration has.
func (e *measurements) clients() int    { return e.cfg.TotalClients() }
func (e *measurements) configured() int { return e.cfg.CallsInFlight() }
func (e *measurements) daemons() int    { return e.cfg.ServingRanks() * e.cfg.Daemons }

// open reports whether the load is an open loop, other than one that keeps all calls in flight to
// find the capacity.
func (e *measurements) open() bool { return e.cfg.Load() == config.LoadOpen }

func (e *measurements) failedCheck(name string) (result.Finding, bool) {
	for _, c := range e.checks {
		if c.Name == name && !c.OK {
			return c, true
		}
	}
	return result.Finding{}, false
}

// law returns nil for an open loop, in which the number of calls in flight varies.
func (e *measurements) law() *LittlesLaw {
	if e.cfg.Scheduled() {
		return nil
	}
	configured := float64(e.configured())
	return &LittlesLaw{
		Throughput: e.throughput, Latency: e.inFlight / e.throughput * 1e9, Found: e.inFlight,
		Configured: configured,
		Residual:   (configured - e.inFlight) / configured,
	}
}

// findings returns the failed checks, each name once.
func findings(checks []result.Finding) []result.Finding {
	found, seen := []result.Finding{}, map[string]bool{}
	for _, c := range result.Failed(checks) {
		if !seen[c.Name] {
			seen[c.Name] = true
			found = append(found, c)
		}
	}
	return found
}

// missing lists what the results lack.
func (e *measurements) missing() []string {
	var lines []string
	if e.floor == 0 {
		lines = append(lines, "no floor, so no round trip to compare with: "+
			cmp.Or(e.repeats[0].Before.Note, "the results do not say why"))
	}
	if turnaround := e.phases[record.PhaseTurnaround].Mean; e.direct == nil && e.floor > 0 &&
		turnaround > 0 && e.floor+turnaround > e.meanLatency() {
		lines = append(lines, fmt.Sprintf("no parts of an operation: the floor (%s) and the "+
			"daemon's turnaround (%s) add up to more than its %s; the floor may have moved",
			format.Time(e.floor), format.Time(turnaround), format.Time(e.meanLatency())))
	}
	if len(e.phases) == 0 {
		lines = append(lines, "no times of the daemons' loop: none was sampled")
	}
	if e.cfg.Proxied() && e.stages == nil {
		lines = append(lines, "no stages: no remote request was sampled")
	}
	return lines
}
