package workload

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

// rankBins divides the ranks 1 to n into bins that grow by a twentieth, so that they differ from
// the generator's cells. It returns the first rank of every bin and n+1, and the probability of
// each bin.
func rankBins(n uint64, theta float64) (bounds []uint64, probability []float64) {
	total := zetaRange(1, n+1, theta)
	for k := uint64(1); k <= n; {
		next := min(k+max(1, k/20), n+1)
		bounds = append(bounds, k)
		probability = append(probability, zetaRange(k, next, theta)/total)
		k = next
	}
	return append(bounds, n+1), probability
}

func countBins(z *zipfian, bounds []uint64, draws int) []uint64 {
	// Guess the bin of a rank by its logarithm, then correct it: a search would take most of the
	// test's time.
	observed := make([]uint64, len(bounds)-1)
	guess := make([]int, 65*64)
	at := func(rank uint64) int { return int(math.Log2(float64(rank)) * 64) }
	for bin := range observed {
		for i := at(bounds[bin]); i < len(guess); i++ {
			guess[i] = bin
		}
	}
	r := newRandom(1, 0)
	for range draws {
		rank := z.next(&r) + 1
		bin := guess[at(rank)]
		for bounds[bin] > rank {
			bin--
		}
		for bounds[bin+1] <= rank {
			bin++
		}
		observed[bin]++
	}
	return observed
}

func TestZipfianIsZipfian(t *testing.T) {
	const draws = 1_000_000
	for _, n := range []uint64{2, 3, 10, 100, 1000, 1024, 100_003, config.MaxKeys} {
		for _, theta := range []float64{0.01, 0.5, 0.8, 0.99, 0.999} {
			t.Run(fmt.Sprintf("%d/%g", n, theta), func(t *testing.T) {
				bounds, probability := rankBins(n, theta)
				bounds, probability = mergeSmall(bounds, probability, 20.0/draws)
				if len(probability) < 2 {
					t.Fatal("nothing to compare")
				}
				observed := countBins(newZipfian(n, theta), bounds, draws)
				statistic, critical := chiSquared(t, observed, probability)
				require.Less(t, statistic, critical)
			})
		}
	}
}

// mergeSmall merges bins until each has at least the given probability.
func mergeSmall(bounds []uint64, probability []float64, minimum float64) ([]uint64, []float64) {
	var newBounds []uint64
	var newProbability []float64
	sum, from := 0.0, bounds[0]
	for i, p := range probability {
		if sum += p; sum >= minimum {
			newBounds, newProbability = append(newBounds, from), append(newProbability, sum)
			sum, from = 0, bounds[i+1]
		}
	}
	newProbability[len(newProbability)-1] += sum
	return append(newBounds, bounds[len(bounds)-1]), newProbability
}

// TestZipfianWithinCells checks within cells, for which the bins above are too coarse: the first
// half of a cell's ranks is drawn more often than the second, by less than a hundredth.
func TestZipfianWithinCells(t *testing.T) {
	const n, theta, draws = 1 << 20, 0.99, 4_000_000
	z := newZipfian(n, theta)
	half := make([]uint8, n) // 0 first, 1 second, 2 neither
	var probability [2]float64
	for _, c := range z.cells {
		first, middle, last := uint64(c.first), uint64(c.first+c.width/2), uint64(c.first+c.width)
		for rank := first; rank < last; rank++ {
			switch {
			case c.width%2 != 0:
				half[rank] = 2
			case rank >= middle:
				half[rank] = 1
			}
		}
		if c.width%2 == 0 {
			probability[0] += zetaRange(first+1, middle+1, theta)
			probability[1] += zetaRange(middle+1, last+1, theta)
		}
	}
	total := probability[0] + probability[1]
	probability[0] /= total
	probability[1] /= total

	count := func() []uint64 {
		var observed [3]uint64
		r := newRandom(1, 0)
		for range draws {
			observed[half[z.next(&r)]]++
		}
		return observed[:2]
	}
	statistic, critical := chiSquared(t, count(), probability[:])
	require.Less(t, statistic, critical)

	// Without rejection, the draws follow the staircase.
	for i := range z.cells {
		z.cells[i].sure = math.MaxUint64
	}
	statistic, critical = chiSquared(t, count(), probability[:])
	require.Greater(t, statistic, critical)
}

func TestZipfianTestCanFail(t *testing.T) {
	bounds, probability := rankBins(1000, 0.99)
	statistic, critical := chiSquared(t, countBins(newZipfian(1000, 0.98), bounds, 1_000_000),
		probability)
	require.Greater(t, statistic, critical, "a theta that is off by a hundredth")
}

func TestZipfianKeysAreScrambledRanks(t *testing.T) {
	const keys, theta, draws = 1000, 0.99, 500_000
	probability := make([]float64, keys)
	total := zetaRange(1, keys+1, theta)
	p := newPermutation(keys)
	for rank := range uint64(keys) {
		probability[p.apply(rank)] = math.Pow(float64(rank+1), -theta) / total
	}
	for _, mix := range []config.Mix{nil, {{Op: config.OpLookup, Share: 1}}} { // either path
		g := generator(t, 3, func(c *config.Config) {
			zipfianKeys(keys, theta)(c)
			c.Mix = mix
		})
		statistic, critical := chiSquared(t, countKeys(g, keys, draws), probability)
		require.Less(t, statistic, critical)
	}
}

func TestZipfianCellsCoverTheRanks(t *testing.T) {
	for _, n := range []uint64{1, 2, 63, 64, 65, 1000, 1 << 20, config.MaxKeys} {
		z := newZipfian(n, 0.99)
		next := uint64(0)
		for _, c := range z.cells {
			require.EqualValues(t, next, c.first)
			require.Positive(t, c.width)
			next += uint64(c.width)
		}
		require.Equal(t, n, next)
		require.Less(t, len(z.cells), 1300, "36 KiB are to fit a core's cache")
	}
}

func TestZipfianOfOneKey(t *testing.T) {
	g := generator(t, 0, zipfianKeys(1, 0.5))
	for _, r := range draw(g, 1000) {
		require.Zero(t, r.Key)
	}
}

func TestPermutationIsOne(t *testing.T) {
	for n := uint64(1); n < 300; n++ {
		requirePermutation(t, n)
	}
	for _, n := range []uint64{1000, 1024, 1025, 65_537, 1 << 20} {
		requirePermutation(t, n)
	}
}

func requirePermutation(t *testing.T, n uint64) {
	t.Helper()
	p := newPermutation(n)
	seen := make([]bool, n)
	for x := range n {
		y := p.apply(x)
		if y >= n || seen[y] {
			t.Fatalf("n=%d: %d is mapped to %d, which is out of range or taken", n, x, y)
		}
		seen[y] = true
	}
}

func TestPermutationScatters(t *testing.T) {
	// The hottest 64 ranks are spread over 8 ranges of the keys like random ones: no range has
	// half of them.
	for _, n := range []uint64{1000, 1024, 1 << 20, 1_000_000, config.MaxKeys} {
		p := newPermutation(n)
		var ranges [8]int
		for rank := range uint64(64) {
			ranges[p.apply(rank)*8/n]++
		}
		for _, hot := range ranges {
			require.Less(t, hot, 20, "n=%d: %v", n, ranges)
			require.Positive(t, hot, "n=%d: %v", n, ranges)
		}
	}
}
