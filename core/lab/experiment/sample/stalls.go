package sample

import (
	"cmp"
	"slices"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// keptStalls bounds the stalls of a window that a result lists.
const keptStalls = 16

// threadGap is a gap of one thread.
type threadGap struct {
	record.Gap
	rank   int
	thread string
	start  uint64 // of the thread's window
}

func (g *threadGap) end() uint64 { return g.AtNS + g.ForNS }

// Stalls turns the gaps of all threads in a window, and the silences that gaps do not explain,
// into its longest stalls, in order. Gaps of several threads are one stall if most of the shorter
// one is within the other. steal is the time in nanoseconds for which the hypervisor kept
// processors of the run during the window. nothing means that nothing was completed, so all clients
// were silent.
func Stalls(ranks []record.Report, steal uint64, nothing bool) []result.Stall {
	groups := grouped(gapsOf(ranks))
	silent := silencesOf(ranks, groups, nothing)
	stalls := make([]result.Stall, len(groups))
	for i, group := range groups {
		stalls[i] = stallOf(group)
	}
	for _, group := range silent {
		s := stallOf(group)
		s.Cause = result.CauseNoTraffic
		stalls = append(stalls, s)
	}
	slices.SortStableFunc(stalls, func(a, b result.Stall) int {
		return cmp.Compare(b.ForNS, a.ForNS)
	})
	stalls = stalls[:min(len(stalls), keptStalls)]
	for i := range stalls {
		s := &stalls[i]
		// The kernel counts steal in steps and not by moment. So it is the cause of the longest
		// stalls that it can be the cause of, until it is used up.
		if (s.Cause == result.CauseMachine || s.Cause == result.CauseUnknown) &&
			steal >= s.ForNS/2 && steal > 0 {
			s.Cause = result.CauseSteal
			steal -= min(steal, s.ForNS)
		}
	}
	slices.SortStableFunc(stalls, func(a, b result.Stall) int {
		return cmp.Compare(a.AtNS, b.AtNS)
	})
	return stalls
}

// gapsOf returns the gaps of all threads. Gaps of different hosts are far apart,
// because the hosts' clocks began when they booted.
func gapsOf(ranks []record.Report) []threadGap {
	var list []threadGap
	for _, t := range record.Threads(ranks) {
		for _, g := range t.Gaps {
			list = append(list, threadGap{Gap: g, rank: t.Rank, thread: t.String(),
				start: t.StartNS})
		}
	}
	return list
}

// grouped sorts gaps by their start and puts those together that are one stall.
func grouped(list []threadGap) (groups [][]threadGap) {
	slices.SortStableFunc(list, func(a, b threadGap) int { return cmp.Compare(a.AtNS, b.AtNS) })
	for _, g := range list {
		if last := len(groups) - 1; last >= 0 && together(groups[last], &g) {
			groups[last] = append(groups[last], g)
		} else {
			groups = append(groups, []threadGap{g})
		}
	}
	return groups
}

// silencesOf returns the silences of clients that gaps do not explain, those of several clients at
// the same time together. A client records a silence when it ends, so if nothing was completed, its
// silence is the window.
func silencesOf(ranks []record.Report, gaps [][]threadGap, nothing bool) (groups [][]threadGap) {
	var list []threadGap
	for i := range ranks {
		r := &ranks[i]
		for j := range r.Clients {
			id := record.Thread{Rank: r.Rank, Daemon: -1, Client: j}
			start, silences := r.Clients[j].Thread.StartNS, r.Clients[j].Silences
			if nothing {
				silences = []record.Gap{{AtNS: start, ForNS: r.Clients[j].ElapsedNS}}
			}
			for _, silence := range silences {
				g := threadGap{Gap: silence, rank: r.Rank, thread: id.String(), start: start}
				if !explained(&g, gaps) {
					list = append(list, g)
				}
			}
		}
	}
	return grouped(list)
}

// explained reports whether a silence came from threads that stood still: one stall took half of
// it, or several nearly all. Between stalls threads run, and so responses come.
func explained(silence *threadGap, gaps [][]threadGap) bool {
	covered := uint64(0)
	for _, group := range gaps {
		from, to := group[0].AtNS, uint64(0)
		for i := range group {
			to = max(to, group[i].end())
		}
		from, to = max(from, silence.AtNS), min(to, silence.end())
		part := to - min(from, to)
		if covered += part; part > silence.ForNS/2 {
			return true
		}
	}
	return covered > silence.ForNS/10*9
}

// together reports whether g, which starts no earlier than the gaps of group, is of the same stall.
func together(group []threadGap, g *threadGap) bool {
	for i := range group {
		other := &group[i]
		shared := min(other.end(), g.end()) - min(g.AtNS, min(other.end(), g.end()))
		if shared > min(other.ForNS, g.ForNS)/2 {
			return true
		}
	}
	return false
}

// stallOf joins gaps that are one stall.
func stallOf(group []threadGap) result.Stall {
	first, end := group[0].AtNS, uint64(0)
	start := group[0].start
	s := result.Stall{}
	ranks := map[int]bool{}
	var all record.Gap
	for i := range group {
		g := &group[i]
		start, end = min(start, g.start), max(end, g.end())
		ranks[g.rank] = true
		if !slices.Contains(s.Threads, g.thread) {
			s.Threads = append(s.Threads, g.thread)
		}
		all.Involuntary += g.Involuntary
		all.MinorFaults += g.MinorFaults
		all.MajorFaults += g.MajorFaults
		all.Collections += g.Collections
		all.Parked = all.Parked || g.Parked
	}
	s.AtNS, s.ForNS = first-min(start, first), end-first
	s.Cause = causeOf(&all, len(ranks))
	return s
}

// causeOf returns the cause of a stall by what was counted in it. What stops several processes at
// once is the machine's, whatever else each of them did.
func causeOf(counts *record.Gap, ranks int) result.Cause {
	switch {
	case ranks > 1:
		return result.CauseMachine
	case counts.Collections > 0:
		return result.CauseCollector
	case counts.MajorFaults > 0:
		return result.CausePageFault
	case counts.Involuntary > 0 || counts.Parked:
		return result.CauseSwitch
	case counts.MinorFaults > 0:
		return result.CausePageFault
	}
	return result.CauseUnknown
}
