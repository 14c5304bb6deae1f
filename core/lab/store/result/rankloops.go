package result

import (
	"cmp"
	"maps"
	"slices"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

// RankLoop is what the daemons of one rank did in their loops, over some repeats.
type RankLoop struct {
	Rank int `json:"rank"`
	// Daemons is the number of daemons, and Windows that of repeats.
	Daemons int `json:"daemons"`
	Windows int `json:"windows"`
	// Loops is the number of iterations in all, and PerSecond that of one daemon per second.
	Loops     uint64  `json:"loops"`
	PerSecond float64 `json:"per_second"`
	// PerLoop has the events of an iteration, by the names of LoopEvents.
	PerLoop map[string]float64 `json:"per_loop"`
	// LoopsPerRequest is the number of iterations for each request that the daemons served or
	// forwarded; 0 without requests.
	LoopsPerRequest float64 `json:"loops_per_request,omitempty"`
	// Phases are sampled times, by the names of [record.DaemonReport.Phases].
	Phases map[string]Spread `json:"phases"`
	// Times are the sampled iterations by their time.
	Times []TimeBucket `json:"times"`
	// Writes are the transport's counters of batches in each window, if it has some.
	Writes  []WindowWrites        `json:"writes,omitempty"`
	Storage *record.StorageReport `json:"storage,omitempty"` // sums, and the largest queue
}

// TimeBucket counts the iterations that took at most a time, and longer than that of the bucket
// before.
type TimeBucket struct {
	AtMostNS uint64 `json:"at_most_ns,omitempty"` // 0: longer than all others
	Count    uint64 `json:"count"`
}

// loopBuckets are the upper bounds of the histogram of iterations, in nanoseconds: those of the
// benchkv document, and two more.
var loopBuckets = []uint64{50, 100, 200, 500, 1000, 2000, 5000, 10_000}

// The events of a daemon's loop.
const (
	EventServed      = "served"       // requests that the daemon answered
	EventFromClients = "from_clients" // mesh-proxied: requests of the rank's own clients
	EventLocal       = "local"        // of these, for keys of the rank
	EventRemote      = "remote"       // of these, forwarded
	EventResponses   = "responses"    // mesh-proxied: of other ranks
	EventIncoming    = "incoming"     // mesh-proxied: requests of other ranks
	// requests passed on to the daemon of the rank that owns the key
	EventDelegated    = "delegated"
	EventFlushes      = "flushes"       // doorbells
	EventBackPressure = "back_pressure" // posts that were not taken in full
	EventEmpty        = "empty"         // iterations that found nothing
)

// LoopEvents returns the events of a loop in order of display.
func LoopEvents() []string {
	return []string{EventEmpty, EventServed, EventFromClients, EventLocal, EventRemote,
		EventResponses, EventIncoming, EventDelegated, EventFlushes, EventBackPressure}
}

// LoopPhases returns the times of RankLoop.Phases in order of display.
func LoopPhases() []string {
	return slices.Concat(record.PhaseNames, []string{record.PhaseLoop, record.PhaseTurnaround})
}

// WindowWrites are the writes of a transport with batches in one window, over the workers of a
// rank.
type WindowWrites struct {
	Window    int    `json:"window"` // the repeat's index
	Batches   uint64 `json:"batches"`
	Messages  uint64 `json:"messages"` // in batches
	Doorbells uint64 `json:"doorbells"`
	// CreditOnly counts writes that returned credit and nothing else.
	CreditOnly uint64 `json:"credit_only"`
	// Sizes count the batches by their number of messages.
	Sizes []BatchBucket `json:"sizes,omitempty"`
}

// BatchBucket counts the batches with at most that many messages, and more than those of the bucket
// before, which has half as many.
type BatchBucket struct {
	AtMost int    `json:"at_most"`
	Count  uint64 `json:"count"`
}

// Quantile returns the largest number of messages of the bucket with the batch at a quantile, or 0
// if the transport does not count its batches by size.
func (w *WindowWrites) Quantile(q float64) int {
	total := uint64(0)
	for _, b := range w.Sizes {
		total += b.Count
	}
	seen := uint64(0)
	for _, b := range w.Sizes {
		if seen += b.Count; seen > 0 && float64(seen) >= q*float64(total) {
			return b.AtMost
		}
	}
	return 0
}

// RankLoopsOf returns the loops of all ranks that have daemons, by rank.
func RankLoopsOf(repeats []Repeat) ([]RankLoop, error) {
	var list []RankLoop
	for _, loop := range LoopsOf(repeats) {
		l := RankLoop{Rank: loop.Rank, Loops: loop.Counts.Loops, PerSecond: loop.PerSecond,
			PerLoop: perLoop(&loop)}
		requests := loop.Counts.Requests
		if loop.Proxy != nil {
			requests += loop.Proxy.Remote
		}
		if requests > 0 {
			l.LoopsPerRequest = float64(l.Loops) / float64(requests)
		}
		if err := l.add(repeats); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

func perLoop(l *Loop) map[string]float64 {
	counts := map[string]uint64{
		EventEmpty: l.Counts.EmptyLoops, EventServed: l.Counts.Requests,
		EventFlushes: l.Counts.Flushes, EventBackPressure: l.Counts.BackPressure,
	}
	if p := l.Proxy; p != nil {
		maps.Copy(counts, map[string]uint64{
			EventFromClients: p.FromClients, EventLocal: p.Local, EventRemote: p.Remote,
			EventResponses: p.Responses, EventIncoming: p.Incoming,
		})
	}
	if g := l.Delegation; g != nil {
		counts[EventDelegated] = g.Sent
	}
	events := map[string]float64{}
	for name, n := range counts {
		events[name] = float64(n) / float64(max(l.Counts.Loops, 1))
	}
	return events
}

// add adds the times and the writes of the rank.
func (l *RankLoop) add(repeats []Repeat) error {
	timings := map[string][]record.TimingReport{}
	for i := range repeats {
		for _, report := range repeats[i].Ranks {
			if report.Rank != l.Rank {
				continue
			}
			l.Windows++
			l.Daemons = len(report.Daemons)
			writes := WindowWrites{Window: repeats[i].Index}
			for _, d := range report.Daemons {
				for name, t := range d.Phases {
					timings[name] = append(timings[name], t)
				}
				writes.add(d.Transport)
				l.store(d.Storage)
			}
			for _, c := range report.Clients {
				writes.add(c.Transport)
			}
			if writes.Batches+writes.CreditOnly > 0 {
				slices.SortFunc(writes.Sizes,
					func(a, b BatchBucket) int { return cmp.Compare(a.AtMost, b.AtMost) })
				l.Writes = append(l.Writes, writes)
			}
		}
	}
	l.Phases = map[string]Spread{}
	for name, t := range timings {
		var err error
		if l.Phases[name], err = spread(t); err != nil {
			return err
		}
	}
	return l.count(timings[record.PhaseLoop])
}

// store adds the figures of a daemon's storage.
func (l *RankLoop) store(r *record.StorageReport) {
	if r == nil {
		return
	}
	if l.Storage == nil {
		l.Storage = &record.StorageReport{Lanes: r.Lanes, WriteLanes: r.WriteLanes}
	}
	s := l.Storage
	s.Reads += r.Reads
	s.Writes += r.Writes
	s.Lookups += r.Lookups
	s.BusyNS += r.BusyNS
	s.WaitNS += r.WaitNS
	s.MaxQueued = max(s.MaxQueued, r.MaxQueued)
}

// count sorts the sampled iterations into loopBuckets.
func (l *RankLoop) count(loops []record.TimingReport) error {
	if len(loops) == 0 {
		return nil
	}
	for _, limit := range append(slices.Clone(loopBuckets), 0) {
		l.Times = append(l.Times, TimeBucket{AtMostNS: limit})
	}
	for _, t := range loops {
		h, err := Histograms(t.Histogram)
		if err != nil {
			return err
		}
		for _, b := range h.Buckets() {
			i, _ := slices.BinarySearch(loopBuckets, uint64(b.From))
			l.Times[i].Count += b.Count
		}
	}
	return nil
}

// add adds the counters of a worker.
func (w *WindowWrites) add(list []transport.Stat) {
	for _, s := range list {
		switch s.Name {
		case transport.StatBatches:
			w.Batches += s.Value
		case transport.StatBatchedMessages:
			w.Messages += s.Value
		case transport.StatDoorbells:
			w.Doorbells += s.Value
		case transport.StatCreditOnly:
			w.CreditOnly += s.Value
		}
		limit, is := transport.BatchSizeOf(s.Name)
		if !is {
			continue
		}
		i := slices.IndexFunc(w.Sizes, func(b BatchBucket) bool { return b.AtMost == limit })
		if i < 0 {
			i = len(w.Sizes)
			w.Sizes = append(w.Sizes, BatchBucket{AtMost: limit})
		}
		w.Sizes[i].Count += s.Value
	}
}
