package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/result"
	"transportbench/core/transport"
)

// Each kind of probe takes floorTime on one side of a window, and each bounce bounceTime, divided over
// the calling pairs, but probeLeast for each pair. With more than maxPairs pairs, that many of them are
// probed, evenly spread over all.
const (
	floorTime     = 6 * time.Millisecond
	bounceTime    = 2 * time.Millisecond
	probeLeast    = 300 * time.Microsecond
	maxPairs      = 16
	probeDuration = bounceTime + time.Duration(len(floorKinds))*(floorTime+bounceTime)
)

// floorKinds are the kinds of probes besides the bounce, the one next to the window first.
var floorKinds = [...]transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate, transport.ProbeLibrary}

// bounceName is the name of the floor that is a bounce, too.
const bounceName = "cache-line bounce"

// probeNames are the kinds in notes.
var probeNames = map[transport.ProbeKind]string{
	record.ProbeBounce: "the bounce between its processors", transport.ProbeMedium: "its floor", transport.ProbeRate: "its rate floor",
}

// callingPair is a daemon and a thread that calls it over the transport.
type callingPair struct{ server, caller record.Thread }

// callingPairs returns the pairs of threads that probe: of different ranks, and on different
// processors. On a shared processor, a probe would measure the scheduler's time slice.
func callingPairs(cfg config.Config, plans []record.Plan, processors int) (pairs []callingPair) {
	if processors < 2 {
		return nil
	}
	for s := range cfg.ServingRanks() {
		for d, daemonCPU := range plans[s].CPUs[:cfg.Daemons] {
			server := record.Thread{Rank: s, Daemon: d, Client: -1}
			for r := range plans {
				// Daemons of mesh-proxied call each other, so half of the pairs are the others reversed.
				if r == s || !cfg.Calls(r) || cfg.Proxied() && r < s {
					continue
				}
				daemons, _ := cfg.Threads(r)
				for i, cpu := range plans[r].CPUs {
					if cpu == daemonCPU && cpu >= 0 {
						continue
					}
					switch {
					case cfg.Proxied() && i == d:
						pairs = append(pairs, callingPair{server, record.Thread{Rank: r, Daemon: d, Client: -1}})
					case !cfg.Proxied() && i >= daemons:
						pairs = append(pairs, callingPair{server, record.Thread{Rank: r, Daemon: -1, Client: i - daemons}})
					}
				}
			}
		}
	}
	return sampleOf(pairs, maxPairs)
}

// sampleOf returns at most n elements of list, evenly spread.
func sampleOf[T any](list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	chosen := make([]T, n)
	for i := range chosen {
		chosen[i] = list[i*len(list)/n]
	}
	return chosen
}

// readings takes the probes on one side of a window, one pair at a time. Every probe of a floor is
// between two bounces, and one bounce is next to the window. A kind that cannot be probed is left out
// from then on, and Note has the reason.
func (b *bench) readings(ctx context.Context, before bool) (r result.Readings, err error) {
	pairs := callingPairs(b.cfg, b.plans, len(b.req.CPUs))
	if len(pairs) == 0 {
		r.Note = "every thread that calls over the transport shares its processor with the daemons; a probe needs two processors"
		return r, nil
	}
	byPair := make([]result.PairReadings, len(pairs))
	for i, p := range pairs {
		byPair[i].Caller, byPair[i].Daemon = p.caller, p.server
	}
	bounce := func() error {
		floor, each, err := b.probeAll(ctx, pairs, record.ProbeBounce)
		if floor == nil || b.req.OneProbe && floor.Name != bounceName {
			return err
		}
		r.Bounces = append(r.Bounces, floor.RoundTrip)
		if before || len(r.Bounces) == 1 { // the one next to the window so far
			r.Bounce = floor.RoundTrip
			for i, value := range each {
				byPair[i].Bounce = value
			}
		}
		return nil
	}
	kinds := floorKinds[:]
	switch {
	case b.req.OneProbe, b.req.StateOnly:
		kinds = nil
	case before:
		kinds = slices.Clone(kinds)
		slices.Reverse(kinds)
	}
	if err := bounce(); err != nil {
		return r, err
	}
	for _, kind := range kinds {
		floor, each, err := b.probeAll(ctx, pairs, kind)
		if err != nil {
			return r, err
		}
		if floor == nil {
			continue
		}
		if err := bounce(); err != nil {
			return r, err
		}
		for i, value := range each {
			*readingOf(&byPair[i], kind) = value
		}
		switch kind {
		case transport.ProbeMedium:
			r.Medium = floor
		case transport.ProbeRate:
			r.Rate = floor
		case transport.ProbeLibrary:
			r.Library = floor
		}
	}
	if len(pairs) > 1 {
		r.Pairs = byPair
	}
	r.Note = b.unprobedNote()
	return r, nil
}

