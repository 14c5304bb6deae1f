package clock

import (
	"math/bits"
	"sync/atomic"
	"time"
)

var start = time.Now()

// counted is how [Now] reads the processor's counter.
type counted struct {
	perTick uint64 // nanoseconds, times 2^32
	ticks   uint64 // the counter at some time
	at      int64  // that time by the monotonic clock, or up to a reading of that later
}

var counter atomic.Pointer[counted]

// Now returns the nanoseconds since the process started. It is monotonic and does not allocate. It
// takes about 30 ns, and 12 after UseTicks.
func Now() int64 {
	c := counter.Load() // pairs with the store in UseTicks
	if c == nil {
		return int64(time.Since(start))
	}
	hi, lo := bits.Mul64(Ticks()-c.ticks, c.perTick)
	return c.at + int64(hi<<32|lo>>32)
}

// UseTicks has Now read the processor's counter from now on. perTick is the length of a tick in
// nanoseconds, times 2^32. Only a counter that the kernel trusts will do: one of the same rate in
// all power states and of the same value on all processors.
func UseTicks(perTick uint64) {
	c := &counted{perTick: perTick, ticks: Ticks()}
	// After the counter, so that Now does not go back; and not before Now by an earlier counter,
	// which runs ahead if its thread was interrupted here.
	c.at = max(int64(time.Since(start)), Now())
	counter.Store(c) // pairs with the load in Now
}
