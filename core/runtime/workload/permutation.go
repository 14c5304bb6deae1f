package workload

import "math/bits"

// permutation scrambles ranks: a fixed bijection of 0..n-1 onto itself.
//
// It is a bijection of the next power of two, applied again while the result
// is n or more (cycle walking), which is less than once more on average and
// never where n is a power of two.
type permutation struct {
	n, mask uint64
	shift   uint
}

func newPermutation(n uint64) permutation {
	width := uint(bits.Len64(n - 1))
	return permutation{n: n, mask: 1<<width - 1, shift: (width + 1) / 2}
}

// apply takes x below n.
func (p permutation) apply(x uint64) uint64 {
	for {
		// Each step has an inverse modulo the power of two: a product with
		// an odd number, a sum, and an exclusive or with the higher bits.
		x = (x*0xd1342543de82ef95 + 0x9e3779b97f4a7c15) & p.mask
		x ^= x >> (p.shift & 63)
		x = x * 0xda942042e4dd58b5 & p.mask
		x ^= x >> (p.shift & 63)
		if x < p.n {
			return x
		}
	}
}
