package workload

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// significance is the significance level of all tests. Their seeds are fixed, so it is not the
// rate at which they fail.
const significance = 1e-6

// chiSquared compares counts with probabilities. It returns the statistic and the value that it
// exceeds by chance with probability significance (Wilson and Hilferty's approximation).
func chiSquared(t *testing.T, observed []uint64,
	probability []float64) (statistic, critical float64) {
	t.Helper()
	require.Equal(t, len(probability), len(observed))
	var draws, total float64
	for i, n := range observed {
		draws += float64(n)
		total += probability[i]
	}
	require.InDelta(t, 1, total, 1e-6, "the probabilities must add up")
	for i, n := range observed {
		expected := draws * probability[i]
		require.Greater(t, expected, 5.0, "bin %d is too small for the test", i)
		statistic += (float64(n) - expected) * (float64(n) - expected) / expected
	}
	return statistic, chiSquaredQuantile(float64(len(observed) - 1))
}

func chiSquaredQuantile(freedom float64) float64 {
	z := math.Sqrt2 * math.Erfinv(1-2*significance)
	c := 1 - 2/(9*freedom) + z*math.Sqrt(2/(9*freedom))
	return freedom * c * c * c
}

// contingency returns the statistic for the hypothesis that rows and columns of a table of counts
// are independent, and its critical value.
func contingency(table [][]uint64) (statistic, critical float64) {
	rows, columns := make([]float64, len(table)), make([]float64, len(table[0]))
	total := 0.0
	for i := range table {
		for j, n := range table[i] {
			rows[i] += float64(n)
			columns[j] += float64(n)
			total += float64(n)
		}
	}
	for i := range table {
		for j, n := range table[i] {
			expected := rows[i] * columns[j] / total
			statistic += (float64(n) - expected) * (float64(n) - expected) / expected
		}
	}
	return statistic, chiSquaredQuantile(float64((len(rows) - 1) * (len(columns) - 1)))
}

func newTable(rows, columns int) [][]uint64 {
	table := make([][]uint64, rows)
	for i := range table {
		table[i] = make([]uint64, columns)
	}
	return table
}

// zetaRange returns the sum of k^-theta over a <= k < b: term by term at the head, then by the
// Euler-Maclaurin formula.
func zetaRange(a, b uint64, theta float64) float64 {
	sum := 0.0
	for ; a < b && a < 1000; a++ {
		sum += math.Pow(float64(a), -theta)
	}
	if a == b {
		return sum
	}
	x, y := float64(a), float64(b) // the terms of x to y-1
	f := func(v float64) float64 { return math.Pow(v, -theta) }
	integral := (math.Pow(y, 1-theta) - math.Pow(x, 1-theta)) / (1 - theta)
	return sum + integral + (f(x)-f(y))/2 + theta*(f(x)/x-f(y)/y)/12
}

func TestStatisticsAgainstTables(t *testing.T) {
	// The quantiles for 1e-6 from numerical inversion of the distribution.
	require.InEpsilon(t, 56.493, chiSquaredQuantile(15), 0.02)
	require.InEpsilon(t, 1252.58, chiSquaredQuantile(1023), 0.002)

	direct := 0.0
	for k := 1; k < 100_000; k++ {
		direct += math.Pow(float64(k), -0.99)
	}
	require.InEpsilon(t, direct, zetaRange(1, 100_000, 0.99), 1e-12)
	require.InEpsilon(t, zetaRange(1, 5000, 0.5)-zetaRange(1, 3000, 0.5),
		zetaRange(3000, 5000, 0.5), 1e-9)
}
