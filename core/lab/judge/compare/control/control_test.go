package control

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/aclements/go-moremath/stats"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestQuantile(t *testing.T) {
	for freedom, within := range map[float64]float64{4: 0.015, 8: 0.002, 30: 0.001} {
		for _, p := range []float64{0.5, 0.25, 0.025, 0.005, 0.0005} {
			want := stats.InvCDF(stats.TDist{V: freedom})(1 - p)
			require.InDelta(t, want, quantile(p, freedom), within*want+1e-6, "%g %g", freedom, p)
		}
	}
	require.Zero(t, Spread{}.Reach(0.05))
}

// The windows that count are those of the same state within reach, the nearest of each.
func TestMovement(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	series := func(deviations ...float64) (s Series) {
		for i, d := range deviations {
			s = append(s, Point{At: at(float64(10 * i)), State: "near", Deviation: d})
		}
		return s
	}
	others := [][]Series{{series(1, 2, 3)}, {series(1, 2, 5)}, {series(1, 4, 3)},
		{series(0, 9, 3), series(2, 1, 3)}}
	movement, ok := Movement(others, at(11), "near", 15*time.Second, Fewest)
	require.True(t, ok)
	require.Equal(t, 3.0, movement, "the median of 2, 2, 4, and 5 of a transport with two cells")
	_, ok = Movement(others, at(11), "far", 15*time.Second, Fewest)
	require.False(t, ok)
	_, ok = Movement(others, at(40), "near", 15*time.Second, Fewest)
	require.False(t, ok, "too far away")
	_, ok = Movement(others[:3], at(11), "near", 15*time.Second, Fewest)
	require.False(t, ok)
	others[0][0][1].State = "far"
	movement, _ = Movement(others, at(11), "near", 15*time.Second, Fewest)
	require.Equal(t, 3.5, movement, "3 instead of 2")
}

// A window's movement is that of what all others have in common.
func TestMovementIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared := rapid.SliceOfN(rapid.Float64Range(-1, 1), 5, 20).Draw(t, "shared")
		n := rapid.IntRange(Fewest, 9).Draw(t, "transports")
		var others [][]Series
		for i := range n {
			var s Series
			for round, d := range shared {
				s = append(s, Point{
					At: time.Unix(int64(100*round+i), 0), Deviation: d})
			}
			others = append(others, []Series{s})
		}
		for round, d := range shared {
			got, ok := Movement(others, time.Unix(int64(100*round+n), 0), "", time.Minute, Fewest)
			if !ok || got != d {
				t.Fatalf("round %d: %g instead of %g", round, got, d)
			}
		}
	})
}

// The estimate of the spread is that of the residuals, and that of one transport does not count for
// itself.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	estimates := 0.0
	const trials = 200
	for range trials {
		var residuals []Residual
		for i := range 40 {
			e := 0.01 + 0.02*r.Float64()
			residuals = append(residuals, Residual{Transport: string(rune('a' + i%8)), Error: e,
				Change: 0.05*r.NormFloat64() + e*r.NormFloat64()})
		}
		residuals = append(residuals, Residual{Transport: "changed", Change: 1, Error: 0.01})
		s := SpreadWithout("changed", residuals)
		require.Equal(t, 8.0, s.Freedom)
		estimates += s.Tau * s.Tau / trials
		require.Greater(t, SpreadWithout("a", residuals).Tau, s.Tau)
	}
	require.InDelta(t, 0.05, math.Sqrt(estimates), 0.002)
	require.True(t, SpreadWithout("a", []Residual{{Transport: "a", Change: 1, Error: 0.1}}).None())
	require.True(t, SpreadWithout("a", []Residual{{Transport: "b", Change: 0.1, Error: 0.1}}).
		None())
}
