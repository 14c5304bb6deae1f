package compare

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/aclements/go-moremath/stats"
)

// exactProduct bounds the product of two sample sizes up to which tied samples get an exact p.
// Beyond it the normal approximation is within 1% of p.
const exactProduct = 625

// rankTest returns the two-sided p-value of the Mann-Whitney test of two sorted samples: that of
// the library, except for small samples with ties. Of those, the library returns a wrong p if the
// sizes differ: it doubles the tail of one sample for the statistic of the other, and the
// distribution is not symmetric.
func rankTest(a, b []float64) (p float64) {
	ranks, inA := midRanks(a, b)
	if len(slices.Compact(slices.Clone(ranks))) < len(ranks) && len(a)*len(b) <= exactProduct {
		return tiedTest(ranks, inA, len(a))
	}
	test, err := stats.MannWhitneyUTest(a, b, stats.LocationDiffers)
	if err != nil { // a sample is empty, or all values are equal
		return 1
	}
	return test.P
}

// tiedTest is a permutation test of the sum of the ranks of a: the distribution is that of all
// choices of as many ranks as a has, so p is exact with ties.
func tiedTest(doubled []int, inA []bool, size int) float64 {
	sum, total := 0, 0
	for i, r := range doubled {
		if total += r; inA[i] {
			sum += r
		}
	}
	// The smaller tail is that of the sample with the lower ranks.
	if n := len(doubled); sum > size*(n+1) {
		size, sum = n-size, total-sum
	}
	count := 0.0
	for _, ways := range sums(doubled, size, sum) {
		count += ways
	}
	return min(1, 2*count/choose(len(doubled), size))
}

// midRanks merges two sorted samples and returns the rank of each value, and whether it is one of
// a. Values that are tied share their mean rank. Ranks are doubled, which makes those whole
// numbers.
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

// sums counts the choices of size ranks by their sum, up to limit. It goes through the ranks, which
// ascend, and keeps the counts by size and sum.
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

// choose returns the number of ways to choose k of n.
func choose(n, k int) float64 {
	c := 1.0
	for i := range min(k, n-k) {
		c = c * float64(n-i) / float64(i+1)
	}
	return math.Round(c)
}

// least returns the smallest p that two samples of these sizes can have.
func least(n, m int) float64 { return min(1, 2/choose(n+m, n)) }

// repeatsFor returns the least number of repeats a side with which one of several tests can get
// below alpha.
func repeatsFor(alpha float64, tests int) int {
	n := 1
	for n < 1000 && least(n, n)*float64(max(tests, 1)) >= alpha {
		n++
	}
	return n
}

// margins keeps what margin returned: all cells of a set mostly have as many repeats.
var margins sync.Map

// margin returns how many of the n*m sorted ratios lie outside of the interval at each end: the
// largest k for which the probability that the ratio of the medians lies below the k-th smallest is
// at most alpha/2. It is 0 if the samples are too small for any interval.
func margin(n, m int, alpha float64) int {
	if max(n, m) > stats.MannWhitneyExactLimit {
		z := math.Sqrt2 * math.Erfinv(1-alpha)
		product := float64(n * m)
		return max(0, int(product/2-z*math.Sqrt(product*float64(n+m+1)/12)))
	}
	type key struct {
		n, m  int
		alpha float64
	}
	k, known := margins.Load(key{n, m, alpha})
	if !known {
		u := stats.UDist{N1: n, N2: m}
		k = sort.Search(n*m/2, func(k int) bool { return u.CDF(float64(k)) > alpha/2 })
		margins.Store(key{n, m, alpha}, k)
	}
	return k.(int)
}

// mostForRatios is the largest sample size of which shift takes all ratios.
const mostForRatios = 500

// shift returns how b relates to a: the median of the ratios of each value of b to each of a (the
// Hodges-Lehmann estimate), and its interval at 1-alpha, which excludes 1 if the test's p is below
// alpha. Both samples are sorted and positive. If they are too small for an interval, low is 0 and
// high infinite.
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

// thinned returns evenly spaced order statistics of a large sample, which would have millions of
// ratios. Its interval is narrow in any case.
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

// holm adjusts p-values for the number of tests. The family-wise error rate stays below the level
// however the tests depend on each other (Holm 1979).
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted := make([]float64, len(p))
	worst := 0.0
	for at, i := range order {
		worst = max(worst, min(1, p[i]*float64(len(p)-at)))
		adjusted[i] = worst
	}
	return adjusted
}
