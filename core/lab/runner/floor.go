package runner

import (
	"context"
	"errors"
	"fmt"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/result"
	"transportbench/core/transport"
)

// floorPair is a daemon and a thread that calls it over the transport. The floor is measured
// between the two.
type floorPair struct{ server, caller record.Thread }

// pairForFloor returns two connected threads of different ranks that do not share a processor. On
// a shared processor, the probe would measure the scheduler's time slice. ok is false if all
// pairs share.
func pairForFloor(cfg config.Config, plans []record.Plan, processors int) (pair floorPair, ok bool) {
	if processors < 2 {
		return pair, false
	}
	for d, daemonCPU := range plans[0].CPUs[:cfg.Daemons] {
		pair.server = record.Thread{Rank: 0, Daemon: d, Client: -1}
		for r := 1; r < len(plans); r++ {
			daemons, _ := cfg.Threads(r)
			for i, cpu := range plans[r].CPUs {
				if cpu == daemonCPU && cpu >= 0 {
					continue
				}
				switch {
				case cfg.Proxied() && i == d:
					pair.caller = record.Thread{Rank: r, Daemon: d, Client: -1}
				case !cfg.Proxied() && i >= daemons:
					pair.caller = record.Thread{Rank: r, Daemon: -1, Client: i - daemons}
				default:
					continue
				}
				return pair, true
			}
		}
	}
	return pair, false
}

// floor measures the medium between two threads that are connected over the transport. It returns
// nil, and sets noFloor, if the floor cannot be measured.
func (b *bench) floor(ctx context.Context) (*transport.Floor, error) {
	if b.noFloor != "" {
		return nil, nil
	}
	pair, ok := pairForFloor(b.cfg, b.plans, len(b.req.CPUs))
	if !ok {
		b.noFloor = "every thread that calls over the transport shares its processor with the daemons; a floor needs two processors"
		return nil, nil
	}
	server, caller := pair.server.Rank, pair.caller.Rank
	floors, err := callAll(ctx, b.ranks, []int{server, caller}, "probing the floor", probeDuration+margin,
		func(ctx context.Context, r int) (transport.Floor, error) {
			probe := record.Probe{Near: pair.server, Far: pair.caller}
			if r == caller {
				probe = record.Probe{Near: pair.caller, Far: pair.server, Probe: transport.Probe{Initiate: true}}
			}
			probe.Kind, probe.Duration = transport.ProbeMedium, probeDuration
			return b.ranks.process(r).Probe(ctx, probe)
		})
	switch {
	case errors.Is(err, transport.ErrUnsupported):
		b.noFloor = fmt.Sprintf("transport %s has no probe for its floor", b.cfg.Transport)
		return nil, nil
	case err != nil:
		return nil, err
	case !(floors[1].RoundTrip > 0):
		return nil, &RankError{caller, "probing the floor",
			fmt.Errorf("a round trip of %g ns is impossible", floors[1].RoundTrip)}
	}
	return &floors[1], nil
}

// readings takes the probes on one side of a window.
func (b *bench) readings(ctx context.Context) (result.Readings, error) {
	medium, err := b.floor(ctx)
	return result.Readings{Medium: medium, Note: b.noFloor}, err
}
