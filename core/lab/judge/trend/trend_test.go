package trend

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

// The interval has the slope in about 95 of 100 series, so that of noise alone has 0.
func TestCoverage(t *testing.T) {
	for name, c := range map[string]struct {
		n     int
		slope float64
	}{"flat": {60, 0}, "flat, divided": {900, 0}, "rising": {60, 1e-3}, "falling": {60, -1e-3}} {
		r := rand.New(rand.NewPCG(1, 2))
		held := 0
		const all = 100
		for range all {
			values := series(r, c.n, c.slope)
			got, ok := Of(values)
			require.True(t, ok)
			// Of is relative to the median, which is that of the middle.
			want := c.slope / (1 + c.slope*float64(c.n)/2)
			if got.Low <= want*1.05 && want*0.95 <= got.High || got.Low <= want &&
				want <= got.High {
				held++
			}
		}
		require.Greater(t, held, all*88/100, name)
		require.Less(t, held, all, name) // an interval without end has all
	}
}

// A machine that changes its state now and then is no trend.
func TestStates(t *testing.T) {
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
		got, ok := Of(list)
		require.True(t, ok)
		if got.Rises() || got.Falls() {
			found++
		}
	}
	require.Less(t, found, 3*all/20, "with the variance of independent values there are over 80")
}

// A rise of 5% in 1,000 is found, and so is its direction.
func TestRise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	up, ok := Of(series(r, 2000, 5e-5))
	require.True(t, ok)
	require.True(t, up.Rises())
	require.False(t, up.Falls())
	require.InDelta(t, 5e-5, up.Slope, 1e-5)
	down, ok := Of(series(r, 2000, -5e-5))
	require.True(t, ok)
	require.True(t, down.Falls())
	require.Less(t, down.Slope, 0.0)
}

func TestNoTrend(t *testing.T) {
	for _, values := range [][]float64{nil, {1, 2, 3}, make([]float64, 20)} {
		_, ok := Of(values)
		require.False(t, ok)
	}
	same, ok := Of([]float64{7, 7, 7, 7, 7, 7, 7, 7})
	require.True(t, ok)
	require.Equal(t, Trend{}, same)
}
