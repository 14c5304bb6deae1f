package loop

// Random is xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift
// generators, scrambled", 2016). It draws the choices that are not part of the requests;
// core/runtime/workload draws those.
type Random struct{ state uint64 }

// The uses of random; each has its own stream.
const (
	drawSamples = iota + 1
	DrawRoutes
	DrawGaps
	DrawStages
	DrawDelays
)

// NewRandom returns the stream for one use of the client or daemon with that number.
func NewRandom(seed, number, use uint64) Random {
	const gamma = 0x9e3779b97f4a7c15 // 2^64 over the golden ratio
	r := Random{state: (seed+number*gamma)*2 + 1}
	r.state ^= use * 0xbf58476d1ce4e5b9
	if r.state == 0 { // the state that the generator never leaves
		r.state = gamma
	}
	r.Next() // similar seeds give similar states
	return r
}

// Next draws 64 bits.
func (r *Random) Next() uint64 {
	r.state ^= r.state >> 12
	r.state ^= r.state << 25
	r.state ^= r.state >> 27
	return r.state * 0x2545f4914f6cdd1d
}

// Below draws a number below n, which must be below 2^32.
func (r *Random) Below(n uint64) uint64 { return (r.Next() >> 32) * n >> 32 }

// Unit draws a number in (0, 1].
func (r *Random) Unit() float64 { return (float64(r.Next()>>11) + 1) / (1 << 53) }
