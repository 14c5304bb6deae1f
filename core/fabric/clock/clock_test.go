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

// Now goes on where it was when it begins to read the counter, at the rate that it was given.
func TestUseTicks(t *testing.T) {
	t.Cleanup(func() { counter.Store(nil) })
	from, begin := Ticks(), time.Now()
	time.Sleep(20 * time.Millisecond)
	nanos, ticks := time.Since(begin), Ticks()-from
	perTick := uint64(float64(nanos) / float64(ticks) * (1 << 32))

	last := Now()
	for range 100 {
		UseTicks(perTick)
		now := Now()
		require.GreaterOrEqual(t, now, last)
		last = now
	}
	outer, before := time.Now(), Now()
	inner := time.Now()
	time.Sleep(20 * time.Millisecond)
	minimum, after := time.Since(inner), Now()
	maximum := time.Since(outer)
	require.GreaterOrEqual(t, time.Duration(after-before), minimum-maximum/50)
	require.LessOrEqual(t, time.Duration(after-before), maximum+maximum/50)

	UseTicks(perTick * 2)
	before = Now()
	time.Sleep(20 * time.Millisecond)
	require.Greater(t, time.Duration(Now()-before), 38*time.Millisecond)
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
