package analyze

import (
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// ReplayTimes are the response times of a replay over the time of the trace, of all repeats
// together.
type ReplayTimes struct {
	Steps []ReplaySpan `json:"steps"` // equal parts, in order
	// Worst are the ten seconds of the window, or the sixth of a shorter one than a minute, with
	// the highest p99, or with the smallest share within the objective if there is one.
	Worst ReplaySpan `json:"worst"`

	worst int // steps of Worst
}

// ReplaySpan is a stretch of a trace.
type ReplaySpan struct {
	At  float64 `json:"at_ns"`  // since the begin of the part, in the time of the trace
	For float64 `json:"for_ns"` // in the time of the trace
	// Rate is the operations that were due, per second of the window.
	Rate float64 `json:"rate"`
	// P50 and P99 are 0 without samples. They count where operations ended, not where they were
	// due.
	P50     float64 `json:"p50_ns"`
	P99     float64 `json:"p99_ns"`
	Samples uint64  `json:"samples"`
	// Within is the share of the response times within the objective, if there is one.
	Within *float64 `json:"within,omitempty"`

	times *record.Histogram
}

// worstTime is the length of the worst span in a window, and worstShare its largest share of one.
const worstTime, worstShare = 10 * time.Second, 6

// ReplayTimesOf returns the response times of the results of one configuration over the time of the
// trace that they replay, or nil if they replay none at its times, or have no steps, as results of
// early versions.
func ReplayTimesOf(list []*result.Result) (*ReplayTimes, error) {
	first := list[0]
	if first.Replay == nil || !first.Config.Rate.Offers() {
		return nil, nil
	}
	var merged [record.Steps]*record.Histogram
	for i := range merged {
		merged[i] = record.NewHistogram()
	}
	found := false
	for _, r := range list {
		for i := range r.Repeats {
			for _, c := range r.Repeats[i].Clients() {
				if c.Open == nil || len(c.Open.Steps) != len(merged) {
					continue
				}
				found = true
				for at := range merged {
					h, err := record.DecodeHistogram(c.Open.Steps[at].Histogram)
					if err != nil {
						return nil, err
					}
					merged[at].Merge(h)
				}
			}
		}
	}
	if !found {
		return nil, nil
	}
	window, speed := time.Duration(first.Config.Duration), first.Config.Speed.Factor()
	if window <= 0 {
		return nil, nil
	}
	t := &ReplayTimes{
		worst: int(min((worstTime*record.Steps-1)/window+1, record.Steps/worstShare))}
	step := float64(window) * speed / record.Steps
	for i, h := range merged {
		at := float64(i) * step
		due := first.Replay.Between(time.Duration(at), time.Duration(at+step))
		t.Steps = append(t.Steps, spanOf(at, step, due/step*1e9*speed, h, 0))
	}
	t.findWorst(0)
	return t, nil
}

// Under returns t with the shares of the response times within a limit in nanoseconds.
func (t *ReplayTimes) Under(limit float64) *ReplayTimes {
	under := &ReplayTimes{worst: t.worst}
	for _, s := range t.Steps {
		under.Steps = append(under.Steps, spanOf(s.At, s.For, s.Rate, s.times, limit))
	}
	under.findWorst(limit)
	return under
}

// spanOf returns a span with its times, and with the share within a limit that is not 0.
func spanOf(at, length, rate float64, h *record.Histogram, limit float64) ReplaySpan {
	s := ReplaySpan{At: at, For: length, Rate: rate, P50: h.Quantile(0.5), P99: h.Quantile(0.99),
		Samples: h.Count(), times: h}
	if limit > 0 && s.Samples > 0 {
		s.Within = new(h.Within(uint64(limit)))
	}
	return s
}

func (t *ReplayTimes) findWorst(limit float64) {
	for i := range len(t.Steps) - t.worst + 1 {
		all, rate := record.NewHistogram(), 0.0
		for _, s := range t.Steps[i : i+t.worst] {
			all.Merge(s.times)
			rate += s.Rate / float64(t.worst)
		}
		first := &t.Steps[i]
		s := spanOf(first.At, first.For*float64(t.worst), rate, all, limit)
		worse := s.P99 > t.Worst.P99
		if s.Within != nil && t.Worst.Within != nil {
			worse = *s.Within < *t.Worst.Within
		}
		if i == 0 || worse {
			t.Worst = s
		}
	}
}
