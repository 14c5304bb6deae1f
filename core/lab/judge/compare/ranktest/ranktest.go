package ranktest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// Block has values that may be compared with each other: some of each side, sorted.
type Block struct{ A, B []float64 }

// Blocks are two samples in blocks. Each block has values of both sides.
type Blocks []Block

// The bounds up to which p is exact.
const (
	// exactTied bounds the product of the sample sizes of a block with ties, whose distribution is
	// computed for each test, and exactUntied that without ties, whose distribution is cached.
	exactTied, exactUntied = 625, 2500
	// exactRange bounds the number of values that the statistic can take.
	exactRange = 200_000
)

// Beyond returns the one-sided p-value of the ratio of b to a being at most the limit if above is
// set, else of its being at least the limit. If the ratio is the limit, a times the limit and b are
// exchangeable, so their rank test has its level there.
func (s Blocks) Beyond(limit float64, above bool) float64 {
	if limit <= 0 { // no ratio is below 0
		return 1
	}
	if limit != 1 {
		scaled := make(Blocks, len(s))
		for i, one := range s {
			scaled[i] = Block{make([]float64, len(one.A)), one.B}
			for j, x := range one.A {
				scaled[i].A[j] = x * limit
			}
		}
		s = scaled
	}
	fewer, more := rankTest(s)
	if above {
		return fewer
	}
	return more
}

// rankTest returns the one-sided p-values of the stratified rank test of van Elteren: the statistic
// is the sum over the blocks of the Mann-Whitney statistics, each with its weight, and fewer and
// more are the probabilities that a wins as few or as many pairs as it does. With one block it is
// the Mann-Whitney test. It is a permutation test within blocks, exact with and without ties;
// beyond the bounds above it uses the normal approximation. It returns 1 if there are no blocks.
func rankTest(s Blocks) (fewer, more float64) {
	if len(s) == 0 {
		return 1, 1
	}
	weights := s.weights()
	statistic, tied := 0, false
	ranked := make([]rankedBlock, len(s))
	for i, b := range s {
		ranked[i] = rank(b)
		statistic += weights[i] * ranked[i].statistic
		tied = tied || ranked[i].tied
	}
	if !s.exact(weights, tied) {
		return normalTest(ranked, weights, statistic)
	}
	if !tied {
		// statistics are doubled only for the sake of ties
		return untied(s, weights).tails(statistic / 2)
	}
	d := distribution{1}
	for i, r := range ranked {
		d = d.plus(permutations(r.doubled, len(s[i].A), 2), weights[i])
	}
	return d.tails(statistic)
}

