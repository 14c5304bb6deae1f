package result

import (
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
)

// DisturbedShare is the share of a window above which the window is disturbed if others had the
// processor of a polling thread for it ([Result.Taken]).
const DisturbedShare = 0.1

// MinSteal is the least stolen time that counts: three ticks, in which the kernel counts it. A
// single tick in a short window is a large share, and may stand for much less.
const MinSteal = 30 * time.Millisecond

// Taken returns the share of a window, by index, for which others had the processor of a polling
// thread: the hypervisor, or other programs in the thread that lost most. Time that other threads
// of the ranks and soft interrupts used does not count, because a transport causes it, and neither
// does a thread that mostly waits by itself. Without threads that spin, each on a processor of its
// own, it is the hypervisor's share.
func (r *Result) Taken(window int) (share float64) {
	repeat := &r.Repeats[window]
	if repeat.Machine.StealNS >= uint64(MinSteal) {
		share = repeat.Samples[Steal]
	}
	if !r.ownProcessors(repeat.Launch) {
		return share
	}
	own, polling := repeat.Machine.SoftIRQNS, uint64(0)
	for i := range repeat.Ranks {
		own += repeat.Ranks[i].Process.CPUNS
	}
	lost, elapsed := uint64(0), uint64(0) // of the thread that lost most
	for _, t := range record.Threads(repeat.Ranks) {
		polling += t.CPUNS
		if off := t.ElapsedNS - min(t.ElapsedNS, t.CPUNS); t.CPUNS > 0 && t.Sharing == 0 &&
			t.Voluntary <= t.Involuntary && off > lost {
			lost, elapsed = off, t.ElapsedNS
		}
	}
	own -= min(own, polling)
	if lost > own {
		share = max(share, float64(lost-own)/float64(elapsed))
	}
	return share
}

// ownProcessors reports whether the polling threads of a launch spin, each on a processor that no
// other one has.
func (r *Result) ownProcessors(launch int) bool {
	placement := r.Placement
	if launch >= 0 && launch < len(r.Launches) {
		placement = r.Launches[launch].Placement
	}
	type processor struct {
		host string
		cpu  int
	}
	used := map[processor]bool{}
	for _, p := range placement {
		for _, cpu := range p.CPUs {
			at := processor{p.Host, cpu}
			if p.Idle != config.IdleSpin || cpu < 0 || used[at] {
				return false
			}
			used[at] = true
		}
	}
	return len(used) > 0
}
