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
		require.Less(t, time.Since(start), time.Minute, "a wait in vain never sleeps")
		w.Vain()
	}
	require.Greater(t, looks, 3*looksPerClock)
	for before = sleeps(t); sleeps(t) < before+3; {
		require.Less(t, time.Since(start), time.Minute, "a wait in vain never sleeps")
		w.VainCall()
	}
	for range looksPerClock {
		w.Found()
		for range looksPerClock - 1 {
			w.Vain()
		}
	}
	require.Zero(t, w.began, "a wait that finds something in time reads no clock")
}

func BenchmarkVain(b *testing.B) {
	var w Wait
	for i := 0; b.Loop(); i++ {
		if w.Vain(); i%looksPerClock == 0 {
			w.Found()
		}
	}
}