// readingOf returns where a pair's reading of a floor goes.
func readingOf(p *result.PairReadings, kind transport.ProbeKind) *float64 {
	switch kind {
	case transport.ProbeMedium:
		return &p.Medium
	case transport.ProbeRate:
		return &p.Rate
	default:
		return &p.Library
	}
}

// unprobedNote says what cannot be probed. Most transports have no library to compare with.
func (b *bench) unprobedNote() string {
	if b.req.StateOnly {
		return "the run was asked for the bounce alone"
	}
	if b.req.OneProbe {
		return "the plugin is of a version that knows no other probe than its own floor"
	}
	var notes []string
	for _, kind := range [...]transport.ProbeKind{record.ProbeBounce, transport.ProbeMedium, transport.ProbeRate} {
		if name, reason := probeNames[kind], b.unprobed[kind]; name != "" && reason != "" {
			notes = append(notes, fmt.Sprintf("transport %s has no probe for %s: %s", b.cfg.Transport, name, reason))
		}
	}
	return strings.Join(notes, "; ")
}

// probeAll takes a probe of one kind between each pair, and returns the median with the readings. The
// median is nil if the kind cannot be probed.
func (b *bench) probeAll(ctx context.Context, pairs []callingPair, kind transport.ProbeKind) (*transport.Floor, []float64, error) {
	if b.unprobed[kind] != "" {
		return nil, nil, nil
	}
	duration := floorTime
	if kind == record.ProbeBounce {
		duration = bounceTime
	}
	forth, back := b.cfg.Payloads()
	probe := transport.Probe{
		Kind: kind, Duration: max(duration/time.Duration(len(pairs)), probeLeast),
		Forth: int(forth), Back: int(back), InFlight: b.cfg.CallsPerPair(),
	}
	var merged transport.Floor
	each := make([]float64, len(pairs))
	for i, pair := range pairs {
		floor, err := b.probePair(ctx, pair, probe)
		if errors.Is(err, transport.ErrUnsupported) {
			if b.unprobed == nil {
				b.unprobed = map[transport.ProbeKind]string{}
			}
			b.unprobed[kind] = err.Error()
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		each[i] = floor.RoundTrip
		if kind == transport.ProbeRate {
			each[i] = floor.PerOp
		}
		if !(each[i] > 0) {
			return nil, nil, &RankError{pair.caller.Rank, "probing the floor",
				fmt.Errorf("a reading of %g ns (%s) is impossible", each[i], kind)}
		}
		merged.Name = floor.Name
		merged.Samples += floor.Samples
	}
	middle := record.Median(each)
	if kind == transport.ProbeRate {
		merged.PerOp = middle
	} else {
		merged.RoundTrip = middle
	}
	return &merged, each, nil
}

// probePair takes one probe and returns the caller's reading.
func (b *bench) probePair(ctx context.Context, pair callingPair, probe transport.Probe) (transport.Floor, error) {
	server, caller := pair.server.Rank, pair.caller.Rank
	floors, err := callAll(ctx, b.ranks, []int{server, caller}, "probing the floor", probe.Duration+margin,
		func(ctx context.Context, r int) (transport.Floor, error) {
			p := record.Probe{Near: pair.server, Far: pair.caller, Probe: probe}
			if r == caller {
				p.Near, p.Far, p.Initiate = pair.caller, pair.server, true
			}
			return b.ranks.process(r).Probe(ctx, p)
		})
	return floors[1], err
}
