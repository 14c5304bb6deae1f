package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
)

// limit returns the lowest throughput bound of all stations (asymptotic bounds of operational
// analysis; Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978), or nil
// if no bound is known. It is the median over the windows of the lowest bound measured beside each.
func (e *measurements) limit(s utilization) *Limit {
	l := &Limit{Measured: e.throughput, Bounds: e.bounds(s)}
	if len(l.Bounds) == 0 {
		return nil
	}
	throughputs := map[string][]float64{}
	var limits []float64
	for _, w := range e.windows {
		lowest := 0.0
		for _, b := range w.bounds(utilizationOf(w.totals, timedIterations(&w.repeats[0]),
			e.cfg.Scheduled())) {
			throughputs[b.Name] = append(throughputs[b.Name], b.Throughput)
			if lowest == 0 || b.Throughput < lowest {
				lowest = b.Throughput
			}
		}
		if lowest > 0 {
			limits = append(limits, lowest)
		}
	}
	for i := range l.Bounds {
		if list := throughputs[l.Bounds[i].Name]; len(list) > 0 {
			l.Bounds[i].Throughput = record.Median(list)
		}
	}
	slices.SortStableFunc(l.Bounds, func(a, b LimitBound) int {
		return cmp.Compare(a.Throughput, b.Throughput)
	})
	l.Throughput = record.Median(limits)
	if l.Throughput > 0 {
		l.Share = l.Measured / l.Throughput
	}
	return l
}

// bounds returns the bound of each station for which there are figures.
func (e *measurements) bounds(s utilization) []LimitBound {
	var list []LimitBound
	add := func(name string, throughput float64, format string, args ...any) {
		if throughput > 0 {
			list = append(list, LimitBound{name, throughput, fmt.Sprintf(format, args...)})
		}
	}
	share := e.transported()
	if e.open() {
		add("load", float64(e.cfg.Rate), "the offered rate")
	} else if e.floor > 0 && share > 0 {
		mean := share * e.floor
		what := fmt.Sprintf("a round trip of the bare medium takes %s", format.Time(e.floor))
		if share < 1 {
			what += fmt.Sprintf(", and %.0f%% of the requests need one", 100*share)
		}
		add("round trip", float64(e.configured())/mean*1e9, "%s, and %s in flight", what,
			calls(e.configured()))
	}
	if e.rateFloor > 0 && share == 1 && (e.cfg.CallsPerPair() > 1 || e.open()) {
		add("medium's rate", 1e9/e.rateFloor,
			"the bare medium takes %s per operation with as many in flight",
			format.Time(e.rateFloor))
	}
	if s.perOp > 0 {
		add("daemons", float64(e.daemons())/s.perOp*1e9,
			"a daemon is busy %s with each operation; %s", format.Time(s.perOp),
			thereAre(e.daemons()))
	}
	if each := e.clientHarness(); each > 0 {
		add("benchmark overhead", float64(e.clients())/each*1e9,
			"a client's loop takes %s per operation with a transport that completes at once; %s",
			format.Time(each), thereAre(e.clients()))
	}
	if c, over := e.failedCheck("oversubscribed"); over {
		each := (e.clientCPU + e.daemonCPU) / e.ops
		add("processors", c.Limit/each*1e9,
			"%g processors, of which an operation takes %s, including spinning", c.Limit,
			format.Time(each))
	}
	return list
}

// mix returns the mean times of local and remote requests of a mesh and the share of remote ones.
// ok is false unless there are both.
func (e *measurements) mix() (local, remote, share float64, ok bool) {
	var near, far, nearTime, farTime float64
	for i := range e.repeats {
		for _, c := range e.repeats[i].Clients() {
			if c.Local != nil && c.Remote != nil {
				near, nearTime = near+float64(c.Local.Samples),
					nearTime+c.Local.MeanNS*float64(c.Local.Samples)
				far, farTime = far+float64(c.Remote.Samples),
					farTime+c.Remote.MeanNS*float64(c.Remote.Samples)
			}
		}
	}
	if near == 0 || far == 0 {
		return 0, 0, 0, false
	}
	return nearTime / near, farTime / far, far / (near + far), true
}

// transported returns the share of the requests that use the transport: in mesh-proxied those to
// other ranks, else all.
func (e *measurements) transported() float64 {
	if !e.cfg.Proxied() {
		return 1
	}
	if _, _, share, ok := e.mix(); ok {
		return share
	}
	return e.forwarded / max(e.fromClients, 1)
}

func calls(n int) string {
	if n == 1 {
		return "1 call is"
	}
	return fmt.Sprintf("%d calls are", n)
}

func thereAre(n int) string {
	if n == 1 {
		return "there is 1"
	}
	return fmt.Sprintf("there are %d", n)
}