// weights returns the weights of van Elteren, 1/(n+m+1), as small whole numbers. They have the
// greatest power against a shift that is the same in all blocks. Rounding them costs power only:
// the test is exact for any weights.
func (s Blocks) weights() []int {
	const precision = 4
	largest := 0
	for _, b := range s {
		largest = max(largest, len(b.A)+len(b.B)+1)
	}
	list := make([]int, len(s))
	divisor := 0
	for i, b := range s {
		list[i] = int(math.Round(float64(precision*largest) / float64(len(b.A)+len(b.B)+1)))
		divisor = gcd(divisor, list[i])
	}
	for i := range list {
		list[i] /= divisor
	}
	return list
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// exact reports whether the distribution of the statistic is small enough to compute.
func (s Blocks) exact(weights []int, tied bool) bool {
	limit, values := exactUntied, 0
	if tied {
		limit = exactTied
	}
	for i, b := range s {
		product := len(b.A) * len(b.B)
		if values += weights[i] * product; product > limit {
			return false
		}
	}
	return values <= exactRange
}

// rankedBlock is a block as ranks.
type rankedBlock struct {
	n, m int
	// doubled are twice the ranks of all values, which makes mean ranks of tied values whole
	// numbers.
	doubled []int
	// statistic is twice the Mann-Whitney statistic of side a: how many pairs of values it wins,
	// where a tie is half a win.
	statistic int
	tied      bool
	ties      float64 // the sum of t^3-t over the groups of t tied values
}

// rank ranks the values of a block.
func rank(b Block) rankedBlock {
	r := rankedBlock{n: len(b.A), m: len(b.B)}
	total := r.n + r.m
	values := make([]float64, 0, total)
	inA := make([]bool, 0, total)
	for i, j := 0, 0; i < r.n || j < r.m; {
		if j == r.m || i < r.n && b.A[i] <= b.B[j] {
			values, inA = append(values, b.A[i]), append(inA, true)
			i++
		} else {
			values, inA = append(values, b.B[j]), append(inA, false)
			j++
		}
	}
	r.doubled = make([]int, total)
	r.statistic = -r.n * (r.n + 1)
	for start := 0; start < total; {
		end := start + 1
		for end < total && values[end] == values[start] {
			end++
		}
		for i := start; i < end; i++ {
			r.doubled[i] = start + end + 1 // twice the mean of start+1 to end
			if inA[i] {
				r.statistic += r.doubled[i]
			}
		}
		if t := float64(end - start); t > 1 {
			r.tied, r.ties = true, r.ties+t*t*t-t
		}
		start = end
	}
	return r
}

// distribution has the probability of each value of a statistic, from 0.
type distribution []float64

// plus returns the distribution of the sum of two statistics, the second with a weight.
func (d distribution) plus(other distribution, weight int) distribution {
	sum := make(distribution, len(d)+(len(other)-1)*weight)
	for j, q := range other {
		if q == 0 {
			continue
		}
		for i, p := range d {
			sum[i+j*weight] += p * q
		}
	}
	return sum
}

// tails returns the probabilities of value or less, and of value or more.
func (d distribution) tails(value int) (below, above float64) {
	for i, p := range d {
		if i <= value {
			below += p
		}
		if i >= value {
			above += p
		}
	}
	return min(1, below), min(1, above)
}

// permutations returns the distribution of the Mann-Whitney statistic, times scale, over all
// choices of size of the ranks, which are times scale too.
func permutations(ranks []int, size, scale int) distribution {
	smallest := scale * size * (size + 1) / 2
	all := choose(len(ranks), size)
	d := distribution(sums(ranks, size, smallest+scale*size*(len(ranks)-size))[smallest:])
	for i := range d {
		d[i] /= all
	}
	return d
}

// untiedCache keeps what untied returned: all cells of a set mostly have as many repeats.
var untiedCache sync.Map

// untied returns the distribution of the statistic, not doubled, of blocks without ties. It depends
// on their sizes only.
func untied(s Blocks, weights []int) distribution {
	var key strings.Builder
	for i, b := range s {
		fmt.Fprintf(&key, "%d %d %d,", len(b.A), len(b.B), weights[i])
	}
	if d, known := untiedCache.Load(key.String()); known {
		return d.(distribution)
	}
	d := distribution{1}
	for i, b := range s {
		ranks := make([]int, len(b.A)+len(b.B))
		for r := range ranks {
			ranks[r] = r + 1
		}
		d = d.plus(permutations(ranks, len(b.A), 1), weights[i])
	}
	untiedCache.Store(key.String(), d)
	return d
}

// normalTest is the normal approximation, with corrections for ties and continuity.
func normalTest(ranked []rankedBlock, weights []int, statistic int) (fewer, more float64) {
	mean, variance := 0.0, 0.0
	smallest := math.Inf(1) // step of the statistic
	for i, r := range ranked {
		n, m, w := float64(r.n), float64(r.m), float64(weights[i])
		total := n + m
		mean += w * n * m // of twice the statistic
		if total > 1 {
			variance += 4 * w * w * n * m / 12 * (total + 1 - r.ties/(total*(total-1)))
		}
		smallest = min(smallest, w)
	}
	if variance <= 0 { // all values are equal
		return 1, 1
	}
	tail := func(from float64) float64 {
		return math.Erfc((from-smallest)/math.Sqrt(2*variance)) /
			2
	}
	return tail(mean - float64(statistic)), tail(float64(statistic) - mean)
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

// SmallestP returns the smallest p that two samples of these sizes can have.
func SmallestP(n, m int) float64 { return min(1, 2/choose(n+m, n)) }

// SmallestP returns the smallest p that samples in these blocks can have.
func (s Blocks) SmallestP() float64 {
	p := 2.0
	for _, b := range s {
		p /= choose(len(b.A)+len(b.B), len(b.A))
	}
	return min(1, p)
}

// Repeated returns blocks in which each value occurs so many times.
func (s Blocks) Repeated(times int) Blocks {
	repeated := func(values []float64) []float64 {
		return slices.Sorted(slices.Values(slices.Repeat(values, times)))
	}
	more := make(Blocks, len(s))
	for i, b := range s {
		more[i] = Block{repeated(b.A), repeated(b.B)}
	}
	return more
}

// RepeatsFor returns the least number of repeats a side with which one of several tests can get
// below alpha.
func RepeatsFor(alpha float64, tests int) int {
	n := 1
	for n < 1000 && SmallestP(n, n)*float64(max(tests, 1)) >= alpha {
		n++
	}
	return n
}

// margin returns the weight of the smallest pairs that lie outside of the interval, which is that
// of the largest: the largest k for which the probability that the statistic is below k is at most
// alpha/2. It is 0 if the samples are too small for any interval.
func (s Blocks) margin(weights []int, alpha float64) int {
	if s.exact(weights, false) {
		sum := 0.0
		d := untied(s, weights)
		for k, p := range d {
			if sum += p; sum > alpha/2 {
				return k
			}
		}
		return 0
	}
	mean, variance := 0.0, 0.0
	for i, b := range s {
		n, m, w := float64(len(b.A)), float64(len(b.B)), float64(weights[i])
		mean += w * n * m / 2
		variance += w * w * n * m * (n + m + 1) / 12
	}
	return max(0, int(mean-math.Sqrt2*math.Erfinv(1-alpha)*math.Sqrt(variance)))
}

// maxForPairs is the largest sample size of which shiftBy takes all pairs.
const maxForPairs = 500

// Relation relates a value of b to one of a. It ascends in b and descends in a, because the
// interval of a shift depends on that.
type Relation func(a, b float64) float64

// Ratio returns b over a. Both are above 0.
func Ratio(a, b float64) float64 { return b / a }

// Subtract returns b minus a.
func Subtract(a, b float64) float64 { return b - a }

// Shift returns how b relates to a as a ratio; see shiftBy. All values are positive. If the samples
// are too small for an interval, low is 0 and high infinite.
func Shift(s Blocks, alpha float64) (ratio, low, high float64) {
	ratio, low, high = ShiftBy(s, alpha, Ratio)
	return ratio, max(low, 0), high
}

// ShiftBy returns how b relates to a: the weighted median of the relations of each value of b to
// each of a in the same block, and its interval at 1-alpha, which excludes no change if the test's
// p is below alpha. With one block it is the Hodges-Lehmann estimate. If the samples are too small
// for an interval, that is infinite. There must be a block.
func ShiftBy(s Blocks, alpha float64, relation Relation) (value, low, high float64) {
	r := NewRelations(s, relation)
	low, high = r.Interval(alpha)
	return r.Median(), low, high
}

// Relations are those of all pairs of values in blocks, of which intervals at several levels are
// taken.
type Relations struct {
	blocks  Blocks
	weights []int
	pairs   []weighted // sorted
	total   int        // of the weights of the pairs
}

// NewRelations relates each value of b to each of a in the same block. There must be a block.
func NewRelations(s Blocks, relation Relation) *Relations {
	r := &Relations{blocks: make(Blocks, len(s))}
	count := 0
	for i, b := range s {
		r.blocks[i] = Block{thinned(b.A), thinned(b.B)}
		count += len(r.blocks[i].A) * len(r.blocks[i].B)
	}
	r.weights = r.blocks.weights()
	r.pairs = make([]weighted, 0, count)
	for i, b := range r.blocks {
		for _, y := range b.B {
			for _, x := range b.A {
				r.pairs = append(r.pairs, weighted{relation(x, y), r.weights[i]})
			}
		}
		r.total += r.weights[i] * len(b.A) * len(b.B)
	}
	slices.SortFunc(r.pairs, func(a, b weighted) int { return cmp.Compare(a.value, b.value) })
	return r
}

// Median returns the weighted median of the relations.
func (r *Relations) Median() float64 {
	return (valueAt(r.pairs, (r.total+1)/2) + valueAt(r.pairs, r.total/2+1)) / 2
}

// Interval returns the interval of the median at 1-alpha. It is infinite if there are too few
// values for one.
func (r *Relations) Interval(alpha float64) (low, high float64) {
	k := r.blocks.margin(r.weights, alpha)
	if k == 0 {
		return math.Inf(-1), math.Inf(1)
	}
	return valueAt(r.pairs, k), valueAt(r.pairs, r.total-k+1)
}

// weighted is a value that counts weight times.
type weighted struct {
	value  float64
	weight int
}

// valueAt returns the k-th smallest of sorted values, from 1.
func valueAt(sorted []weighted, k int) float64 {
	for _, v := range sorted {
		if k -= v.weight; k <= 0 {
			return v.value
		}
	}
	return sorted[len(sorted)-1].value
}

// thinned returns evenly spaced order statistics of a large sample, which would have millions of
// pairs. Its interval is narrow in any case.
func thinned(sorted []float64) []float64 {
	if len(sorted) <= maxForPairs {
		return sorted
	}
	few := make([]float64, maxForPairs)
	for i := range few {
		few[i] = sorted[i*(len(sorted)-1)/(maxForPairs-1)]
	}
	return few
}

// Holm adjusts p-values for the number of tests. The family-wise error rate stays below alpha
// however the tests depend on each other (Holm 1979). levels are those at which it tested each
// p-value: alpha over the number of tests for the smallest, over one less for the next, and so on
// up to the first that is not rejected, which has its level in common with the rest.
func Holm(p []float64, alpha float64) (adjusted, levels []float64) {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted, levels = make([]float64, len(p)), make([]float64, len(p))
	worst, rejected := 0.0, 0
	for at, i := range order {
		worst = max(worst, min(1, p[i]*float64(len(p)-at)))
		adjusted[i], levels[i] = worst, alpha/float64(len(p)-rejected)
		if worst < alpha {
			rejected++
		}
	}
	return adjusted, levels
}
