package workload

import (
	"math"
	"math/bits"
)

// zipfian draws rank k of 1..n with a probability proportional to k^-theta. It is exact up to
// the rounding of float64 for any n, needs no sum over n, and takes 6 ns with the scrambling.
//
// The ranks are divided into cells of about 1/fineness of their first rank: one rank each at
// the head, and over a thousand cells for 2^30 ranks. An alias table draws a cell under the
// hat, a staircase that is first^-theta throughout a cell, and a uniform draw picks a rank in
// it. The rank is accepted with probability (k/first)^-theta, which corrects for the hat. That
// is at least (1+1/fineness)^-theta, so a comparison accepts nearly all draws, and math.Pow
// decides at most one in fineness.
//
// Rejected: Gray's generator, which YCSB uses, takes one math.Pow per draw (20 ns), sums n
// terms in advance, and is approximate beyond the first two ranks. A plain alias table over all
// ranks misses the cache at each draw (16 MiB for 2^20 keys; the cells take at most 36 KiB).
// Rejection-inversion (Hörmann and Derflinger) takes a logarithm and an exponential per draw.
type zipfian struct {
	cells []cell
	theta float64
}

// cell has 32 bytes, so that it does not straddle cache lines.
type cell struct {
	keep  uint64 // a draw below this fraction of 2^64 picks the cell itself, others its alias
	sure  uint64 // a height up to this fraction of 2^64 accepts any rank of the cell
	first uint32 // rank of its first element, from 0
	width uint32
	alias uint32
}

// fineness trades calls of math.Pow for cache: finer cells need fewer calls and more memory.
const fineness = 64

func newZipfian(n uint64, theta float64) *zipfian {
	z := &zipfian{theta: theta}
	var weights []float64
	for k := uint64(1); k <= n; {
		width := min(max(k/fineness, 1), n-k+1)
		z.cells = append(z.cells, cell{first: uint32(k - 1), width: uint32(width),
			sure: z.sure(k, width)})
		weights = append(weights, float64(width)*math.Pow(float64(k), -theta))
		k += width
	}
	for i, a := range newAliases(weights) {
		z.cells[i].keep, z.cells[i].alias = a.keep, a.other
	}
	return z
}

// sure returns the acceptance of the last and least likely rank of a cell, rounded down so that
// the quick test accepts nothing that the exact test rejects.
func (z *zipfian) sure(k, width uint64) uint64 {
	if width == 1 {
		return math.MaxUint64
	}
	lowest := math.Pow(float64(k)/float64(k+width-1), z.theta)
	return uint64(lowest * (1 - 1e-9) * (1 << 64))
}

// next draws a rank from 0 to n-1.
func (z *zipfian) next(random *random) uint64 {
	r := *random // in registers; in memory, the draws would be a chain of stores and loads
	for {
		c := z.pick(r.next())
		offset, height := bits.Mul64(r.next(), uint64(c.width))
		rank := uint64(c.first) + offset
		if height <= c.sure || z.accept(c, rank, height) {
			*random = r
			return rank
		}
	}
}

// pick returns the cell for a draw.
func (z *zipfian) pick(x uint64) *cell {
	i, fraction := bits.Mul64(x, uint64(len(z.cells)))
	// Choose by mask: the compiler turns an if into a branch, which is mispredicted every few
	// draws, for 4 ns each.
	_, below := bits.Sub64(fraction, z.cells[i].keep, 0)
	alias := uint64(z.cells[i].alias)
	return &z.cells[alias^(alias^i)&-below]
}

// accept is the exact test of a rank.
//
//go:noinline
func (z *zipfian) accept(c *cell, rank, height uint64) bool {
	kept := math.Pow(float64(c.first+1)/float64(rank+1), z.theta)
	return float64(height) < kept*(1<<64)
}
