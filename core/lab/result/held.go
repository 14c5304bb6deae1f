package result

import (
	"cmp"
	"slices"

	"transportbench/core/base/record"
)

// A stall holds up few calls for long, and the stages are of a sample of calls, so whether it has
// caught one of those moves their means by more than all other calls do. The stages are therefore
// taken of calls that no stall held up, and what stalls add to the mean follows from the gaps that
// the threads recorded.

// leaveOutStalls makes the means those of calls that no stall held up, and sets Held. If the threads
// recorded no stall, it keeps the calls that took long, unless they make the stages longer than the
// whole: then the sample caught more of them than their share.
func (s *Stages) leaveOutStalls(repeats []Repeat) error {
	limit := s.heldLimit(repeats)
	s.Held = min(heldUp(repeats, limit), s.Whole.Mean)
	if s.Held == 0 && s.Explained() <= 1 {
		return nil
	}
	means, weight := make([]float64, len(s.Names)), 0.0
	for i := range repeats {
		for _, c := range repeats[i].Clients() {
			if c.InFlightNS == 0 || c.Stages[s.Names[0]].Samples == 0 {
				continue
			}
			weight += float64(c.Ops())
			for j, name := range s.Names {
				mean, err := meanUpTo(c.Stages[name], limit)
				if err != nil {
					return err
				}
				means[j] += float64(c.Ops()) * mean
			}
		}
	}
	for j := range means {
		s.Spreads[j].Mean = means[j] / weight
	}
	return nil
}

// heldLimit is the time from which on a stage of a call was held up by a stall: longer than the
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

// meanUpTo returns the mean of the samples up to limit, or of all if none is.
func meanUpTo(t record.TimingReport, limit float64) (float64, error) {
	h, err := Histograms(t.Histogram)
	if err != nil || float64(h.Max()) <= limit {
		return t.MeanNS, err
	}
	sum, n := 0.0, 0.0
	for _, b := range h.Buckets() {
		if float64(b.From) <= limit {
			sum += float64(b.From+b.To) / 2 * float64(b.Count)
			n += float64(b.Count)
		}
	}
	if n == 0 {
		return t.MeanNS, nil
	}
	return sum / n, nil
}

// heldUp returns what stalls longer than limit add to the mean time of an operation: the calls in
// flight wait for as long as a thread makes no progress.
func heldUp(repeats []Repeat, limit float64) float64 {
	added, ops := 0.0, 0.0
	for i := range repeats {
		r := &repeats[i]
		inFlight := 0.0 // on average
		var threads []record.ThreadReport
		for _, c := range r.Clients() {
			inFlight += float64(c.InFlightNS) / float64(max(c.ElapsedNS, 1))
			ops += float64(c.Ops())
			threads = append(threads, c.Thread)
		}
		for _, d := range r.Daemons() {
			threads = append(threads, d.Thread)
		}
		added += inFlight * stalled(threads, limit)
	}
	return added / max(ops, 1)
}

// stalled returns the time for which any of the threads had a gap longer than limit. A thread lists
// its longest gaps; if all of those are longer, the others count as well.
func stalled(threads []record.ThreadReport, limit float64) float64 {
	var gaps []record.Gap
	others := 0.0
	for _, t := range threads {
		listed, all := 0.0, len(t.Gaps) > 0
		for _, g := range t.Gaps {
			listed += float64(g.ForNS)
			if float64(g.ForNS) > limit {
				gaps = append(gaps, g)
			} else {
				all = false
			}
		}
		if all {
			others += max(0, float64(t.GapNS)-listed)
		}
	}
	slices.SortFunc(gaps, func(a, b record.Gap) int { return cmp.Compare(a.AtNS, b.AtNS) })
	total, end := 0.0, uint64(0)
	for _, g := range gaps {
		from, to := max(g.AtNS, end), g.AtNS+g.ForNS
		if to > from {
			total += float64(to - from)
			end = to
		}
	}
	return total + others
}
