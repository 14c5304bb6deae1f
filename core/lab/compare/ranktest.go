package compare

import (
	"math"
	"slices"
	"sync"
)

// exactProduct bounds the sizes for which p is exact: the product of both
// samples' sizes. Beyond it the normal approximation is within 1% of p.
const exactProduct = 400

// rankTest is the two-sided Mann-Whitney test of two samples that are sorted.
// Ties count by their mid-ranks, and the distribution is that of the ranks at
// hand (a permutation test), so that p is exact with ties as well.
func rankTest(a, b []float64) (p float64) {
	if len(a) == 0 || len(b) == 0 {
		return 1
	}
	ranks, inA := midRanks(a, b)
	sum := 0
	for i, r := range ranks {
		if inA[i] {
			sum += r
		}
	}
	if len(a)*len(b) > exactProduct {
		return normalTest(ranks, len(a), sum)
	}
	total := 0
	for _, r := range ranks {
		total += r
	}
	// The smaller tail is that of the sample with the lower ranks.
	size := len(a)
	if sum-len(a)*(len(ranks)+1) > 0 {
		size, sum = len(b), total-sum
	}
	if untied(ranks) {
		return min(1, 2*tailOf(size, len(ranks)-size)[sum/2-size*(size+1)/2])
	}
	return min(1, 2*lowerTail(ranks, size, sum))
}

// untied says whether no two ranks are the same.
func untied(doubled []int) bool {
	for i := 1; i < len(doubled); i++ {
		if doubled[i] == doubled[i-1] {
			return false
		}
	}
	return true
}

// tails has the lower tails of samples without ties, by their sizes.
var tails sync.Map

// tailOf returns, for samples without ties, the chance that the statistic U of
// the one of size n is at most its index. Without ties it depends on nothing
// but the sizes.
func tailOf(n, m int) []float64 {
	key := [2]int{n, m}
	if known, ok := tails.Load(key); ok {
		return known.([]float64)
	}
	ranks := make([]int, n+m)
	for i := range ranks {
		ranks[i] = i + 1 // single: there are no ties
	}
	least := n * (n + 1) / 2
	tail := sums(ranks, n, least+n*m)[least:]
	total := choose(n+m, n)
	for u, count := 0, 0.0; u < len(tail); u++ {
		count += tail[u]
		tail[u] = count / total
	}
	tails.Store(key, tail)
	return tail
}

// midRanks merges two sorted samples. The ranks are doubled, so that those of
// ties are whole numbers too.
func midRanks(a, b []float64) (doubled []int, inA []bool) {
	n := len(a) + len(b)
	values := make([]float64, 0, n)
	inA = make([]bool, 0, n)
	for i, j := 0, 0; i < len(a) || j < len(b); {
		if j == len(b) || i < len(a) && a[i] <= b[j] {
			values, inA = append(values, a[i]), append(inA, true)
			i++
		} else {
			values, inA = append(values, b[j]), append(inA, false)
			j++
		}
	}
	doubled = make([]int, n)
	for start := 0; start < n; {
		end := start + 1
		for end < n && values[end] == values[start] {
			end++
		}
		for i := start; i < end; i++ {
			doubled[i] = start + end + 1 // twice the mean of start+1 to end
		}
		start = end
	}
	return doubled, inA
}

// lowerTail is the share of all choices of size ranks whose sum is at most
// limit.
func lowerTail(ranks []int, size, limit int) float64 {
	count := 0.0
	for _, ways := range sums(ranks, size, limit) {
		count += ways
	}
	return count / choose(len(ranks), size)
}

// sums counts the choices of size ranks by their sum, up to limit. It goes
// through the ranks, which ascend, and keeps the counts by size and sum.
func sums(ranks []int, size, limit int) []float64 {
	width := limit + 1
	ways := make([]float64, (size+1)*width)
	ways[0] = 1
	smallest := make([]int, size+1) // sums, by size
	for c := 1; c <= size; c++ {
		smallest[c] = smallest[c-1] + ranks[c-1]
	}
	for i, r := range ranks {
		for c := min(i+1, size); c >= 1; c-- {
			from, to := ways[(c-1)*width:c*width], ways[c*width:(c+1)*width]
			for s := smallest[c-1] + r; s < width; s++ {
				to[s] += from[s-r]
			}
		}
	}
	return ways[size*width:]
}

