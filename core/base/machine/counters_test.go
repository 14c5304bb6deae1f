package machine

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestCounters(t *testing.T) {
	onThread(func() {
		counters, err := OpenCounters()
		if err != nil {
			t.Logf("NOT TESTED against the kernel: %v", err)
			return
		}
		before, err := counters.Read()
		if !assertNoError(t, err) {
			return
		}
		const loops = 1_000_000
		for i := range loops {
			sink += uint64(i)
		}
		after, err := counters.Read()
		if !assertNoError(t, err) {
			return
		}
		for name := range after {
			if after[name] < before[name] {
				t.Errorf("%s went from %d to %d", name, before[name], after[name])
			}
		}
		if done := after["instructions"] - before["instructions"]; slices.Contains(
			slices.Collect(maps.Keys(after)), "instructions") && done < loops {
			t.Errorf("%d instructions counted for %d loops", done, loops)
		}
		assertNoError(t, counters.Close())
		if _, err := counters.Read(); err == nil {
			t.Error("closed counters can be read")
		}
	})
}

// TestProcessCounters counts what a thread does that started later.
func TestProcessCounters(t *testing.T) {
	all, err := OpenProcessCounters()
	require.Equal(t, CheckCounters() == nil, err == nil)
	if err != nil {
		t.Logf("NOT TESTED against the kernel: %v", err)
		return
	}
	const loops = 1_000_000
	onThread(func() {
		for i := range loops {
			sink += uint64(i)
		}
	})
	counts, err := all.Read()
	require.NoError(t, err)
	require.GreaterOrEqual(t, counts["instructions"], uint64(loops))
	require.NoError(t, all.Close())
}

func TestCounterGroupScales(t *testing.T) {
	g := &counterGroup{}
	g.add("cycles", -1)
	g.add("instructions", -1)

	require.NoError(t, g.account(1000, 1000, []uint64{500, 700}))
	require.Equal(t, []uint64{500, 700}, g.totals)
	// Scheduled for a quarter of the second interval.
	require.NoError(t, g.account(2000, 1250, []uint64{600, 700}))
	require.Equal(t, []uint64{900, 700}, g.totals)
	// The thread did not run at all.
	require.NoError(t, g.account(2000, 1250, []uint64{600, 700}))
	require.Equal(t, []uint64{900, 700}, g.totals)
	// The thread ran, and the group was not scheduled.
	require.ErrorContains(t, g.account(3000, 1250, []uint64{600, 700}), "nmi_watchdog")
}

func TestScaleCount(t *testing.T) {
	for _, test := range []struct{ count, enabled, running, want uint64 }{
		{10, 0, 0, 10},
		{10, 100, 100, 10},
		{10, 100, 50, 20},
		{1 << 60, 1 << 40, 1 << 39, 1 << 61},
		{math.MaxUint64, 1 << 40, 1, math.MaxUint64},
	} {
		require.Equal(t, test.want, scaleCount(test.count, test.enabled, test.running), "%+v", test)
	}
}

func TestExplainCounters(t *testing.T) {
	for _, test := range []struct {
		err  error
		want []string
	}{
		{unix.EACCES, []string{`"4"`, "perf_event_paranoid=2", "CAP_PERFMON"}},
		{unix.EPERM, []string{`"4"`, "seccomp"}},
		{unix.ENOENT, []string{"performance monitoring unit", "virtual PMU"}},
		{unix.ENOSYS, []string{"perf events"}},
		{unix.EMFILE, []string{"ulimit -n"}},
		{unix.EIO, []string{"unavailable"}},
	} {
		err := explainCounters(test.err, "4")
		require.True(t, errors.Is(err, test.err))
		require.NotContains(t, err.Error(), "\n")
		for _, want := range test.want {
			require.ErrorContains(t, err, want)
		}
	}
}
