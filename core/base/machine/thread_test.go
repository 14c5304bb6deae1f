package machine

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/cpulist"
)

// onThread runs f on a new thread that ends with f, and with it any changed affinity.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

func TestThreadUsage(t *testing.T) {
	onThread(func() {
		start, err := ReadThreadUsage()
		if !assertNoError(t, err) {
			return
		}
		// Run until 2 ms of processor time have passed.
		var used Usage
		for used.CPUNS < 2e6 {
			now, err := ReadThreadUsage()
			if !assertNoError(t, err) {
				return
			}
			used = now.Sub(start)
		}
		// A sleep in the kernel is a voluntary switch and takes little processor time.
		pause := unix.NsecToTimespec(int64(5 * time.Millisecond))
		_ = unix.Nanosleep(&pause, nil)
		after, err := ReadThreadUsage()
		if assertNoError(t, err) && after.Sub(start).Voluntary <= used.Voluntary {
			t.Errorf("no voluntary switch counted for a sleep: %+v then %+v", used,
				after.Sub(start))
		}
	})
}

func assertNoError(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func TestPin(t *testing.T) {
	allowed, err := AllowedCPUs()
	require.NoError(t, err)
	require.NotEmpty(t, allowed)
	for _, cpu := range allowed {
		onThread(func() {
			if !assertNoError(t, Pin(cpu)) {
				return
			}
			got, err := AllowedCPUs()
			if assertNoError(t, err) && !slices.Equal(got, []int{cpu}) {
				t.Errorf("pinned to %d, may run on %v", cpu, got)
			}
			list, err := Affinity()
			if assertNoError(t, err) && list != cpulist.Format([]int{cpu}) {
				t.Errorf("pinned to %d, affinity is %q", cpu, list)
			}
		})
	}
	for _, cpu := range []int{-1, maxCPUs - 1, maxCPUs} {
		onThread(func() {
			if err := Pin(cpu); err == nil {
				t.Errorf("pinned to cpu %d", cpu)
			}
		})
	}
}

func TestPeakRSS(t *testing.T) {
	before, err := PeakRSS()
	require.NoError(t, err)
	// This is larger than the peak by more than the delay of the kernel's page counts.
	size := int(before) + 64<<20
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	for i := 0; i < size; i += 4096 {
		memory[i] = 1
	}
	require.NoError(t, unix.Munmap(memory))
	after, err := PeakRSS()
	require.NoError(t, err)
	require.Greater(t, after, before+32<<20)
}

func TestGCCycles(t *testing.T) {
	before := GCCycles()
	runtime.GC()
	require.Greater(t, GCCycles(), before)
}

func TestNameThread(t *testing.T) {
	onThread(func() {
		if !assertNoError(t, NameThread("r0 daemon 0")) {
			return
		}
		text, err := os.ReadFile("/proc/thread-self/comm")
		if assertNoError(t, err) && string(text) != "r0 daemon 0\n" {
			t.Errorf("the thread is called %q", text)
		}
	})
}
