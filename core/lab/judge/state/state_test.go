package state

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatesOfOneModeOrFewReadings(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var one []float64
	for range 200 {
		one = append(one, 50*math.Exp(0.1*r.NormFloat64()))
	}
	for name, distances := range map[string][]float64{
		"one mode":            one,
		"and an outlier":      append(slices.Clone(one), 900),
		"one reading":         {50},
		"two alike":           {50, 55},
		"two apart":           {50, 300}, // a state needs two readings
		"a slow drift":        {50, 60, 70, 80, 90, 100, 110, 120, 130, 140},
		"one factor below it": {50, 50, 50, 50, 99, 99, 99, 99}, // result.MixedRatio is 2
	} {
		s := Find(distances)
		require.Equal(t, 1, s.Count(), name)
		require.Empty(t, s.Names(), name)
		require.Empty(t, s.Of(50, 500), name)
	}
	require.Zero(t, Find(nil).Count())
	require.Empty(t, Find(nil).Of(0, 0))
}

func TestStatesAreTold(t *testing.T) {
	s := Find([]float64{50, 52, 300, 310})
	require.Equal(t, []string{"near", "far"}, s.Names())
	for state, distances := range map[string][2]float64{
		"near": {48, 53},
		"far":  {472, 312}, // a factor of 1.51 within one state
		Mixed:  {300, 50},
		Unread: {},
	} {
		require.Equal(t, state, s.Of(distances[0], distances[1]))
	}
	require.Equal(t, "far", s.Of(0, 300), "one reading")

	require.Equal(t, 2, Find([]float64{50, 50, 50, 50, 103, 103, 103, 103}).Count())

	s = Find([]float64{30, 30, 31, 80, 81, 79, 300, 310, 900, 905})
	require.Equal(t, []string{"near", "far", "far 2", "far 3"}, s.Names())
	require.Equal(t, "far 2", s.Of(320, 290))
}

// Stray readings between two states do not join them, and the order of readings does not matter.
func TestStatesWithStrayReadings(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 50 {
		var distances []float64
		for range 10 + r.IntN(100) {
			distances = append(distances, 50*math.Exp(0.05*r.NormFloat64()),
				300*math.Exp(0.15*math.Abs(r.NormFloat64())))
		}
		for range len(distances) / 40 {
			distances = append(distances, 50*math.Pow(6, r.Float64()))
		}
		first := Find(distances)
		require.Equal(t, 2, first.Count())
		require.Greater(t, first.bounds[0], 60.0)
		require.Less(t, first.bounds[0], 290.0)
		r.Shuffle(len(distances), func(i, j int) {
			distances[i], distances[j] = distances[j], distances[i]
		})
		require.Equal(t, first, Find(distances))
	}
}
