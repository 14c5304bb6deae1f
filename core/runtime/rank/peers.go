package rank

import (
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// peerTimes counts and times a client's operations by the rank that it called.
type peerTimes struct {
	of    []uint16 // by call: the rank
	ops   []uint64 // by rank
	times []*timing
}

// newPeerTimes returns nil if the load has no pattern of traffic and the plan does not ask for the times.
func newPeerTimes(w wiring, calls int) *peerTimes {
	if w.cfg.Traffic == "" && !w.byRank {
		return nil
	}
	p := &peerTimes{of: make([]uint16, calls), ops: make([]uint64, w.cfg.ServingRanks())}
	for range p.ops {
		p.times = append(p.times, newTiming())
	}
	return p
}

func (p *peerTimes) reset() {
	clear(p.ops)
	for _, t := range p.times {
		t.reset()
	}
}

func (p *peerTimes) report(clock *machine.Clock) (list []record.PeerReport) {
	for rank, ops := range p.ops {
		list = append(list, record.PeerReport{Rank: rank, Count: ops, Latency: p.times[rank].report(clock)})
	}
	return list
}
