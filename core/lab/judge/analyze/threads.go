package analyze

import (
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// threads returns the events of each polling thread over all repeats.
func (e *measurements) threads() []ThreadEvents {
	type sum struct {
		ThreadEvents
		ops, elapsed uint64
		counters     map[string]uint64
		software     map[string]uint64
	}
	var list []*sum
	known := map[record.Thread]*sum{}
	for i := range e.repeats {
		for _, t := range record.Threads(e.repeats[i].Ranks) {
			s := known[t.Thread]
			if s == nil {
				s = &sum{ThreadEvents: ThreadEvents{Rank: t.Rank, Thread: t.InRank()},
					counters: map[string]uint64{}, software: map[string]uint64{}}
				known[t.Thread] = s
				list = append(list, s)
			}
			s.ops += t.Ops
			s.elapsed += t.ElapsedNS
			for event, n := range t.Counters {
				s.counters[event] += n
			}
			for event, n := range t.Software() {
				s.software[event] += n
			}
		}
	}
	events := make([]ThreadEvents, 0, len(list))
	for _, s := range list {
		s.PerSecond = map[string]float64{}
		for event, n := range s.software {
			s.PerSecond[event] = result.PerSecond(n, s.elapsed)
		}
		if cycles := s.counters["cycles"]; cycles > 0 && s.counters["instructions"] > 0 {
			s.IPC = new(float64(s.counters["instructions"]) / float64(cycles))
		}
		if s.ops > 0 && len(s.counters) > 0 {
			s.PerOp = map[string]float64{}
			for event, n := range s.counters {
				s.PerOp[event] = float64(n) / float64(s.ops)
			}
		}
		events = append(events, s.ThreadEvents)
	}
	return events
}

// noCounters returns why there are no hardware counters, or "".
func noCounters(repeats []result.Repeat) string {
	for i := range repeats {
		for _, r := range repeats[i].Ranks {
			if r.Process.NoCounters != "" {
				return r.Process.NoCounters
			}
		}
	}
	return ""
}
