package analyze

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/format"
	"transportbench/core/transport"
)

// overheads returns all overheads, the largest first.
func (e *measurements) overheads() []Overhead {
	list := []Overhead{}
	for _, of := range []func() []Overhead{e.flushOverhead, e.scanOverhead, e.pressureOverhead,
		e.transportOverheads, e.harnessOverhead} {
		list = append(list, of()...)
	}
	slices.SortStableFunc(list, func(a, b Overhead) int {
		return cmp.Or(cmp.Compare(b.PerOp, a.PerOp), cmp.Compare(b.Share, a.Share))
	})
	return list
}

// flushOverhead is the time that a message waits for its doorbell. In mesh-proxied it is a stage;
// in other topologies a reply waits for half of the other requests of its loop iteration on
// average.
func (e *measurements) flushOverhead() []Overhead {
	policy := fmt.Sprintf("--flush %s", e.cfg.Flush)
	stages, at := e.stages, 1
	what := "a forwarded request waits %s for its doorbell (%s), %.1f%% of a remote request's time"
	if e.direct != nil && e.direct.Halves == "" && e.cfg.Flush == config.FlushLoop {
		stages, at = e.direct, slices.Index(e.direct.Names, record.StageFlush)
		what = "a reply waits %s until it is posted (%s), %.1f%% of an operation's time"
	}
	if stages != nil {
		wait := stages.Spreads[at].Mean
		share := wait / stages.Whole.Mean
		return []Overhead{{Name: "flush", PerOp: wait, Share: share,
			Message: fmt.Sprintf(what, format.Time(wait), policy, 100*share)}}
	}
	turnaround, busy := e.phases[record.PhaseTurnaround].Mean, e.loops-e.emptyLoops
	if turnaround == 0 || busy <= 0 {
		return nil
	}
	if e.cfg.Flush == config.FlushImmediate {
		doorbell := e.phases["flush"].Mean * e.loops / max(e.flushes, 1)
		return []Overhead{{Name: "flush", PerOp: doorbell, Share: doorbell / e.meanLatency(),
			Message: fmt.Sprintf(
				"each reply has its own doorbell (%s), which takes a daemon %s", policy,
				format.Time(doorbell))}}
	}
	batch := max(1, e.requests/busy)
	if batch < 1.05 {
		return nil // each iteration serves one request, so no reply waits for another
	}
	wait := turnaround * (batch - 1) / (2 * batch)
	return []Overhead{{Name: "flush", PerOp: wait, Share: wait / e.meanLatency(),
		Message: fmt.Sprintf(
			"a loop iteration serves %s and rings one doorbell (%s): of its %s, a reply "+
				"waits %s for "+
				"the others on average, and shares the doorbell with them",
			format.Digits(batch)+" requests", policy, format.Time(turnaround), format.Time(wait))}}
}

// scanOverhead is the time in which a daemon checks the clients' links.
func (e *measurements) scanOverhead() []Overhead {
	scan, timed := e.phases["scan"]
	if !timed || e.fromClients == 0 {
		return nil
	}
	each := scan.Mean * e.loops / e.fromClients
	share := scan.Mean / e.phases[record.PhaseLoop].Mean
	return []Overhead{{Name: "scan", PerOp: each, Share: each / e.meanLatency(),
		Message: fmt.Sprintf(
			"scanning the clients' links is %.1f%% of a daemon's loop: %s per iteration, %s per "+
				"request", 100*share, format.Time(scan.Mean), format.Time(each))}}
}

