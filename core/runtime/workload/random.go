package workload

import "math/bits"

// random is Lehmer's generator of 128 bits: the state times a constant, of
// which the upper half is the draw. It is two multiplications, inlined, with
// two words of state, and takes 1.0 ns where math/rand/v2's PCG, a call, takes
// 1.7; drawing is the larger part of what a request costs to make. The period
// of 2^126 keeps the streams of any number of clients apart.
type random struct{ high, low uint64 }

// newRandom returns the stream of one client.
func newRandom(seed uint64, client int) random {
	// Mixing the seed before the client is added keeps (1, 2) and (2, 1) apart.
	s := mix64(seed+gamma) + uint64(client)*gamma
	high := mix64(s)
	return random{high: high, low: mix64(high+gamma) | 1} // odd, for the full period
}

func (r *random) next() uint64 {
	// The multiplier is one that Steele and Vigna found to do well in the
	// spectral test.
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
