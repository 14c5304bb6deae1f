package compare

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare/ranktest"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
)

// An injected delay is recovered as a difference although the sides drew the states of the machine
// in different shares: the difference of all medians would be several hundred ns off.
func TestShiftWithinStates(t *testing.T) {
	m := &machineState{r: rand.New(rand.NewPCG(7, 1)), start: time.Unix(0, 0)}
	covered := 0
	for range 200 {
		a, b := m.side(40, 0.8, 1000, 2, 0.03), m.side(40, 0.3, 1000, 2, 0.03)
		for i := range b.Samples[result.Throughput] {
			b.Samples[result.Throughput][i] += 100
		}
		s, ok := NewShift(Values{&a, result.Throughput}, Values{&b, result.Throughput},
			ranktest.Subtract,
			state.NewClassifier(newSet(a, b)), 0.05)
		require.True(t, ok)
		require.InDelta(t, 100, s.Value, 60)
		require.NotNil(t, s.Low)
		if *s.Low <= 100 && *s.High >= 100 {
			covered++
		}
	}
	require.GreaterOrEqual(t, covered, 180)
}

func TestShiftOfTooFew(t *testing.T) {
	a, b := cell(nil, 100, 101, 102), cell(nil, 110, 111, 112)
	s, ok := NewShift(Values{&a, result.Throughput}, Values{&b, result.Throughput},
		ranktest.Subtract,
		state.Classifier{}, 0.05)
	require.True(t, ok)
	require.InDelta(t, 10, s.Value, 1e-9)
	require.Nil(t, s.Low)
	require.Nil(t, s.High)
	_, ok = NewShift(Values{&a, result.Throughput}, Values{&b, "other"}, ranktest.Subtract,
		state.Classifier{}, 0.05)
	require.False(t, ok)
}