// choose is the number of ways to choose k of n.
func choose(n, k int) float64 {
	c := 1.0
	for i := range min(k, n-k) {
		c = c * float64(n-i) / float64(i+1)
	}
	return math.Round(c)
}

// normalTest is the test's normal approximation, with the corrections for ties
// and for continuity.
func normalTest(doubled []int, size, sum int) float64 {
	n, m := float64(len(doubled)), float64(size)
	ties := 0.0
	for start := 0; start < len(doubled); {
		end := start + 1
		for end < len(doubled) && doubled[end] == doubled[start] {
			end++
		}
		t := float64(end - start)
		ties += t*t*t - t
		start = end
	}
	variance := m * (n - m) / 12 * (n + 1 - ties/(n*(n-1)))
	if variance <= 0 {
		return 1
	}
	apart := math.Abs(float64(sum)/2-m*(n+1)/2) - 0.5
	return min(1, math.Erfc(max(0, apart)/math.Sqrt(2*variance)))
}

// least is the smallest p that two samples of these sizes can have.
func least(n, m int) float64 { return min(1, 2/choose(n+m, n)) }

// repeatsFor returns the least number of repeats a side with which one of
// several tests can get below alpha.
func repeatsFor(alpha float64, tests int) int {
	n := 1
	for n < 1000 && least(n, n)*float64(max(tests, 1)) >= alpha {
		n++
	}
	return n
}

// margin returns how many of the n*m sorted ratios lie outside of the interval
// at each end: the largest k for which the chance that the ratio of the medians
// lies below the k-th smallest is at most alpha/2. It is 0 where the samples are
// too small for any interval.
func margin(n, m int, alpha float64) int {
	if n*m > exactProduct {
		z := math.Sqrt2 * math.Erfinv(1-alpha)
		product := float64(n * m)
		return max(0, int(product/2-z*math.Sqrt(product*float64(n+m+1)/12)))
	}
	tail := tailOf(n, m)
	k := 0
	for k < n*m/2 && tail[k] <= alpha/2 {
		k++
	}
	return k
}

// mostForRatios bounds the sizes of which all ratios are taken.
const mostForRatios = 500

// shift is how b relates to a: the median of all ratios of one of b to one of
// a (the estimate of Hodges and Lehmann), and its interval at 1-alpha, which
// excludes 1 where the test's p is below alpha. Both are sorted and positive.
// low and high are 0 and infinite where the samples are too small.
func shift(a, b []float64, alpha float64) (ratio, low, high float64) {
	a, b = thinned(a), thinned(b)
	ratios := make([]float64, 0, len(a)*len(b))
	for _, y := range b {
		for _, x := range a {
			ratios = append(ratios, y/x)
		}
	}
	slices.Sort(ratios)
	n := len(ratios)
	ratio = (ratios[(n-1)/2] + ratios[n/2]) / 2
	k := margin(len(a), len(b), alpha)
	if k == 0 {
		return ratio, 0, math.Inf(1)
	}
	return ratio, ratios[k-1], ratios[n-k]
}

// thinned takes evenly spaced order statistics of a large sample: it would have
// millions of ratios, and its interval is narrow whatever one does.
func thinned(sorted []float64) []float64 {
	if len(sorted) <= mostForRatios {
		return sorted
	}
	few := make([]float64, mostForRatios)
	for i := range few {
		few[i] = sorted[i*(len(sorted)-1)/(mostForRatios-1)]
	}
	return few
}

// holm adjusts p-values for being several: it returns for each the level at
// which it stands, among all of them. The family-wise error stays below the
// level whatever depends on what (Holm 1979).
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case p[i] < p[j]:
			return -1
		case p[i] > p[j]:
			return 1
		}
		return i - j
	})
	adjusted := make([]float64, len(p))
	worst := 0.0
	for at, i := range order {
		worst = max(worst, min(1, p[i]*float64(len(p)-at)))
		adjusted[i] = worst
	}
	return adjusted
}
