package spin

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// sleeps returns how often this thread has slept.
func sleeps(tb testing.TB) int64 {
	var usage unix.Rusage
	require.NoError(tb, unix.Getrusage(unix.RUSAGE_THREAD, &usage))
	return usage.Nvcsw
}

func TestWait(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var w Wait
	// awaitSleeps calls idle until w has slept three times, and returns the number of calls.
	awaitSleeps := func(idle func()) (calls int) {
		for start, slept := time.Now(), 0; slept < 3; calls++ {
			require.Less(t, time.Since(start), time.Minute,
				"a wait that finds nothing never sleeps")
			next, before := w.sleep, sleeps(t)
			if idle(); next != 0 && w.sleep != next {
				slept++
				require.Greater(t, sleeps(t), before)
			}
		}
		return calls
	}
	require.Greater(t, awaitSleeps(w.Idle), looksPerClock)
	awaitSleeps(w.IdleCall)
	for range looksPerClock {
		w.Found()
		for range looksPerClock - 1 {
			w.Idle()
		}
	}
	require.Zero(t, w.began, "a wait that finds something in time reads no clock")
}

func BenchmarkIdle(b *testing.B) {
	var w Wait
	for i := 0; b.Loop(); i++ {
		if w.Idle(); i%looksPerClock == 0 {
			w.Found()
		}
	}
}
