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
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// Each kind of probe takes floorTime on one side of a window, and each reading of the core distance
// distanceTime, divided over the calling pairs, but minProbe for each pair. With more than maxPairs
// pairs, that many of them are probed, evenly spread over all.
const (
	floorTime    = 6 * time.Millisecond
	distanceTime = 2 * time.Millisecond
	minProbe     = 300 * time.Microsecond
	maxPairs     = 16
)

// A probe that fails is taken again after a pause that doubles: on a loaded machine a rank may get
// no processor for a while, and a link may be down. An attempt may take probePatience longer than
// planned. Once failed attempts and pauses on one side of a window have taken probeBudget, the side
// is given up. From then on a side is given up at its first failure, until one succeeds, so that a
// probe that always fails does not cost probeBudget at every window.
const (
	probeBudget   = 10 * time.Second
	probePatience = 3 * time.Second
	probePause    = 100 * time.Millisecond
	maxProbePause = time.Second
)

var (
	errProbeLate = fmt.Errorf("it did not end within %v; its ranks perhaps got no processor, "+
		"cannot reach each other, or hang", probePatience)
	errNoReading = errors.New("it measured nothing; perhaps its ranks got no processor")
	errGivenUp   = errors.New("a probe was given up")
)

// floorKinds are the kinds of probes besides the core distance, the one next to the window first.
var floorKinds = [...]transport.ProbeKind{transport.ProbeMedium, transport.ProbeRate,
	transport.ProbeLibrary}

// bareKind returns the kind of the probe of the transport without the harness.
func bareKind(cfg *config.Config) transport.ProbeKind {
	if cfg.CallsPerPair() == 1 {
		return record.ProbeTransport
	}
	return record.ProbeTransportRate
}

// probeNames are the kinds in notes.
var probeNames = map[transport.ProbeKind]string{
	record.ProbeDistance: "the core distance", transport.ProbeMedium: "its floor",
	transport.ProbeRate: "its rate floor",
}

// callingPair is a daemon and a thread that calls it over the transport.
type callingPair struct{ server, caller record.Thread }

// callingPairs returns the pairs of threads that probe: of different ranks, and on different
// processors. On a shared processor, a probe would measure the scheduler's time slice.
func callingPairs(req *Request, cfg config.Config, plans []record.Plan) (pairs []callingPair) {
	calls := callsBetween(&cfg)
	for s := range cfg.ServingRanks() {
		for d, daemonCPU := range plans[s].CPUs[:cfg.Daemons] {
			server := record.Thread{Rank: s, Daemon: d, Client: -1}
			for r := range plans {
				// Daemons of mesh-proxied call each other, so half of the pairs are the others
				// reversed.
				if r == s || !calls(r, s) || cfg.Proxied() && r < s {
					continue
				}
				daemons, _ := cfg.Threads(r)
				crosses := req.crosses(s, r)
				if !crosses && req.processorsOf(r) < 2 {
					continue
				}
				for i, cpu := range plans[r].CPUs {
					if !crosses && cpu == daemonCPU && cpu >= 0 {
						continue
					}
					switch {
					case cfg.Proxied() && i == d:
						pairs = append(pairs,
							callingPair{server, record.Thread{Rank: r, Daemon: d, Client: -1}})
					case !cfg.Proxied() && i >= daemons:
						pairs = append(pairs,
							callingPair{server,
								record.Thread{Rank: r, Daemon: -1, Client: i - daemons}})
					}
				}
			}
		}
	}
	// Both kinds of pairs are probed, within a machine and between machines.
	far, near := partition(pairs, req.crossing)
	if len(far) == 0 || len(near) == 0 {
		return sampleOf(pairs, maxPairs)
	}
	return append(sampleOf(far, maxPairs/2), sampleOf(near, maxPairs/2)...)
}

// crossing reports whether a pair is on different machines.
func (r *Request) crossing(p callingPair) bool { return r.crosses(p.server.Rank, p.caller.Rank) }

