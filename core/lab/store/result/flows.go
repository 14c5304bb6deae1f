package result

import (
	"cmp"
	"slices"

	"transportbench/core/base/record"
)

// Flow has the operations between a calling rank and a rank that it called, for loads with a
// pattern of traffic.
type Flow struct {
	From int `json:"from"`
	To   int `json:"to"`
	// PerSecond is the throughput in op/s, the mean over the windows.
	PerSecond float64 `json:"per_second"`
	Latency   Spread  `json:"latency"` // service time
	// Alone is the service time while no other pair called, and Slowdown Latency's median over
	// that of Alone. Both are zero if that was not measured.
	Alone    Spread  `json:"alone,omitzero"`
	Slowdown float64 `json:"slowdown,omitempty"`
}

// PairAlone has the operations of one client between a pair of ranks while no other one called.
type PairAlone struct {
	// From is the rank of the client.
	From      int    `json:"from"`
	ElapsedNS uint64 `json:"elapsed_ns"`
	record.PeerReport
}

// FlowsOf returns the flows of some repeats that completed operations, by ranks.
func FlowsOf(repeats []Repeat) ([]Flow, error) {
	flows, alone := map[record.Pair]Flow{}, map[record.Pair][]record.TimingReport{}
	timings := map[record.Pair][]record.TimingReport{}
	for _, repeat := range repeats {
		for _, r := range repeat.Ranks {
			for _, c := range r.Clients {
				for _, p := range c.Peers {
					at := record.Pair{From: r.Rank, To: p.Rank}
					f := flows[at]
					f.PerSecond += PerSecond(p.Count, c.ElapsedNS) / float64(len(repeats))
					flows[at], timings[at] = f, append(timings[at], p.Latency)
				}
			}
		}
		for _, p := range repeat.PairsAlone {
			at := record.Pair{From: p.From, To: p.Rank}
			alone[at] = append(alone[at], p.Latency)
		}
	}
	list := make([]Flow, 0, len(flows))
	for at, f := range flows {
		var err error
		if f.Latency, err = spread(timings[at]); err != nil {
			return nil, err
		}
		if f.Alone, err = spread(alone[at]); err != nil {
			return nil, err
		}
		if f.PerSecond == 0 {
			continue
		}
		if f.From, f.To = at.From, at.To; f.Alone.P50 > 0 {
			f.Slowdown = f.Latency.P50 / f.Alone.P50
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Flow) int { return cmp.Or(a.From-b.From, a.To-b.To) })
	return list, nil
}

// Straggler returns the median service time of the slowest flow over that of the median flow; ok is
// false with fewer than two flows that have samples.
func Straggler(flows []Flow) (ratio float64, ok bool) {
	var medians []float64
	for _, f := range flows {
		if f.Latency.Samples > 0 {
			medians = append(medians, f.Latency.P50)
		}
	}
	if len(medians) < 2 {
		return 0, false
	}
	middle := record.Median(medians)
	return slices.Max(medians) / middle, middle > 0
}

// Jain returns Jain's fairness index of some rates (Jain, Chiu and Hawe, "A quantitative measure of
// fairness", 1984): 1 if all are equal, and 1/n if one of n has everything. ok is false with fewer
// than two rates or if all are 0.
func Jain(rates []float64) (index float64, ok bool) {
	sum, squares := 0.0, 0.0
	for _, r := range rates {
		sum += r
		squares += r * r
	}
	if len(rates) < 2 || squares == 0 {
		return 0, false
	}
	return sum * sum / (float64(len(rates)) * squares), true
}
