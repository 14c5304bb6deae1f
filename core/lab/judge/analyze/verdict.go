package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
)

// saturated is the utilization from which on a station limits the throughput: by queueing theory,
// its queue is then many times its service time.
const saturated = 0.85

// verdict tries the bounds, the certain ones first: threads without a processor, a late harness, a
// load that was reached, a station that is always busy. If none applies, calls wait for the medium.
func (e *measurements) verdict(a *Analysis, s utilization) Verdict {
	v := Verdict{Evidence: e.weigh(a, s)}
	if c, is := e.failedCheck("oversubscribed"); is {
		v.Bound = ByProcessors
		v.Why = fmt.Sprintf("%g polling threads share %g processors", c.Value, c.Limit)
		v.Message = fmt.Sprintf("%s, and an operation takes %s of processor time: %g processors "+
			"allow %s at most. Use a machine with a core for each polling thread, or fewer "+
			"threads.",
			v.Why, format.Time((e.clientCPU+e.daemonCPU)/e.ops), c.Limit,
			format.Rate(c.Limit*1e9/((e.clientCPU+e.daemonCPU)/e.ops)))
		return v
	}
	if e.open() {
		return e.openVerdict(v)
	}
	if e.spins && s.running < saturated {
		v.Bound = ByProcessors
		v.Why = fmt.Sprintf("threads had a processor %.0f%% of the time", 100*s.running)
		v.Message = fmt.Sprintf("Polling threads never yield, but had a processor only %.0f%% of "+
			"the time: something else runs here. Measure on a quieter machine; ratios within a "+
			"repeat still hold.", 100*s.running)
		return v
	}
	daemonCalls := e.configured() / max(e.daemons(), 1)
	clientBusy := s.client
	if e.cfg.InFlight == 1 { // the client waits for its call; only its own loop counts as busy
		clientBusy = s.harness
	}
	switch {
	case clientBusy >= saturated && clientBusy >= s.daemon:
		v.Bound = ByClients
		v.Why = fmt.Sprintf("clients are busy %.0f%% of the time", 100*clientBusy)
		v.Message = fmt.Sprintf("%s: of the %s that an operation takes a client, %s are "+
			"benchmark overhead and the rest is the transport's work in the client. Add clients "+
			"on separate cores.",
			upper(v.Why), format.Time(float64(e.clients())/e.throughput*1e9*clientBusy),
			format.Time(e.clientHarness()))
	case s.daemon >= saturated && daemonCalls > 1:
		v.Bound = ByDaemons
		v.Why = fmt.Sprintf("daemons are busy %.0f%% of the time", 100*s.daemon)
		v.Message = fmt.Sprintf("%s with %s for each operation, %s requests per loop iteration. "+
			"Add daemons on separate cores.",
			upper(v.Why), format.Time(s.perOp), format.Digits(s.batch))
	default:
		e.transportVerdict(&v, a, s)
		return v
	}
	if lower := min(clientBusy, s.daemon); lower >= saturated {
		v.Message += fmt.Sprintf(
			" The other side is busy %.0f%% of the time and would be the next bound.", 100*lower)
	}
	return v
}

func (e *measurements) openVerdict(v Verdict) Verdict {
	if c, late := e.failedCheck("schedule_lag"); late {
		v.Bound, v.Why = BySchedule, fmt.Sprintf("operations started %s late", format.Time(c.Value))
		v.Message = "The clients were late: " + c.Message + "."
		return v
	}
	if c, behind := e.failedCheck("rate"); behind {
		v.Bound, v.Why = ByTransport, fmt.Sprintf("reached %s of the offered %s",
			format.Rate(e.throughput), format.Rate(float64(e.cfg.Rate)))
		v.Message = upper(v.Why) + ": " + c.Message + "."
		return v
	}
	v.Bound, v.Why = ByLoad, fmt.Sprintf("the offered %s were reached",
		format.Rate(float64(e.cfg.Rate)))
	v.Message = fmt.Sprintf(
		"%s: only the load limits the throughput. Raise --rate to find the limit.", upper(v.Why))
	return v
}

