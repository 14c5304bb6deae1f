package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
	"transportbench/core/base/record"
)

// The response times of the steps of a replay add up to those of the window.
func TestSteppedResponses(t *testing.T) {
	clock := machine.Calibrated()
	for _, stepped := range []bool{false, true} {
		o := newOpenTimes(1, stepped)
		for range 2 { // windows
			o.reset()
			for step, t := range o.response {
				for range step {
					t.Record(clock, clock.Ticks(time.Millisecond))
				}
			}
		}
		r := o.report(clock)
		require.EqualValues(t, record.Steps*(record.Steps-1)/2, r.Response.Samples)
		if !stepped {
			require.Empty(t, r.Steps)
			continue
		}
		require.Len(t, r.Steps, record.Steps)
		for step, s := range r.Steps {
			require.EqualValues(t, step, s.Samples)
			h, err := record.DecodeHistogram(s.Histogram)
			require.NoError(t, err)
			require.EqualValues(t, step, h.Count())
			if step > 0 {
				require.InEpsilon(t, r.Response.MeanNS, h.Quantile(1), 0.03)
			}
		}
	}
}
