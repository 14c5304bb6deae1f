package clock

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTicksAdvance(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := Ticks()
	for deadline := time.Now().Add(time.Millisecond); time.Now().Before(deadline); {
	}
	require.Greater(t, Ticks(), before)
}

// Now goes on where it was when it begins to read the counter, and never goes back.
func TestUseTicks(t *testing.T) {
	t.Cleanup(func() { counter.Store(nil) })
	const perTick = 1 << 31 // half a nanosecond, whatever a tick is
	last, at := Now(), int64(time.Since(start))
	UseTicks(perTick)
	require.GreaterOrEqual(t, counter.Load().at, at)
	require.LessOrEqual(t, counter.Load().at, int64(time.Since(start)))
	for range 100 {
		UseTicks(perTick)
		now := Now()
		require.GreaterOrEqual(t, now, last)
		last = now
	}
}

// Now advances with the counter at the rate that it was given.
func TestRateOfTicks(t *testing.T) {
	t.Cleanup(func() { counter.Store(nil) })
	for _, perTick := range []uint64{1 << 30, 1 << 31, 3 << 31, 1 << 33} {
		UseTicks(perTick)
		// Readings are not fenced, so neighbours may be exchanged: by less than this.
		const reorder = 10_000
		nanos := func(ticks uint64) int64 {
			return int64(float64(ticks) * float64(perTick) / (1 << 32))
		}
		outer, before := Ticks(), Now()
		inner := Ticks()
		time.Sleep(20 * time.Millisecond)
		low, after := Ticks()-inner, Now()
		high := Ticks() - outer
		require.GreaterOrEqual(t, after-before, nanos(low-reorder))
		require.LessOrEqual(t, after-before, nanos(high+reorder))
	}
}

func BenchmarkTicks(b *testing.B) {
	for b.Loop() {
		sink = int64(Ticks())
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		sink = Now()
	}
}

var sink int64
