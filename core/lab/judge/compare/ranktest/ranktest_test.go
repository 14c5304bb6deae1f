package ranktest

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aclements/go-moremath/stats"
	"github.com/stretchr/testify/require"
)

// alone returns two sorted samples as one block.
func alone(a, b []float64) Blocks { return Blocks{{a, b}} }

// twoSided returns the p-value of the test of no difference.
func twoSided(s Blocks) float64 {
	fewer, more := rankTest(s)
	return min(1, 2*min(fewer, more))
}

func sortedSample(r *rand.Rand, n int, centre, spread, step float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = centre * (1 + spread*r.NormFloat64())
		if step > 0 {
			values[i] = math.Round(values[i]/step) * step
		}
	}
	slices.Sort(values)
	return values
}

// The p-value is that of all ways to deal the values, with ties and without.
func TestRankTestIsAPermutationTest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for try := range 120 {
		n, m := 1+r.IntN(6), 1+r.IntN(6)
		step := float64(try%3) * 20
		a, b := sortedSample(r, n, 1000, 0.02, step), sortedSample(r, m, 1000+float64(r.IntN(60)),
			0.02, step)
		all := slices.Concat(a, b)
		observed := wins(a, b)
		below, above, total := 0, 0, 0
		for chosen := range 1 << (n + m) {
			if bits.OnesCount(uint(chosen)) != n {
				continue
			}
			var x, y []float64
			for i, v := range all {
				if chosen>>i&1 == 1 {
					x = append(x, v)
				} else {
					y = append(y, v)
				}
			}
			total++
			if w := wins(x, y); w <= observed {
				below++
			}
			if w := wins(x, y); w >= observed {
				above++
			}
		}
		want := min(1, 2*float64(min(below, above))/float64(total))
		require.InDelta(t, want, twoSided(alone(a, b)), 1e-9, "%v %v", a, b)
	}
}

// Without ties, the p-value is that of the library. With ties, the library's exact test is wrong
// for samples of different sizes.
func TestRankTestAgreesWithTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for range 40 {
		a, b := sortedSample(r, 1+r.IntN(40), 1000, 0.02, 0),
			sortedSample(r, 1+r.IntN(40), 1010, 0.02, 0)
		test, err := stats.MannWhitneyUTest(a, b, stats.LocationDiffers)
		require.NoError(t, err)
		require.InDelta(t, min(1, test.P), twoSided(alone(a, b)), 1e-9, "%v %v", a, b)
	}
}

// Where the exact test ends, the normal approximation goes on.
func TestRankTestOfLargeTiedSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		a, b := sortedSample(r, 25, 1000, 0.02, 5), sortedSample(r, 26, 1010, 0.02, 5)
		require.False(t, alone(a, b).exact([]int{1}, true))
		require.InDelta(t, exactly(a, b), twoSided(alone(a, b)), 0.01)
	}
}

// exactly is the exact p-value of samples with ties.
func exactly(a, b []float64) float64 {
	r := rank(Block{a, b})
	below, above := permutations(r.doubled, len(a), 2).tails(r.statistic)
	return min(1, 2*min(below, above))
}

// wins is twice the U statistic by its definition.
func wins(a, b []float64) int {
	w := 0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				w += 2
			case x == y:
				w++
			}
		}
	}
	return w
}

func TestRankTestOfLargeSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		a, b := sortedSample(r, 40, 1000, 0.02, 1), sortedSample(r, 40, 1005, 0.02, 1)
		require.InDelta(t, exactly(a, b), twoSided(alone(a, b)), 0.02)
	}
	same := slices.Repeat([]float64{5}, 50)
	require.Equal(t, 1.0, twoSided(alone(same, same)))
	require.Equal(t, 1.0, twoSided(nil))
}

func TestLeast(t *testing.T) {
	require.InDelta(t, 2.0/184756, SmallestP(10, 10), 1e-12)
	require.InDelta(t, SmallestP(10, 10), twoSided(alone([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		[]float64{11, 12, 13, 14, 15, 16, 17, 18, 19, 20})), 1e-12)
	require.Equal(t, 4, RepeatsFor(0.05, 1)) // 3 against 3 reach 0.1
	require.Equal(t, 11, RepeatsFor(0.05, 10_000))
}

// The interval excludes 1 exactly where the test rejects.
func TestIntervalBelongsToTheTest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 150 {
		n, m := 4+r.IntN(46), 4+r.IntN(46)
		a, b := sortedSample(r, n, 1000, 0.02, 0),
			sortedSample(r, m, 1000*(1+0.02*r.NormFloat64()), 0.02, 0)
		ratio, low, high := Shift(alone(a, b), 0.05)
		require.LessOrEqual(t, low, ratio)
		require.LessOrEqual(t, ratio, high)
		require.Equal(t, twoSided(alone(a, b)) <= 0.05, low > 1 || high < 1, "%v %v", a, b)
	}
	_, low, high := Shift(alone([]float64{1, 2, 3}, []float64{1, 2, 3}), 0.05)
	require.Zero(t, low)
	require.True(t, math.IsInf(high, 1))
}

func TestIntervalCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{6, 10, 30} {
		covered := 0
		const trials = 200
		for range trials {
			_, low, high := Shift(alone(sortedSample(r, n, 1000, 0.02, 0),
				sortedSample(r, n, 1050, 0.02, 0)), 0.05)
			if low <= 1.05 && 1.05 <= high {
				covered++
			}
		}
		require.GreaterOrEqual(t, covered, trials*92/100, "of %d repeats", n)
	}
}

func TestShiftOfLargeSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	ratio, low, high := Shift(alone(sortedSample(r, 2000, 1000, 0.02, 0),
		sortedSample(r, 2000, 1100, 0.02, 0)), 0.05)
	require.InDelta(t, 1.1, ratio, 0.005)
	require.Less(t, low, ratio)
	require.Greater(t, high, ratio)
}

func TestHolm(t *testing.T) {
	// The worked example of the method's page in R: p.adjust(p, "holm").
	adjusted, levels := Holm([]float64{0.01, 0.02, 0.03, 0.04}, 0.05)
	require.InDeltaSlice(t, []float64{0.04, 0.06, 0.06, 0.06}, adjusted, 1e-12)
	require.InDeltaSlice(t, []float64{0.0125, 0.05 / 3, 0.05 / 3, 0.05 / 3}, levels, 1e-12)
	adjusted, levels = Holm([]float64{0.15, 0.001, 0.9}, 0.05)
	require.InDeltaSlice(t, []float64{0.3, 0.003, 0.9}, adjusted, 1e-12)
	require.InDeltaSlice(t, []float64{0.025, 0.05 / 3, 0.025}, levels, 1e-12)
	adjusted, levels = Holm(nil, 0.05)
	require.Empty(t, adjusted)
	require.Empty(t, levels)
}

func BenchmarkRankTest(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{10, 20} {
		x, y := sortedSample(r, n, 1000, 0.02, 1), sortedSample(r, n, 1001, 0.02, 1)
		b.Run(map[int]string{10: "10", 20: "20"}[n], func(b *testing.B) {
			for b.Loop() {
				twoSided(alone(x, y))
			}
		})
	}
}

// The p-value is that of all ways to deal the values of each block between the sides, with the
// weights of van Elteren.
func TestStratifiedRankTestIsAPermutationTest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for try := range 60 {
		step := float64(try%2) * 20
		var s Blocks
		for range 2 + r.IntN(2) {
			centre := 1000 * math.Pow(5, float64(r.IntN(2)))
			s = append(s, Block{sortedSample(r, 1+r.IntN(3), centre, 0.02, step),
				sortedSample(r, 1+r.IntN(3), centre*1.02, 0.02, step)})
		}
		weights := s.weights()
		observed := 0
		for i, b := range s {
			observed += weights[i] * wins(b.A, b.B)
		}
		below, above, total := 0, 0, 0
		for _, w := range dealt(s, weights) {
			total++
			if w <= observed {
				below++
			}
			if w >= observed {
				above++
			}
		}
		require.InDelta(t, min(1, 2*float64(min(below, above))/float64(total)), twoSided(s),
			1e-9, "%v", s)
		require.InDelta(t, min(1, 2/float64(total)), s.SmallestP(), 1e-9)
	}
}

// dealt returns the statistic of each way to deal the values of each block.
func dealt(s Blocks, weights []int) []int {
	if len(s) == 0 {
		return []int{0}
	}
	all := slices.Concat(s[0].A, s[0].B)
	rest := dealt(s[1:], weights[1:])
	var list []int
	for chosen := range 1 << len(all) {
		var x, y []float64
		for i, v := range all {
			if chosen>>i&1 == 1 {
				x = append(x, v)
			} else {
				y = append(y, v)
			}
		}
		if len(x) != len(s[0].A) {
			continue
		}
		for _, w := range rest {
			list = append(list, w+weights[0]*wins(x, y))
		}
	}
	return list
}

// The interval excludes 1 exactly where the stratified test rejects, and where the exact test ends
// the normal approximation goes on.
func TestStratifiedInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for range 150 {
		var s Blocks
		for state := range 2 + r.IntN(3) {
			centre := 1000 * math.Pow(5, float64(state))
			s = append(s, Block{
				sortedSample(r, 1+r.IntN(8), centre, 0.02, 0),
				sortedSample(r, 1+r.IntN(8), centre*(1+0.02*r.NormFloat64()), 0.02, 0),
			})
		}
		ratio, low, high := Shift(s, 0.05)
		require.LessOrEqual(t, low, ratio)
		require.LessOrEqual(t, ratio, high)
		require.Equal(t, twoSided(s) <= 0.05, low > 1 || high < 1, "%v", s)
	}
	var large Blocks
	for state := range 3 {
		centre := 1000 * math.Pow(5, float64(state))
		large = append(large, Block{sortedSample(r, 40, centre, 0.02, 0),
			sortedSample(r, 50, centre*1.004, 0.02, 0)})
	}
	weights := large.weights()
	require.True(t, large.exact(weights, false))
	statistic := 0
	var ranked []rankedBlock
	for i, b := range large {
		ranked = append(ranked, rank(b))
		statistic += weights[i] * ranked[i].statistic
	}
	fewer, more := normalTest(ranked, weights, statistic)
	require.InDelta(t, twoSided(large), 2*min(fewer, more), 0.01)
}
