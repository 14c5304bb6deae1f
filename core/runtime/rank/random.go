package rank

// random is xorshift64*: Vigna, "An experimental exploration of Marsaglia's
// xorshift generators, scrambled", 2016. It draws what is no part of the load
// itself, for which core/runtime/workload has its own.
type random struct{ state uint64 }

// What a client draws for; each use has a stream of its own.
const (
	drawSamples = iota + 1
	drawRoutes
	drawGaps
)

// newRandom returns the stream of one use for the client or daemon of a number.
func newRandom(seed, number, use uint64) random {
	const gamma = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
	r := random{state: (seed+number*gamma)*2 + 1}
	r.state ^= use * 0xbf58476d1ce4e5b9
	if r.state == 0 { // the one state that it never leaves
		r.state = gamma
	}
	r.next() // seeds that are close have states that are close
	return r
}

func (r *random) next() uint64 {
	r.state ^= r.state >> 12
	r.state ^= r.state << 25
	r.state ^= r.state >> 27
	return r.state * 0x2545f4914f6cdd1d
}

// below draws a number below n, which has 32 bits at most.
func (r *random) below(n uint64) uint64 { return (r.next() >> 32) * n >> 32 }

// unit draws a number above 0 and at most 1.
func (r *random) unit() float64 { return (float64(r.next()>>11) + 1) / (1 << 53) }
