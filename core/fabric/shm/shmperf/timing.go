package shmperf

import (
	"slices"
	"time"

	"transportbench/core/transport"
)

// times are how long repetitions of something took, in nanoseconds.
type times []float64

// quantile returns a quantile of the times, which it sorts; 0 if there are none.
func (t times) quantile(q float64) float64 {
	if len(t) == 0 {
		return 0
	}
	slices.Sort(t)
	return t[min(int(q*float64(len(t))), len(t)-1)]
}

// minTail is how many times a 99th percentile needs to be more than the largest.
const minTail = 100

// fill adds the median, and the 99th percentile if each time is of a single operation.
func (t times) fill(m *transport.Measurement, batch int) {
	m.Latency, m.Samples = t.quantile(0.5), len(t)*batch
	if batch == 1 && len(t) >= minTail {
		m.LatencyP99 = t.quantile(0.99)
	}
}

// minTimes is how often something is repeated at least, even if that takes longer than the
// duration.
const minTimes = 3

// repeat times batches of calls of f until the duration is over, and returns the mean of each
// batch.
func (b *bench) repeat(batch int, f func() error) (t times, err error) {
	for start := time.Now(); len(t) < minTimes || time.Since(start) < b.Duration; {
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
		before := time.Now()
		for range batch {
			if err := f(); err != nil {
				return nil, err
			}
		}
		t = append(t, float64(time.Since(before))/float64(batch))
	}
	return t, nil
}
