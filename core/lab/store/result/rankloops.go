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

// rankSums adds up what the daemons of one rank did.
type rankSums struct {
	RankLoop
	elapsedNS uint64
	timings   map[string][]record.TimingReport // by phase
}

// RankLoopsOf returns the loops of all ranks that have daemons, by rank.
func RankLoopsOf(repeats []Repeat) ([]RankLoop, error) {
	ranks := map[int]*rankSums{}
	for i := range repeats {
		for _, report := range repeats[i].Ranks {
			if len(report.Daemons) == 0 {
				continue
			}
			l := ranks[report.Rank]
			if l == nil {
				l = &rankSums{RankLoop: RankLoop{Rank: report.Rank, PerLoop: map[string]float64{},
					Phases: map[string]Spread{}}, timings: map[string][]record.TimingReport{}}
				ranks[report.Rank] = l
			}
			l.add(repeats[i].Index, &report)
		}
	}
	var list []RankLoop
	for _, rank := range slices.Sorted(maps.Keys(ranks)) {
		if err := ranks[rank].finish(); err != nil {
			return nil, err
		}
		list = append(list, ranks[rank].RankLoop)
	}
	return list, nil
}

// add adds the rank's report of a window. Until finish, PerLoop has the numbers of all events.
func (l *rankSums) add(window int, report *record.Report) {
	l.Windows++
	l.Daemons = len(report.Daemons)
	writes := WindowWrites{Window: window}
	count := func(event string, n uint64) { l.PerLoop[event] += float64(n) }
	for _, d := range report.Daemons {
		l.Loops += d.Loops
		l.elapsedNS += d.ElapsedNS
		count(EventEmpty, d.EmptyLoops)
		count(EventServed, d.Requests)
		count(EventFlushes, d.Flushes)
		count(EventBackPressure, d.BackPressure)
		if p := d.Proxy; p != nil {
			count(EventFromClients, p.FromClients)
			count(EventLocal, p.Local)
			count(EventRemote, p.Remote)
			count(EventResponses, p.Responses)
			count(EventIncoming, p.Incoming)
		}
		if d.Delegation != nil {
			count(EventDelegated, d.Delegation.Sent)
		}
		for name, t := range d.Phases {
			l.timings[name] = append(l.timings[name], t)
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

// finish computes rates and spreads from the sums.
func (l *rankSums) finish() error {
	if requests := l.PerLoop[EventServed] + l.PerLoop[EventRemote]; requests > 0 {
		l.LoopsPerRequest = float64(l.Loops) / requests
	}
	for event := range l.PerLoop {
		l.PerLoop[event] /= float64(max(l.Loops, 1))
	}
	l.PerSecond = PerSecond(l.Loops, l.elapsedNS)
	for name, t := range l.timings {
		var err error
		if l.Phases[name], err = spread(t); err != nil {
			return err
		}
	}
	return l.count(l.timings[record.PhaseLoop])
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
