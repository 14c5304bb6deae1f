package micro

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// series has a slope of a share of the first value, noise that is skewed as times are, and a value
// in twenty that is ten times as large.
func series(r *rand.Rand, n int, slope float64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = 1000 * (1 + slope*float64(i)) * (1 + 0.05*r.ExpFloat64())
		if r.IntN(20) == 0 {
			list[i] *= 10
		}
	}
	return list
}

// A machine that changes its state now and then is no trend.
func TestStatesAreNoTrend(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const all = 200
	found := 0
	for range all {
		list, state := make([]float64, 1200), 1.0
		for i := range list {
			if r.IntN(60) == 0 {
				state = 1 + 0.3*r.Float64()
			}
			list[i] = 1000 * state * (1 + 0.05*r.ExpFloat64())
		}
		if newTrend(list).Direction != 0 {
			found++
		}
	}
	require.Less(t, found, 3*all/20)
}

// A rise of 5% in 1,000 is found, and so is its direction.
func TestRise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	up := newTrend(series(r, 2000, 5e-5))
	require.Equal(t, 1, up.Direction)
	require.InDelta(t, 0.075, up.Change, 0.02)
	require.Less(t, up.Low, up.Change)
	require.Greater(t, up.High, up.Change)
	down := newTrend(series(r, 2000, -5e-5))
	require.Equal(t, -1, down.Direction)
	require.Negative(t, down.High)
}

func TestNoTrend(t *testing.T) {
	require.Nil(t, newTrend(nil))
	require.Nil(t, newTrend(make([]float64, 4*minQuarter-1)))
	same := make([]float64, 4*minQuarter)
	for i := range same {
		same[i] = 7
	}
	require.Equal(t, &Trend{}, newTrend(same))
}
