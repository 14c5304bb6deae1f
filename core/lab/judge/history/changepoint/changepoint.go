package changepoint

import (
	"math"
	"slices"

	"transportbench/core/base/record"
)

const (
	// MinLength is the length of the shortest series that is divided. The noise of a shorter one is
	// not known.
	MinLength = 8
	// shortest is the length of the shortest segment. A level that lasts for two values is two
	// outliers.
	shortest = 3
	// penalty times the logarithm of the length, in units of the variance, is what a segment costs.
	// Theory has 2 for normal noise whose variance is known, and it is larger because it is
	// estimated.
	penalty = 5
	// farthest is how many deviations of the noise a value may be from the median of its
	// neighbourhood.
	farthest = 2
)

// Find returns the indices at which a segment begins, without the first, in order. Values must be
// finite. A series shorter than MinLength has none.
func Find(values []float64) []int {
	if len(values) < MinLength {
		return nil
	}
	noise := noiseOf(values)
	if noise == 0 {
		noise = smallest(values)
		if noise == 0 {
			return nil // all values are equal
		}
	}
	return partition(moved(values, noise), noise*noise*penalty*math.Log(float64(len(values))))
}

// noiseOf returns the standard deviation of the noise: that of a normal distribution whose
// differences of neighbours have the same median of absolute values.
func noiseOf(values []float64) float64 {
	differences := make([]float64, len(values)-1)
	for i := range differences {
		differences[i] = math.Abs(values[i+1] - values[i])
	}
	const normal = 0.6745 // the upper quartile of the standard normal distribution
	return record.Median(differences) / normal / math.Sqrt2
}

// smallest returns the smallest difference of two neighbours that is not 0, for series of which
// most values are equal; 0 if all are.
func smallest(values []float64) float64 {
	smallest := 0.0
	for i := range len(values) - 1 {
		if d := math.Abs(values[i+1] - values[i]); d > 0 && (smallest == 0 || d < smallest) {
			smallest = d
		}
	}
	return smallest
}

// moved returns the values, each at most farthest deviations from the median of the five around it.
// The median of a level that lasts for three values or more is that level.
func moved(values []float64, noise float64) []float64 {
	list := slices.Clone(values)
	for i := range values {
		from := min(max(i-2, 0), len(values)-5)
		middle := record.Median(values[from : from+5])
		list[i] = min(max(values[i], middle-farthest*noise), middle+farthest*noise)
	}
	return list
}

// partition returns where the segments begin that have the least cost.
func partition(values []float64, perSegment float64) []int {
	n := len(values)
	sums, squares := make([]float64, n+1), make([]float64, n+1)
	middle := record.Median(values) // for the precision of the sums
	for i, v := range values {
		v -= middle
		sums[i+1], squares[i+1] = sums[i]+v, squares[i]+v*v
	}
	cost := func(from, to int) float64 {
		sum := sums[to] - sums[from]
		return squares[to] - squares[from] - sum*sum/float64(to-from)
	}
	best, last := make([]float64, n+1), make([]int, n+1)
	best[0] = -perSegment
	candidates := []int{0}
	for end := shortest; end <= n; end++ {
		best[end] = math.Inf(1)
		for _, from := range candidates {
			if total := best[from] + cost(from, end) + perSegment; end-from >= shortest &&
				total < best[end] {
				best[end], last[end] = total, from
			}
		}
		// A beginning that is worse now than the best by more than a segment costs stays worse.
		candidates = slices.DeleteFunc(candidates, func(from int) bool {
			return end-from >= shortest && best[from]+cost(from, end) > best[end]
		})
		if begin := end - shortest + 1; begin >= shortest {
			candidates = append(candidates, begin)
		}
	}
	var list []int
	for at := last[n]; at > 0; at = last[at] {
		list = append(list, at)
	}
	slices.Reverse(list)
	return list
}