// partition returns the pairs for which is holds, and the others.
func partition(pairs []callingPair, is func(callingPair) bool) (those, others []callingPair) {
	for _, p := range pairs {
		if is(p) {
			those = append(those, p)
		} else {
			others = append(others, p)
		}
	}
	return those, others
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

// readings takes the probes on one side of a window, one pair at a time. The core
// distance is read before and after every probe of a floor, and so next to the window. A kind that
// cannot be probed is left out from then on, and Note has the reason. If a probe is given up, so
// are those after it.
func (b *bench) readings(ctx context.Context, before bool) (result.Readings, error) {
	pairs := callingPairs(&b.req, b.cfg, b.plans)
	if b.cfg.Ranks == 1 {
		return result.Readings{Note: "a probe is between two ranks, and the run has one"}, nil
	}
	if len(pairs) == 0 {
		return result.Readings{
			Note: "every thread that calls over the transport shares its processor with the " +
				"daemons; a probe needs two processors",
		}, nil
	}
	side := probeSide{bench: b}
	err := side.probe(ctx, pairs, before)
	if b.probesGivenUp = errors.Is(err, errGivenUp); b.probesGivenUp {
		err = nil
		if before {
			side.CoreDistance = 0 // it was to be next to the window
		}
	}
	side.Note = b.unprobedNote()
	if n := len(side.Failures); n > 0 && side.Failures[n-1].GivenUp {
		side.Note = strings.TrimPrefix(side.Note+"; given up: "+side.Failures[n-1].Error, "; ")
	}
	return side.Readings, err
}

// probeSide is one side of a window while it is probed.
type probeSide struct {
	*bench
	result.Readings
	lost time.Duration // in failed attempts, and in pauses after them
}

func (r *probeSide) probe(ctx context.Context, pairs []callingPair, before bool) error {
	byPair := make([]result.PairReadings, len(pairs))
	for i, p := range pairs {
		byPair[i].Caller, byPair[i].Daemon, byPair[i].Crosses = p.caller, p.server,
			r.req.crossing(p)
	}
	distance := func() error {
		floor, each, err := r.probeAll(ctx, pairs, record.ProbeDistance)
		if floor == nil {
			return err
		}
		r.CoreDistances = append(r.CoreDistances, floor.RoundTrip)
		if before || len(r.CoreDistances) == 1 { // the one next to the window so far
			r.CoreDistance = floor.RoundTrip
			for i, value := range each {
				byPair[i].CoreDistance = value
			}
		}
		return nil
	}
	kinds := append(floorKinds[:len(floorKinds):len(floorKinds)], bareKind(&r.cfg))
	switch {
	case r.req.StateOnly:
		kinds = nil
	case before:
		slices.Reverse(kinds)
	}
	if err := distance(); err != nil {
		return err
	}
	for _, kind := range kinds {
		floor, each, err := r.probeAll(ctx, pairs, kind)
		if err != nil {
			return err
		}
		if floor == nil {
			continue
		}
		if err := distance(); err != nil {
			return err
		}
		for i, value := range each {
			all, one := placesOf(kind, &r.Readings, &byPair[i])
			*all, *one = floor, value
		}
	}
	if len(pairs) > 1 {
		r.Pairs = byPair
	}
	return nil
}

// placesOf returns where a floor goes, and a pair's reading of it.
func placesOf(kind transport.ProbeKind, r *result.Readings, p *result.PairReadings) (
	**transport.Floor, *float64) {
	switch kind {
	case transport.ProbeMedium:
		return &r.Medium, &p.Medium
	case transport.ProbeRate:
		return &r.Rate, &p.Rate
	case transport.ProbeLibrary:
		return &r.Library, &p.Library
	default:
		return &r.Transport, &p.Transport
	}
}

// unprobedNote says what cannot be probed. Most transports have no library to compare with.
func (b *bench) unprobedNote() string {
	if b.req.StateOnly {
		return "the run was asked for the core distance alone"
	}
	var notes []string
	for _, kind := range [...]transport.ProbeKind{record.ProbeDistance, transport.ProbeMedium,
		transport.ProbeRate} {
		if name, reason := probeNames[kind], b.unprobed[kind]; name != "" && reason != "" {
			notes = append(notes, fmt.Sprintf("transport %s has no probe for %s: %s",
				b.cfg.Transport, name, reason))
		}
	}
	return strings.Join(notes, "; ")
}

// probeAll takes a probe of one kind between each pair, and returns the median with the readings.
// The median is nil if the kind cannot be probed. If some pairs are on different machines and
// others are not, it is that of the former, which are the slower ones. No cache line bounces
// between machines.
func (r *probeSide) probeAll(ctx context.Context, pairs []callingPair, kind transport.ProbeKind) (
	*transport.Floor, []float64, error) {
	if r.unprobed[kind] != "" {
		return nil, nil, nil
	}
	duration := beside(r.cfg, floorTime)
	if kind == record.ProbeDistance {
		duration = beside(r.cfg, distanceTime)
	}
	forth, back := r.cfg.Payloads()
	probe := transport.Probe{
		Kind: kind, Duration: max(duration/time.Duration(len(pairs)), minProbe),
		Forth: int(forth), Back: int(back), InFlight: r.cfg.CallsPerPair(),
	}
	var merged transport.Floor
	each := make([]float64, len(pairs))
	var far, near []float64
	for i, pair := range pairs {
		crosses := r.req.crossing(pair)
		if crosses && kind == record.ProbeDistance {
			continue
		}
		floor, err := r.probePair(ctx, pair, probe)
		if errors.Is(err, transport.ErrUnsupported) {
			r.leaveOut(kind, err.Error())
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		each[i] = readingIn(floor, kind)
		if crosses {
			far = append(far, each[i])
		} else {
			near = append(near, each[i])
		}
		merged.Name = floor.Name
		merged.Samples += floor.Samples
	}
	if len(far)+len(near) == 0 {
		r.leaveOut(kind, "every pair of threads is on different machines")
		return nil, nil, nil
	}
	middle := record.Median(near)
	if len(far) > 0 {
		middle = record.Median(far)
	}
	if record.MeasuresRate(kind) {
		merged.PerOp = middle
	} else {
		merged.RoundTrip = middle
	}
	return &merged, each, nil
}

// leaveOut remembers that a kind cannot be probed.
func (b *bench) leaveOut(kind transport.ProbeKind, reason string) {
	if b.unprobed == nil {
		b.unprobed = map[transport.ProbeKind]string{}
	}
	b.unprobed[kind] = reason
}

// readingIn returns what a probe of a kind measured.
func readingIn(floor transport.Floor, kind transport.ProbeKind) float64 {
	if record.MeasuresRate(kind) {
		return floor.PerOp
	}
	return floor.RoundTrip
}

// probePair takes a probe of one pair, and takes it again if it fails. It returns errGivenUp once
// that has taken too long, and the error of a probe that cannot succeed later.
func (r *probeSide) probePair(ctx context.Context, pair callingPair,
	probe transport.Probe) (transport.Floor, error) {
	failure := result.ProbeFailure{Kind: probe.Kind, Caller: pair.caller, Daemon: pair.server}
	for pause := probePause; ; pause = min(2*pause, maxProbePause) {
		began := time.Now()
		floor, err := r.tryProbe(ctx, pair, probe)
		if err == nil || ctx.Err() != nil || lasting(err) {
			r.addFailure(failure)
			return floor, err
		}
		failure.Times++
		failure.Error = err.Error()
		r.lost += time.Since(began) + pause
		if failure.GivenUp = r.probesGivenUp || r.lost > probeBudget; failure.GivenUp {
			r.addFailure(failure)
			return floor, errGivenUp
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return floor, ctx.Err()
		}
	}
}

// addFailure adds a probe that failed to the readings.
func (r *probeSide) addFailure(failure result.ProbeFailure) {
	if failure.Times > 0 {
		r.Failures = append(r.Failures, failure)
	}
}

// lasting reports whether a probe that failed with err fails again: the transport has no such probe
// or a wrong one, or a rank is gone.
func lasting(err error) bool {
	var died *record.ExitError
	var invalid *record.InvalidError
	return errors.As(err, &died) || errors.As(err, &invalid) ||
		errors.Is(err, transport.ErrUnsupported) || errors.Is(err, transport.ErrPeerDown) ||
		errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrCorrupt)
}

// tryProbe takes one probe and returns the caller's reading.
func (b *bench) tryProbe(ctx context.Context, pair callingPair,
	probe transport.Probe) (transport.Floor, error) {
	const op = "probing the floor"
	server, caller := pair.server.Rank, pair.caller.Rank
	floors, err := callAll(ctx, b.ranks, []int{server, caller}, op, probe.Duration+probePatience,
		func(ctx context.Context, r int) (transport.Floor, error) {
			p := record.Probe{Near: pair.server, Far: pair.caller, Probe: probe}
			if r == server {
				return b.ranks.process(r).Probe(ctx, p)
			}
			p.Near, p.Far, p.Initiate = pair.caller, pair.server, true
			floor, err := b.ranks.process(r).Probe(ctx, p)
			if err == nil && record.CallsAlone(probe.Kind) {
				err = b.ranks.process(server).Advance(ctx, record.StateStopped)
			}
			return floor, err
		})
	switch {
	case errors.Is(err, ErrNoAnswer) || errors.Is(err, context.DeadlineExceeded):
		err = errProbeLate
	case err == nil && readingIn(floors[1], probe.Kind) == 0:
		err = errNoReading
	}
	return floors[1], err
}