// transportVerdict is the verdict if calls wait and no thread is always busy.
func (e *measurements) transportVerdict(v *Verdict, a *Analysis, s utilization) {
	v.Bound = ByTransport
	latency := e.meanLatency()
	calls := format.Count(e.configured(), "call")
	v.Why = fmt.Sprintf("%s in flight, %s each", calls, format.Time(latency))
	v.Message = fmt.Sprintf("%s in flight, %s each on average, and no thread is always busy",
		upper(calls), format.Time(latency))
	switch {
	case e.cfg.InFlight > 1 && e.rateFloor > 0: // latencies contain the wait for other calls
		ratio := format.Digits(1e9 / e.throughput / e.rateFloor)
		v.Why += "; op/floor " + ratio
		v.Message += fmt.Sprintf(". With as many in flight, the medium needs %s for an "+
			"operation; with nothing else the throughput would be %s times as high",
			format.Time(e.rateFloor), ratio)
	case e.cfg.InFlight == 1 && e.floor > 0:
		v.Why += fmt.Sprintf(", %s times the floor", format.Digits(latency/e.floor))
		v.Message += fmt.Sprintf(". The medium's round trip is %s of that; with nothing else the "+
			"throughput would be %s times as high",
			format.Time(e.floor), format.Digits(latency/e.floor))
	}
	if s.daemon < 0 && e.phases[record.PhaseLoop].Samples == 0 {
		v.Bound = ByNothing
		v.Why = "the results have no times of the daemons' loop"
	}
	if len(a.Breakdowns) > 0 && a.Breakdowns[0].Name != loopName &&
		a.Breakdowns[0].Name != processorName {
		b := &a.Breakdowns[0]
		longest := slices.MaxFunc(b.Parts,
			func(a, b Part) int { return cmp.Compare(a.Mean, b.Mean) })
		v.Message += fmt.Sprintf(". The longest part is %q, %.0f%% of %s", longest.Name,
			100*longest.Share, b.of())
	}
	v.Message += ". Raise --in-flight for more throughput."
}

// weigh lists the figures behind the verdict.
func (e *measurements) weigh(a *Analysis, s utilization) []string {
	lines := []string{fmt.Sprintf("throughput %s, mean service time %s, %s",
		format.Rate(e.throughput), format.Time(e.meanLatency()), e.loadLine())}
	if a.Law != nil {
		lines = append(lines,
			fmt.Sprintf("Little's law: %s calls in flight found, %g configured, residual %.1f%%",
				format.Digits(a.Law.Found), a.Law.Configured, 100*a.Law.Residual))
	}
	if s.daemon >= 0 {
		lines = append(lines, fmt.Sprintf("daemons busy %.0f%% of their processor time: %.1f%% "+
			"of %s loop iterations empty; the others take %s and serve %s requests",
			100*s.daemon, 100*e.emptyLoops/e.loops, counted(e.loops), format.Time(s.busyIteration),
			format.Digits(s.batch)))
	}
	if s.client >= 0 && e.cfg.InFlight > 1 {
		line := fmt.Sprintf("clients busy %.0f%% of their processor time: %.1f%% of %s polls "+
			"found nothing", 100*s.client, 100*e.emptyPolls/max(e.polls, 1), counted(e.polls))
		if !e.cfg.Scheduled() {
			line += fmt.Sprintf(", at %s each", format.Time(s.emptyIteration))
		}
		lines = append(lines, line)
	}
	for _, side := range []string{clientSide, daemonSide} {
		if c, held := mainStall(a.OverTime, side); held {
			lines = append(lines, fmt.Sprintf("main stall on the %s: %s, %.0f%% of the time: %s",
				side, c.Name, 100*c.Mean, c.Help))
		}
	}
	if s.running < saturated {
		lines = append(lines, fmt.Sprintf("polling threads had a processor %.0f%% of the time",
			100*s.running))
	}
	harness := fmt.Sprintf("benchmark overhead: %s per operation, %.0f%% of a client's time",
		format.Time(e.harness.PerOpNS), 100*s.harness)
	if ratio := e.sample(result.BareRatio); ratio > 0 {
		harness += fmt.Sprintf(", most of it while the transport works: p50 is %s x the "+
			"transport alone", format.Digits(ratio))
	}
	lines = append(lines, harness)
	if p := a.Processor; p != nil {
		lines = append(lines, p.Message)
	}
	return lines
}

func (e *measurements) loadLine() string {
	switch e.cfg.Load() {
	case config.LoadOpen:
		return fmt.Sprintf("open loop of %s", format.Rate(float64(e.cfg.Rate)))
	case config.LoadClasses:
		return "classes " + e.cfg.Classes.String()
	}
	return fmt.Sprintf("%s with %d in flight", format.Count(e.clients(), "client"), e.cfg.InFlight)
}

func upper(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
