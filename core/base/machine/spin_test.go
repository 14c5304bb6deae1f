package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spinsOn reports whether a thread of this process that may run on no other processor runs.
func spinsOn(cpu int) bool {
	paths, _ := filepath.Glob("/proc/self/task/*/status")
	return slices.ContainsFunc(paths, func(path string) bool {
		status, _ := os.ReadFile(path)
		return strings.Contains(string(status), "State:\tR") &&
			strings.Contains(string(status), fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu))
	})
}

// Spin has a thread run on each processor until it is stopped, beside the process's other threads.
func TestSpin(t *testing.T) {
	ids, err := AllowedCPUs()
	require.NoError(t, err)
	if len(ids) == 1 {
		t.Skip("every thread of this process may only run on one processor")
	}
	var cpus []CPU
	for _, id := range ids {
		cpus = append(cpus, CPU{ID: id})
	}
	procs := runtime.GOMAXPROCS(0)
	stop, err := Spin(cpus)
	require.NoError(t, err)
	defer stop()
	require.Equal(t, procs+len(cpus), runtime.GOMAXPROCS(0))
	for _, id := range ids {
		require.Eventually(t, func() bool { return spinsOn(id) }, 10*time.Second, time.Millisecond,
			"on cpu %d", id)
	}
	runtime.GC() // the threads can be stopped
	stop()
	require.Equal(t, procs, runtime.GOMAXPROCS(0))
	require.Eventually(t, func() bool { return !slices.ContainsFunc(ids, spinsOn) },
		10*time.Second, time.Millisecond, "the threads end")
	stop()

	const missing = 1 << 12
	_, err = Spin([]CPU{cpus[0], {ID: missing}})
	require.ErrorContains(t, err, fmt.Sprintf("pinning to cpu %d", missing))
	require.Eventually(t, func() bool { return !spinsOn(ids[0]) }, 10*time.Second,
		time.Millisecond, "the other thread ends")
	require.Equal(t, procs, runtime.GOMAXPROCS(0))
}
