package accept

import (
	"fmt"
	"maps"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

const (
	// tick is by how much processor time may exceed the time on the clock: the kernel counts it in
	// ticks, up to 10 ms long, and several threads end theirs at once.
	tick = 100 * time.Millisecond
	// maxSampling bounds the distance between two samples.
	maxSampling = 1 << 20
	// maxTimes is how many times longer a rank may say that something took than the host measured.
	// The check clock of a result has the exact bound; this one is for figures that no clock
	// explains.
	maxTimes = 2
)

// limitOf returns the longest time in nanoseconds that a rank may report of a call that took that
// long. No thread counts more than one of anything per nanosecond, so it also bounds counts.
func limitOf(took time.Duration) uint64 { return maxTimes * uint64(max(took, 1)) }

// window bounds the report of one window.
type window struct {
	plan *record.Plan
	spec *record.Window
	took time.Duration // on the host: from the call of Run to the report
	// failed means that the rank failed, so that threads may not have begun to measure.
	failed bool
}

func (w *window) check(r *record.Report) error {
	if err := w.host().check("report", r); err != nil {
		return err
	}
	for i := range r.Clients {
		cfg, c := w.plan.Config.OfClient(i), &r.Clients[i]
		place := fmt.Sprintf("report.clients[%d]", i)
		// A read-modify-write moves a value twice, and so does an echo.
		values := float64(2*c.Ops() + uint64(max(cfg.InFlight, 0)))
		if high := values * float64(cfg.ValueSize.Max()); float64(c.PayloadBytes) > high {
			return wrong(place+".payload_bytes", fmt.Sprint(c.PayloadBytes),
				fmt.Sprintf("at most %.0f", high))
		}
		for rank, peer := range c.Peers {
			if peer.Rank != rank {
				return wrong(fmt.Sprintf("%s.peers[%d].rank", place, rank), fmt.Sprint(peer.Rank),
					fmt.Sprint(rank))
			}
		}
		if err := checkTrace(place, c.Trace); err != nil {
			return err
		}
	}
	for i := range r.Daemons {
		if err := checkTrace(fmt.Sprintf("report.daemons[%d]", i), r.Daemons[i].Trace); err != nil {
			return err
		}
	}
	return nil
}

// checkTrace checks that the steps of transfers are in the order of time.
func checkTrace(place string, list []transport.Transfer) error {
	for i, one := range list {
		place, last := fmt.Sprintf("%s.trace[%d]", place, i), int64(0)
		for _, s := range one.Steps {
			if s.Begin < last {
				return wrong(place+".steps", fmt.Sprint(s.Begin), fmt.Sprint("at least ", last))
			}
			last = s.Begin
		}
		if one.End < last {
			return wrong(place+".end_unix_ns", fmt.Sprint(one.End), fmt.Sprint("at least ", last))
		}
	}
	return nil
}

// host returns what the host knows of the window.
func (w *window) host() *host {
	cfg := &w.plan.Config
	daemons, clients := cfg.Threads(w.plan.Rank)
	low, high := 0, maxSampling
	switch {
	case w.spec.Warmup:
		high = max(high, w.spec.SampleEvery)
	case w.spec.SampleEvery > 0:
		low, high = w.spec.SampleEvery, w.spec.SampleEvery
	}
	h := &host{
		numbers: map[string]uint64{
			"took": limitOf(w.took), "tick": uint64(tick), "began": flag(!w.failed),
			"sampling_min": uint64(low), "sampling_max": uint64(high),
			"rank": uint64(w.plan.Rank), "daemons": uint64(daemons), "clients": uint64(clients),
			"storm": flag(cfg.Traffic.StormRate() > 0 && cfg.Calls(w.plan.Rank) &&
				!w.spec.Warmup),
			"kinds":     flag(len(w.plan.Kinds) > 0) * uint64(record.CallKinds),
			"peers":     flag(cfg.Traffic != "") * uint64(cfg.ServingRanks()),
			"proxied":   flag(cfg.Proxied()),
			"mesh":      flag(cfg.Mesh()),
			"delegated": flag(cfg.Delegate),
			"stored":    flag(cfg.Stored()), "lanes": uint64(cfg.StorageLanes),
			"write_lanes": uint64(cfg.WriteLanes),
			"value_size":  uint64(cfg.ValueSize.Max()),
			"slices":      record.Slices, "steps": record.Steps, "trace": uint64(w.spec.Trace),
		},
		texts: map[string][]string{
			"stages": record.DirectStages,
			"phases": append([]string{record.PhaseLoop, record.PhaseTurnaround},
				record.PhaseNames...),
		},
		entries: map[string]*host{},
	}
	if cfg.Proxied() {
		h.texts["stages"] = record.StageNames
	}
	if len(cfg.Mix)+len(cfg.Pattern) > 0 {
		h.texts["operations"] = config.OpNames()
	}
	for i := range clients {
		own := &host{numbers: maps.Clone(h.numbers), texts: h.texts}
		cfg := cfg.OfClient(i)
		own.numbers["in_flight"] = uint64(max(cfg.InFlight, 0))
		own.numbers["open"] = flag(cfg.Rate != 0)
		own.numbers["iterations"] = flag(cfg.Iteration() > 0)
		// Poisson arrivals vary; a few are due although far less than one is expected.
		due := float64(cfg.Rate) * cfg.CallsShare(w.plan.Rank) / float64(max(cfg.Clients, 1)) *
			float64(limitOf(w.took)) / 1e9
		own.numbers["scheduled"] = uint64(1000 + 2*due)
		h.entries[fmt.Sprintf("clients[%d]", i)] = own
	}
	return h
}

// flag returns 1 if something is so.
func flag(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}
