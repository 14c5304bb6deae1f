package machine

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestBusyThreads spins on one thread while others sleep.
func TestBusyThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := ReadThreadTimes()
	if len(before) == 0 {
		t.Skip("the kernel does not report the processor times of threads")
	}
	for {
		now, err := ReadThreadUsage()
		require.NoError(t, err)
		after := ReadThreadTimes()
		require.NotEmpty(t, after)
		if after.Busy(before, 5*time.Millisecond) > 0 {
			require.Zero(t, after.Busy(before, time.Hour))
			require.Greater(t, after[unix.Gettid()]-before[unix.Gettid()], time.Millisecond,
				"this thread")
			require.Positive(t, now.CPUNS)
			return
		}
	}
}
