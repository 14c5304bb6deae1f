package calibration

import "transportbench/core/transport"

// every selects every n-th of what it counts.
type every struct{ n, left int }

func newEvery(n int) every { return every{n, n} }

// hit counts, and reports whether this is the n-th.
func (e *every) hit() bool {
	if e.n == 0 {
		return false
	}
	if e.left--; e.left > 0 {
		return false
	}
	e.left = e.n
	return true
}

// late is an event that is to be returned after the next one of its kind and peer.
type late struct {
	every
	number uint64 // in held; 0 for none
	peer   transport.PeerID
}

// patience is how many nanoseconds an event waits for a later one.
const patience = 1e6

// flip changes one bit of a payload.
func (w *worker) flip(payload []byte) {
	payload[w.random.IntN(len(payload))] ^= 1 << w.random.IntN(8)
	w.counts.corrupted++
}
