package sample

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

func TestWitnessMetrics(t *testing.T) {
	put := func(r *result.Repeat) map[string]float64 {
		samples := map[string]float64{}
		putWitness(config.Default(), r, func(name string, v float64) { samples[name] = v })
		return samples
	}
	r := &result.Repeat{Samples: map[string]float64{result.LatencyP50: 600, result.Throughput: 1e6}}
	r.Before.Witness = &transport.Floor{RoundTrip: 100}
	require.Empty(t, put(r), "one reading is not around the window")
	r.After.Witness = &transport.Floor{RoundTrip: 400}
	require.Equal(t, map[string]float64{result.WitnessRoundTrip: 200, result.WitnessRatio: 3},
		put(r))
	r.Before.CoreDistance, r.Before.CoreDistances = 50, []float64{50, 50}
	r.After.CoreDistance, r.After.CoreDistances = 50, []float64{50, 50}
	require.Equal(t, map[string]float64{result.WitnessRoundTrip: 100, result.WitnessRatio: 6},
		put(r),
		"the machine was in one state, so the second reading was disturbed")
	r.Before.Witness, r.After.Witness = &transport.Floor{PerOp: 500}, &transport.Floor{PerOp: 500}
	require.Equal(t, map[string]float64{result.WitnessRate: 500, result.WitnessTimeRatio: 2},
		put(r))
}