// pressureOverhead counts how often the transport was full.
func (e *measurements) pressureOverhead() []Overhead {
	var clients, daemons, held uint64
	for i := range e.repeats {
		for _, c := range e.repeats[i].Clients() {
			clients += c.BackPressure
		}
		for _, d := range e.repeats[i].Daemons() {
			daemons += d.BackPressure
			if d.Proxy != nil {
				held += d.Proxy.Held
			}
		}
	}
	if clients+daemons+held == 0 {
		return []Overhead{{Name: "back_pressure",
			Message: "the transport accepted every message of clients and daemons"}}
	}
	share := float64(clients+daemons) / e.ops
	text := fmt.Sprintf("the transport took fewer messages than offered %s times (%s of the "+
		"operations): at clients %s times, at daemons %s times",
		counted(float64(clients+daemons)), percent(share), counted(float64(clients)),
		counted(float64(daemons)))
	if held > 0 {
		text += fmt.Sprintf("; in %s loop iterations (%s) daemons held their clients back for it",
			counted(float64(held)), percent(float64(held)/e.loops))
	}
	return []Overhead{{Name: "back_pressure", Share: share, Message: text +
		"; give the transport more room, or have fewer calls in flight"}}
}

// transportOverheads returns the transport's own counters of shortages and retransmissions, per
// operation of the repeats.
func (e *measurements) transportOverheads() []Overhead {
	stats, ops := e.stats()
	var list []Overhead
	for name, s := range stats {
		grown := s.value
		if ops == 0 || !(grown > 0) || s.means != transport.MeansShortage &&
			s.means != transport.MeansRetransmission {
			continue
		}
		o := Overhead{Name: name}
		if strings.HasSuffix(name, "_ns") {
			o.PerOp = grown / ops
			o.Message = fmt.Sprintf("the transport's %s (%s): %s, %s per operation", name, s.help,
				format.Time(grown), format.Time(grown/ops))
		} else {
			o.Share = grown / ops
			o.Message = fmt.Sprintf("the transport's %s (%s): %s, one in %s operations", name,
				s.help, counted(grown), counted(max(ops/grown, 1)))
			if grown > ops {
				o.Message = fmt.Sprintf("the transport's %s (%s): %s, %.1f per operation", name,
					s.help, counted(grown), grown/ops)
			}
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b Overhead) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

type stat struct {
	help  string
	means transport.Meaning
	value float64
}

// stats sums the counters of all workers over the repeats that have some, and returns the
// operations of these. It leaves out levels, whose sum has no meaning.
func (e *measurements) stats() (sum map[string]stat, ops float64) {
	sum = map[string]stat{}
	has := false
	add := func(list []transport.Stat) {
		has = has || len(list) > 0
		for _, s := range list {
			if !s.Level {
				sum[s.Name] = stat{s.Help, s.Means, sum[s.Name].value + float64(s.Value)}
			}
		}
	}
	for i := range e.repeats {
		has = false
		done := uint64(0)
		for _, c := range e.repeats[i].Clients() {
			add(c.Transport)
			done += c.Ops()
		}
		for _, d := range e.repeats[i].Daemons() {
			add(d.Transport)
		}
		if has {
			ops += float64(done)
		}
	}
	return sum, ops
}

// harnessOverhead is the cost of the harness on a client.
func (e *measurements) harnessOverhead() []Overhead {
	each := e.clientHarness()
	if each == 0 || e.clientTime == 0 {
		return nil
	}
	share := e.utilization().harness
	verify := ""
	if e.harness.VerifyNS < each { // they are measured separately
		verify = fmt.Sprintf(" (%s of it to verify checksums)", format.Time(e.harness.VerifyNS))
	}
	daemon := ""
	if e.harness.DaemonNS > 0 {
		daemon = fmt.Sprintf("; it takes a daemon %s", format.Time(e.harness.DaemonNS))
	}
	return []Overhead{{Name: "benchmark overhead", PerOp: each, Share: share, Message: fmt.Sprintf(
		"it takes a client %s per operation%s, %.0f%% of its time; much of it while the "+
			"transport works%s",
		format.Time(each), verify, 100*share, daemon)}}
}

// percent formats a share; a small one has two significant digits.
func percent(share float64) string {
	if share > 0 && share < 0.0005 {
		return fmt.Sprintf("%.2g%%", 100*share)
	}
	return fmt.Sprintf("%.1f%%", 100*math.Abs(share))
}
