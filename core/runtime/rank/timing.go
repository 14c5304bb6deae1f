package rank

import (
	"fmt"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// timing collects one time that is sampled, in ticks of a clock.
type timing struct {
	histogram *record.Histogram // nanoseconds
	sum       uint64            // ticks
	samples   uint64
}

func newTiming() *timing { return &timing{histogram: record.NewHistogram()} }

func (t *timing) reset() {
	t.histogram.Reset()
	t.sum, t.samples = 0, 0
}

func (t *timing) record(clock *machine.Clock, ticks uint64) {
	t.histogram.Record(clock.Nanos(ticks))
	t.sum += ticks
	t.samples++
}

func (t *timing) report(clock *machine.Clock) (record.TimingReport, error) {
	r := record.TimingReport{Samples: t.samples}
	if t.samples > 0 {
		r.MeanNS = float64(clock.Nanos(t.sum)) / float64(t.samples)
	}
	var err error
	if r.Histogram, err = t.histogram.Encode(); err != nil {
		return r, fmt.Errorf("encoding times: %w", err)
	}
	return r, nil
}
