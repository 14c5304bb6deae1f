package result

import (
	"math"
	"slices"

	"transportbench/core/base/record"
)

// A stall holds up few calls for long, and the stages are of a sample of calls, so whether it has
// caught one of those moves their means by more than all other calls do. The same holds for a
// thread that is woken late. The stages are therefore taken of calls that nothing held up. What the
// others add to the mean is the difference between the exact mean and that of the latencies, of
// which there are many more, without those that were held up.

// leaveOutHeld makes the means those of calls that nothing held up, and sets Held.
func (s *Stages) leaveOutHeld(repeats []Repeat) error {
	limit := s.heldLimit(repeats)
	means, others, weight := make([]float64, len(s.Names)), 0.0, 0.0
	var squares moments
	held := stalled(repeats, limit)
	for i := range repeats {
		for _, c := range repeats[i].Clients() {
			if c.InFlightNS == 0 || c.Stages[s.Names[0]].Samples == 0 {
				continue
			}
			weight += float64(c.Ops())
			m, err := upTo(record.TimingReport{Histogram: c.Latency, MeanNS: c.MeanNS}, limit)
			if err != nil {
				return err
			}
			others += float64(c.Ops()) * m.mean
			held = held || m.more
			squares.add(m)
			for j, name := range s.Names {
				if m, err = upTo(c.Stages[name], limit); err != nil {
					return err
				}
				means[j] += float64(c.Ops()) * m.mean
				held = held || m.more
			}
		}
	}
	if !held {
		return nil
	}
	s.Held, s.HeldLimit = max(0, s.Whole.Mean-others/weight), limit
	for j := range means {
		s.Spreads[j].Mean = means[j] / weight
	}
	s.Noise = s.noise(squares.deviation())
	return nil
}

// stalled reports whether a thread recorded a gap longer than limit.
func stalled(repeats []Repeat, limit float64) bool {
	for i := range repeats {
		for _, t := range record.Threads(repeats[i].Ranks) {
			if slices.ContainsFunc(t.Gaps,
				func(g record.Gap) bool { return float64(g.ForNS) > limit }) {
				return true
			}
		}
	}
	return false
}

// heldLimit is the time from which on a call, or a stage of one, was held up: longer than the
// shortest gap that threads record, and than calls ordinarily take.
func (s *Stages) heldLimit(repeats []Repeat) float64 {
	shortest := 0.0
	for i := range repeats {
		for _, c := range repeats[i].Clients() {
			shortest = max(shortest, float64(c.Thread.GapLimitNS))
		}
	}
	return shortest + 5*s.Whole.P50
}

// moments are those of the samples up to a limit.
type moments struct {
	n, sum, squares float64
	mean            float64 // exact if all samples are up to the limit
	more            bool    // there are samples above
}

// upTo returns the moments of the samples up to limit, or of all if none is.
func upTo(t record.TimingReport, limit float64) (m moments, err error) {
	h, err := Histograms(t.Histogram)
	if err != nil {
		return m, err
	}
	m.mean, m.more = t.MeanNS, float64(h.Max()) > limit
	for _, b := range h.Buckets() {
		if float64(b.From) <= limit {
			n, at := float64(b.Count), float64(b.From+b.To)/2
			m.n += n
			m.sum += n * at
			m.squares += n * at * at
		}
	}
	if m.more && m.n > 0 {
		m.mean = m.sum / m.n
	}
	return m, nil
}

func (m *moments) add(more moments) {
	m.n += more.n
	m.sum += more.sum
	m.squares += more.squares
}

func (m *moments) deviation() float64 {
	mean := m.sum / max(m.n, 1)
	return math.Sqrt(max(0, m.squares/max(m.n, 1)-mean*mean))
}
