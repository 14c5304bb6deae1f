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
	before, start, looks := sleeps(t), time.Now(), 0
	for ; sleeps(t) < before+3; looks++ {
		require.Less(t, time.Since(start), time.Minute, "a wait that finds nothing never sleeps")
		w.Idle()
	}
	require.Greater(t, looks, 3*looksPerClock)
	for before = sleeps(t); sleeps(t) < before+3; {
		require.Less(t, time.Since(start), time.Minute, "a wait that finds nothing never sleeps")
		w.IdleCall()
	}
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
