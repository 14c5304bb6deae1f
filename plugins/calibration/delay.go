package calibration

import "math/rand/v2"

// delay is a distribution of delays in nanoseconds. The zero value delays nothing.
type delay struct {
	mean      int64 // of those that are not slow
	random    bool  // exponential, otherwise fixed
	slow      int64
	slowEvery uint64 // one in so many is slow; 0 for none
}

// draw returns the next delay.
func (d *delay) draw(random *rand.Rand) int64 {
	switch {
	case d.random:
		return int64(random.ExpFloat64() * float64(d.mean))
	case d.slowEvery > 0 && random.Uint64N(d.slowEvery) == 0:
		return d.slow
	}
	return d.mean
}
