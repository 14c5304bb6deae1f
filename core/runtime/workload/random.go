package workload

import "math/bits"

// random is Lehmer's generator with 128 bits of state: the draw is the upper half of the state,
// which is multiplied by a constant. It is inlined and takes 1.0 ns, and math/rand/v2's PCG, a
// call, 1.7 ns; drawing is the larger part of the cost of a request. The period of 2^126 keeps
// the streams of any number of clients apart.
type random struct{ high, low uint64 }

// newRandom returns the stream of one client.
func newRandom(seed uint64, client int) random {
	// Mixing the seed before the client is added keeps (1, 2) and (2, 1) apart.
	s := mix64(seed+gamma) + uint64(client)*gamma
	high := mix64(s)
	return random{high: high, low: mix64(high+gamma) | 1} // odd, for the full period
}

func (r *random) next() uint64 {
	// Steele and Vigna found that this multiplier does well in the spectral test.
	const multiplier = 0xda942042e4dd58b5
	high, low := bits.Mul64(r.low, multiplier)
	r.high, r.low = high+r.high*multiplier, low
	return r.high
}

// gamma is 2^64 over the golden ratio, as in splitmix64.
const gamma = 0x9e3779b97f4a7c15

// mix64 is the finalizer of splitmix64, a bijection.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// alias is an entry of an alias table, from which one draw picks an item with a probability
// proportional to its weight (Walker, "An efficient method for generating discrete random
// variables with general distributions", 1977).
type alias struct {
	keep  uint64 // a draw below this fraction of 2^64 picks the item itself, others pick other
	other uint32
}

// newAliases fills the table by Vose's method ("A linear algorithm for generating random numbers
// with a given distribution", 1991): each item with less than the mean weight is filled up with
// a part of an item with more. It overwrites weights.
func newAliases(weights []float64) []alias {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	table := make([]alias, len(weights))
	var small, large []uint32
	for i := range weights {
		weights[i] *= float64(len(weights)) / total
		table[i] = alias{keep: 1<<64 - 1, other: uint32(i)}
		if weights[i] < 1 {
			small = append(small, uint32(i))
		} else {
			large = append(large, uint32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		table[s].keep = uint64(weights[s] * (1 << 64))
		table[s].other = l
		weights[l] -= 1 - weights[s]
		if weights[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return table
}
