package result

import (
	"maps"
	"math"
	"slices"

	"transportbench/core/base/record"
)

// Spread is the distribution of a time, in nanoseconds.
type Spread struct {
	Mean, P50, P90, P99, Max float64
	Samples                  uint64

	deviation float64 // standard
}

// spread merges timings; the mean is exact.
func spread(timings []record.TimingReport) (Spread, error) {
	merged := record.NewHistogram()
	var s Spread
	for _, t := range timings {
		h, err := Histograms(t.Histogram)
		if err != nil {
			return s, err
		}
		merged.Merge(h)
		s.Mean += t.MeanNS * float64(t.Samples)
		s.Samples += t.Samples
	}
	if s.Samples == 0 {
		return s, nil
	}
	s.Mean /= float64(s.Samples)
	s.P50, s.P90, s.P99 = merged.Quantile(0.5), merged.Quantile(0.9), merged.Quantile(0.99)
	s.Max, s.deviation = float64(merged.Max()), merged.StdDev()
	return s, nil
}

// Stages is the service time of remote requests in mesh-proxied, split into its stages, over all
// clients of some repeats.
type Stages struct {
	Names []string
	// Spreads are in the order of Names. In their means, each client has the weight of its remote
	// requests, whatever share of them was sampled, so that they can be compared with Whole.Mean.
	Spreads []Spread
	Whole   Spread // service time of the remote requests of the same clients
	// Noise is three standard errors of the mean of the sampled requests, as a share of Whole.Mean.
	Noise float64
}

// Explained returns the sum of the stages' means as a share of the whole's mean.
func (s *Stages) Explained() float64 {
	sum := 0.0
	for _, part := range s.Spreads {
		sum += part.Mean
	}
	return sum / s.Whole.Mean
}

// StagesOf returns the stages of some repeats, or nil if none were sampled.
func StagesOf(repeats []Repeat) (*Stages, error) {
	s := &Stages{Names: record.StageNames}
	timings := make([][]record.TimingReport, len(s.Names))
	means := make([]float64, len(s.Names))
	var whole []record.TimingReport
	for _, repeat := range repeats {
		for _, report := range repeat.Ranks {
			for _, c := range report.Clients {
				if c.Remote == nil || len(c.Stages) < len(s.Names) {
					continue
				}
				whole = append(whole, *c.Remote)
				for i, name := range s.Names {
					timings[i] = append(timings[i], c.Stages[name])
					means[i] += float64(c.Remote.Samples) * c.Stages[name].MeanNS
				}
			}
		}
	}
	var err error
	if s.Whole, err = spread(whole); err != nil || s.Whole.Samples == 0 {
		return nil, err
	}
	for i, t := range timings {
		part, err := spread(t)
		if err != nil {
			return nil, err
		}
		part.Mean = means[i] / float64(s.Whole.Samples)
		s.Spreads = append(s.Spreads, part)
	}
	// The sample is from a finite population.
	some, all := float64(s.Spreads[0].Samples), float64(s.Whole.Samples)
	s.Noise = 3 * s.Whole.deviation * math.Sqrt(max(0, 1/some-1/all)) / s.Whole.Mean
	return s, nil
}

// Loop has the loop counters of the daemons of one rank, over all of them and some repeats.
type Loop struct {
	Rank int
	// PerSecond is the average number of loop iterations of one daemon per second.
	PerSecond float64
	Counts    record.DaemonReport // sums; only counts are set
	Proxy     *record.ProxyReport // nil except in mesh-proxied
}

// LoopsOf returns the loops of all ranks that have daemons, by rank.
func LoopsOf(repeats []Repeat) []Loop {
	loops := map[int]*Loop{}
	for _, repeat := range repeats {
		for _, report := range repeat.Ranks {
			for i := range report.Daemons {
				l := loops[report.Rank]
				if l == nil {
					l = &Loop{Rank: report.Rank}
					loops[report.Rank] = l
				}
				l.add(&report.Daemons[i])
			}
		}
	}
	list := make([]Loop, 0, len(loops))
	for _, r := range slices.Sorted(maps.Keys(loops)) {
		l := loops[r]
		l.PerSecond = PerSecond(l.Counts.Loops, l.Counts.ElapsedNS)
		list = append(list, *l)
	}
	return list
}

// PhasesOf returns the sampled times of the daemons' loops over all ranks and some repeats, by the
// names of [record.DaemonReport.Phases].
func PhasesOf(repeats []Repeat) (map[string]Spread, error) {
	timings := map[string][]record.TimingReport{}
	for _, repeat := range repeats {
		for _, report := range repeat.Ranks {
			for _, d := range report.Daemons {
				for name, t := range d.Phases {
					timings[name] = append(timings[name], t)
				}
			}
		}
	}
	phases := map[string]Spread{}
	for name, t := range timings {
		var err error
		if phases[name], err = spread(t); err != nil {
			return nil, err
		}
	}
	return phases, nil
}

func (l *Loop) add(d *record.DaemonReport) {
	c := &l.Counts
	c.ElapsedNS += d.ElapsedNS
	c.Loops += d.Loops
	c.EmptyLoops += d.EmptyLoops
	c.Requests += d.Requests
	c.Flushes += d.Flushes
	c.BackPressure += d.BackPressure
	if d.Proxy == nil {
		return
	}
	if l.Proxy == nil {
		l.Proxy = &record.ProxyReport{}
	}
	l.Proxy.FromClients += d.Proxy.FromClients
	l.Proxy.Local += d.Proxy.Local
	l.Proxy.Remote += d.Proxy.Remote
	l.Proxy.Responses += d.Proxy.Responses
	l.Proxy.Incoming += d.Proxy.Incoming
	l.Proxy.Held += d.Proxy.Held
}
