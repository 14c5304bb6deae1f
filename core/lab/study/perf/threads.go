package perf

import (
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// Thread is a thread of a run.
type Thread struct {
	Rank int    `json:"rank"`          // -1 for a thread that does not poll
	Name string `json:"thread"`        // "daemon 0" or "client 0", else the kernel's name
	TID  int    `json:"tid,omitempty"` // if perf saw it
}

func newThread(comm string, tid int) Thread {
	p, ok := record.ParseThreadName(comm)
	if !ok {
		return Thread{Rank: -1, Name: comm, TID: tid}
	}
	return Thread{Rank: p.Rank, Name: p.InRank(), TID: tid}
}

// Polls reports whether t is a daemon or a client.
func (t *Thread) Polls() bool { return t.Rank >= 0 }

// ThreadEvents are the hardware events that a thread which polls counted.
type ThreadEvents struct {
	Thread
	Counts map[string]uint64 `json:"counts"` // as of [record.ThreadReport]
	// Ratios has those of [result.CounterRatios] whose events were counted.
	Ratios map[string]float64 `json:"ratios"`
}

// ratios are those in the terminal, in order.
var ratios = []string{"ipc", "l1_miss", "llc_miss", "cache_miss"}

// threadsOf returns the threads that counted events in the repeat, by rank, daemons first.
func threadsOf(r *result.Repeat) (list []ThreadEvents) {
	for _, t := range record.Threads(r.Ranks) {
		if t.Counters == nil {
			continue
		}
		e := ThreadEvents{Thread: Thread{Rank: t.Rank, Name: t.InRank()}, Counts: t.Counters,
			Ratios: map[string]float64{}}
		for _, name := range ratios {
			if value, counted := result.CounterRatios["counters."+name].In(t.Counters); counted {
				e.Ratios[name] = value
			}
		}
		list = append(list, e)
	}
	return list
}

// noThreads returns why no thread counted events in the repeat.
func noThreads(r *result.Repeat) string {
	for i := range r.Ranks {
		if why := r.Ranks[i].Process.NoCounters; why != "" {
			return why
		}
	}
	return "no rank reported any"
}
