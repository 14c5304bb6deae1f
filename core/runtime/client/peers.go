package client

import (
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring"
)

// peerTimes counts and times a client's operations by the group of ranks that it called. A group is
// one rank, or all ranks of one [record.CallKind].
type peerTimes struct {
	groups []uint16 // by rank
	of     []uint16 // by call: the group
	ops    []uint64 // by group
	times  []*loop.Timing
	kinds  bool
}

// newPeerTimes returns nil if the load has no pattern of traffic and the plan does not ask for
// kinds.
func newPeerTimes(w wiring.Wiring, calls int) *peerTimes {
	p := &peerTimes{of: make([]uint16, calls), groups: make([]uint16, w.Config.ServingRanks()),
		kinds: len(w.Kinds) > 0}
	groups := len(p.groups)
	switch {
	case p.kinds:
		groups = int(record.CallKinds)
		for rank := range p.groups { // fewer than kinds while the harness is measured alone
			p.groups[rank] = uint16(w.Kinds[rank])
		}
	case w.Config.Traffic != "":
		for rank := range p.groups {
			p.groups[rank] = uint16(rank)
		}
	default:
		return nil
	}
	p.ops = make([]uint64, groups)
	for range p.ops {
		p.times = append(p.times, loop.NewTiming())
	}
	return p
}

func (p *peerTimes) reset() {
	clear(p.ops)
	for _, t := range p.times {
		t.Reset()
	}
}

func (p *peerTimes) report(clock *machine.Clock, r *record.ClientReport) {
	for group, ops := range p.ops {
		latency := p.times[group].Report(clock)
		if p.kinds {
			r.Kinds = append(r.Kinds, record.OperationReport{Count: ops, Latency: latency})
		} else {
			r.Peers = append(r.Peers, record.PeerReport{Rank: group, Count: ops, Latency: latency})
		}
	}
}
