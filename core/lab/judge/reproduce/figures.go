package reproduce

import (
	"slices"
	"strconv"
	"strings"

	"transportbench/core/base/record"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// figures has the figures of a cell, also those that no metric has.
type figures struct {
	set     *set.Set
	shown   state.Shown // the windows of the cell that count
	cell    *set.Cell
	rank    int // whose loops are meant
	repeats []result.Repeat
	loops   []result.RankLoop
}

// kinds are the figures that no metric has, by what their names begin with. A name goes on behind a
// dot.
var kinds = map[string]func(f *figures, of string) (*Figure, error){
	"loops":    (*figures).loop,
	"phases":   (*figures).phase,
	"times":    (*figures).times,
	"writes":   (*figures).writes,
	"remote":   (*figures).remote,
	"stages":   (*figures).stages,
	"counters": (*figures).counters, // of a run; those of a microbenchmark are metrics
}

// opTime is the time of an operation with all calls in flight: the inverse of the throughput.
const opTime = "op_time"

// invert makes the time of an operation of a rate.
func (f *Figure) invert() {
	f.Value, f.Unit = 1e9/f.Value, "ns"
	if f.Low != nil {
		f.Low, f.High = new(1e9 / *f.High), new(1e9 / *f.Low)
	}
	for i := range f.samples {
		f.samples[i] = 1e9 / f.samples[i]
	}
	slices.Sort(f.samples)
}

// figure returns a metric, the time of an operation, or a figure of one of the kinds; nil if the
// cell has no such figure.
func (f *figures) figure(name string) (*Figure, error) {
	if name == opTime {
		rate, err := f.figure(result.Throughput)
		if rate != nil {
			rate.invert()
		}
		return rate, err
	}
	in := f.shown.Cell(f.cell)
	if m, known := in.Metric(name); known {
		return &Figure{Value: m.Median, Unit: m.Unit, Low: m.Low, High: m.High,
			samples: slices.Sorted(slices.Values(in.Samples[name]))}, nil
	}
	kind, of, _ := strings.Cut(name, ".")
	read, has := kinds[kind]
	if !has {
		return nil, nil
	}
	if f.repeats == nil {
		results, err := f.set.Results(f.cell)
		if err != nil {
			return nil, err
		}
		for _, r := range f.shown.Results(f.cell, results) {
			f.repeats = append(f.repeats, r.Repeats...)
		}
		if f.loops, err = result.RankLoopsOf(f.repeats); err != nil {
			return nil, err
		}
	}
	return read(f, of)
}

// ofRank returns the loops of the rank, or nil.
func (f *figures) ofRank() *result.RankLoop {
	i := slices.IndexFunc(f.loops, func(r result.RankLoop) bool { return r.Rank == f.rank })
	if i < 0 {
		return nil
	}
	return &f.loops[i]
}

// loop returns an event of the rank's loops, "per_request", "total", or "busy", the share of the
// time that went into iterations that found work.
func (f *figures) loop(event string) (*Figure, error) {
	rank := f.ofRank()
	if rank == nil {
		return nil, nil
	}
	value, has := rank.PerLoop[event]
	switch event {
	case "per_request":
		// As in the document, of the rank's own clients.
		requests := rank.PerLoop[result.EventFromClients]
		value, has = 1/requests, requests > 0
	case "busy":
		busy, elapsed := 0.0, 0.0
		for i := range f.repeats {
			for _, report := range f.repeats[i].Ranks {
				for _, d := range report.Daemons {
					if report.Rank == f.rank {
						busy, elapsed = busy+float64(d.BusyNS), elapsed+float64(d.ElapsedNS)
					}
				}
			}
		}
		value, has = busy/elapsed, busy > 0 && elapsed > 0
	case "total":
		if rank.Loops > 0 {
			return &Figure{Value: float64(rank.Loops), Unit: "loop"}, nil
		}
	}
	if !has {
		return nil, nil
	}
	return &Figure{Value: value, Unit: "ratio"}, nil
}

// phase returns "NAME.p90" and the like of the phases of the rank's loops.
func (f *figures) phase(name string) (*Figure, error) {
	rank := f.ofRank()
	if rank == nil {
		return nil, nil
	}
	phase, statistic, _ := strings.Cut(name, ".")
	p := rank.Phases[phase]
	value, has := map[string]float64{"p50": p.P50, "p90": p.P90, "p99": p.P99}[statistic]
	if p.Samples == 0 || !has {
		return nil, nil
	}
	return &Figure{Value: value, Unit: "ns"}, nil
}

// times returns the share of the rank's sampled iterations that took at most so many nanoseconds.
func (f *figures) times(atMost string) (*Figure, error) {
	rank := f.ofRank()
	limit, err := strconv.ParseUint(atMost, 10, 64)
	if rank == nil || err != nil {
		return nil, err
	}
	within, all := uint64(0), uint64(0)
	for _, bucket := range rank.Times {
		all += bucket.Count
		if bucket.AtMostNS > 0 && bucket.AtMostNS <= limit {
			within += bucket.Count
		}
	}
	if all == 0 {
		return nil, nil
	}
	return &Figure{Value: float64(within) / float64(all), Unit: "ratio"}, nil
}

// writes returns "messages", those of a batch, or "credit_only", the share of the writes that
// return credit and nothing else, of all ranks.
func (f *figures) writes(of string) (*Figure, error) {
	var all result.WindowWrites
	for i := range f.loops {
		for _, w := range f.loops[i].Writes {
			all.Batches += w.Batches
			all.Messages += w.Messages
			all.CreditOnly += w.CreditOnly
		}
	}
	switch {
	case all.Batches == 0:
		return nil, nil
	case of == "messages":
		return &Figure{Value: float64(all.Messages) / float64(all.Batches), Unit: "ratio"}, nil
	}
	return &Figure{Value: float64(all.CreditOnly) / float64(all.Batches+all.CreditOnly),
		Unit: "ratio"}, nil
}

// remote returns the share of the calls to other ranks that took at most so many nanoseconds.
func (f *figures) remote(atMost string) (*Figure, error) {
	limit, err := strconv.ParseUint(atMost, 10, 64)
	if err != nil {
		return nil, err
	}
	all := record.NewHistogram()
	for i := range f.repeats {
		for _, c := range f.repeats[i].Clients() {
			if c.Remote == nil || c.Remote.Samples == 0 {
				continue
			}
			h, err := result.Histograms(c.Remote.Histogram)
			if err != nil {
				return nil, err
			}
			all.Merge(h)
		}
	}
	if all.Count() == 0 {
		return nil, nil
	}
	return &Figure{Value: all.Within(limit), Unit: "ratio"}, nil
}

// stages returns the mean of one of [record.StageNames], or of several joined by "+".
func (f *figures) stages(names string) (*Figure, error) {
	s, err := result.StagesOf(f.repeats)
	if s == nil || err != nil {
		return nil, err
	}
	sum := 0.0
	for _, name := range strings.Split(names, "+") {
		i := slices.Index(s.Names, name)
		if i < 0 {
			return nil, nil
		}
		sum += s.Spreads[i].Mean
	}
	return &Figure{Value: sum, Unit: "ns"}, nil
}

// counters returns one of [result.CounterRatios] of all polling threads.
func (f *figures) counters(ratio string) (*Figure, error) {
	sums := map[string]uint64{}
	for i := range f.repeats {
		for _, t := range record.Threads(f.repeats[i].Ranks) {
			for name, n := range t.Counters {
				sums[name] += n
			}
		}
	}
	value, counted := result.CounterRatios["counters."+ratio].In(sums)
	if !counted {
		return nil, nil
	}
	return &Figure{Value: value, Unit: "ratio"}, nil
}
