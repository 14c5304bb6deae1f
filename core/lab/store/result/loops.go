package result

import (
	"math"

	"transportbench/core/base/record"
)

// Spread is the distribution of a time, in nanoseconds.
type Spread struct {
	Mean    float64 `json:"mean_ns"`
	P50     float64 `json:"p50_ns"`
	P90     float64 `json:"p90_ns"`
	P99     float64 `json:"p99_ns"`
	Max     float64 `json:"max_ns"`
	Samples uint64  `json:"samples"`

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

// Stages is the service time of calls split into its stages, over all clients of some repeats: of
// the remote requests in mesh-proxied, and of all operations otherwise.
type Stages struct {
	Names []string
	// Spreads are in the order of Names. In their means, each client has the weight of its calls,
	// whatever share of them was sampled, so that they can be compared with Whole.Mean.
	Spreads []Spread
	// Whole is the service time of the calls of the same clients. Its mean is exact, except in
	// mesh-proxied.
	Whole Spread
	// Noise is three standard errors of the mean of the sampled calls, as a share of Ordinary,
	// without those in Held.
	Noise float64
	// Held is what calls that took longer than HeldLimit add to Whole.Mean: a thread stalled or was
	// woken late. The stages leave these calls out. Held is 0 in mesh-proxied.
	Held, HeldLimit float64
	// Direct is set except in mesh-proxied. Cost is then the time of the clock readings that only
	// sampled calls take, in nanoseconds, which the stages do not include. Stamps also disturb the
	// caches and the rhythm of a ping-pong, so sampled calls may still take longer than others:
	// Slowed is by how much, as a share of Ordinary. The means of the stages are reduced by it.
	Direct       bool
	Cost, Slowed float64
	// Halves is the reason why the ways of requests and responses are not measured: they are the
	// halves of what the daemon's turnaround leaves. It is empty if they are measured.
	Halves string
}

// Ordinary returns the mean service time without what calls that were held up add to it.
func (s *Stages) Ordinary() float64 { return s.Whole.Mean - s.Held }

// Explained returns the sum of the stages' means as a share of the mean that they are parts of.
func (s *Stages) Explained() float64 {
	sum := 0.0
	for _, part := range s.Spreads {
		sum += part.Mean
	}
	return sum / s.Ordinary()
}

// StagesOf returns the stages of some repeats, or nil if there are none.
func StagesOf(repeats []Repeat) (*Stages, error) {
	for _, find := range []func([]Repeat) (*Stages, error){proxiedStages, directStages,
		halvedStages} {
		if s, err := find(repeats); err != nil || s != nil {
			return s, err
		}
	}
	return nil, nil
}

func proxiedStages(repeats []Repeat) (*Stages, error) {
	s := &Stages{Names: record.StageNames}
	return s.fill(repeats, func(c *record.ClientReport) *record.TimingReport { return c.Remote })
}

func directStages(repeats []Repeat) (*Stages, error) {
	s := &Stages{Names: record.DirectStages, Direct: true}
	clients := 0
	for _, repeat := range repeats {
		for _, c := range repeat.Clients() {
			if c.StageNS > 0 {
				s.Cost += c.StageNS
				clients++
			}
		}
	}
	s.Cost /= float64(max(clients, 1))
	s, err := s.fill(repeats, allCalls)
	if err != nil || s == nil {
		return nil, err
	}
	if err := s.leaveOutHeld(repeats); err != nil {
		return nil, err
	}
	explained := s.Explained()
	s.Slowed = max(0, explained-1)
	for i := range s.Spreads {
		s.Spreads[i].Mean /= max(1, explained)
	}
	return s, nil
}

// allCalls returns the service times of a client's operations, with their exact mean.
func allCalls(c *record.ClientReport) *record.TimingReport {
	if c.InFlightNS == 0 || c.Ops() == 0 {
		return nil
	}
	return &record.TimingReport{Histogram: c.Latency, MeanNS: ExactMean([]record.ClientReport{*c},
		0), Samples: c.Ops()}
}

// ExactMean returns the mean service time of all calls in nanoseconds, from counts instead of
// samples: the time for which calls were in flight, over the calls. Those in flight at the end of
// the window are half done on average. inFlight is the number that a client keeps in flight, or 0
// if it varies, for clients that did not record the time. ExactMean returns NaN if the time is
// unknown.
func ExactMean(clients []record.ClientReport, inFlight int) float64 {
	time, calls := 0.0, 0.0
	for _, c := range clients {
		switch {
		case c.InFlightNS > 0:
			time += float64(c.InFlightNS)
		case inFlight > 0:
			time += float64(inFlight) * float64(c.ElapsedNS)
		default:
			return math.NaN()
		}
		calls += float64(c.Ops()) + float64(c.Drained)/2
	}
	return time / calls
}

// fill computes the spreads; whole returns the service times of the calls that a client may take
// apart.
func (s *Stages) fill(repeats []Repeat, whole func(*record.ClientReport) *record.TimingReport) (
	*Stages, error) {
	timings := make([][]record.TimingReport, len(s.Names))
	means := make([]float64, len(s.Names))
	var wholes []record.TimingReport
	for _, repeat := range repeats {
		for _, c := range repeat.Clients() {
			calls := whole(&c)
			if _, sampled := c.Stages[s.Names[0]]; !sampled || calls == nil ||
				len(c.Stages) < len(s.Names) {
				continue
			}
			wholes = append(wholes, *calls)
			for i, name := range s.Names {
				timings[i] = append(timings[i], c.Stages[name])
				means[i] += float64(calls.Samples) * c.Stages[name].MeanNS
			}
		}
	}
	var err error
	if s.Whole, err = spread(wholes); err != nil || s.Whole.Samples == 0 {
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
	s.Noise = s.noise(s.Whole.deviation)
	return s, nil
}

// noise returns three standard errors of the mean of the sampled calls, as a share of the ordinary
// mean. The sample is from a finite population.
func (s *Stages) noise(deviation float64) float64 {
	some, all := float64(s.Spreads[0].Samples), float64(s.Whole.Samples)
	return 3 * deviation * math.Sqrt(max(0, 1/some-1/all)) / s.Ordinary()
}

// halvedStages splits calls between ranks that share no clock: the daemons' turnaround, which their
// own clocks measure, and the halves of the rest.
func halvedStages(repeats []Repeat) (*Stages, error) {
	var wholes []record.TimingReport
	s := &Stages{Names: []string{record.StageRequest, record.StageServe, record.StageResponse},
		Direct: true}
	for _, repeat := range repeats {
		for _, c := range repeat.Clients() {
			if calls := allCalls(&c); calls != nil && c.NoStages != "" {
				s.Halves = c.NoStages
				wholes = append(wholes, *calls)
			}
		}
	}
	phases, err := PhasesOf(repeats)
	serve := phases[record.PhaseTurnaround]
	if err != nil || len(wholes) == 0 || serve.Samples == 0 {
		return nil, err
	}
	if s.Whole, err = spread(wholes); err != nil || s.Whole.Mean < serve.Mean {
		return nil, err
	}
	way := Spread{Mean: (s.Whole.Mean - serve.Mean) / 2}
	s.Spreads = []Spread{way, serve, way}
	return s, nil
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
