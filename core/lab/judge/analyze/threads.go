package analyze

import (
	"fmt"

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
	known := map[string]*sum{}
	add := func(r int, name string, ops, elapsed uint64, t record.ThreadReport) {
		key := fmt.Sprint(r, name)
		s := known[key]
		if s == nil {
			s = &sum{ThreadEvents: ThreadEvents{Rank: r, Thread: name},
				counters: map[string]uint64{}, software: map[string]uint64{}}
			known[key] = s
			list = append(list, s)
		}
		s.ops += ops
		s.elapsed += elapsed
		for event, n := range t.Counters {
			s.counters[event] += n
		}
		for event, n := range t.Software() {
			s.software[event] += n
		}
	}
	for i := range e.repeats {
		for _, report := range e.repeats[i].Ranks {
			for j, d := range report.Daemons {
				add(report.Rank, fmt.Sprintf("daemon %d", j), d.Requests, d.ElapsedNS, d.Thread)
			}
			for j, c := range report.Clients {
				add(report.Rank, fmt.Sprintf("client %d", j), c.Ops(), c.ElapsedNS, c.Thread)
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
