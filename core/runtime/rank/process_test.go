package rank

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transporttest/memory"
)

// TestProcessorTime checks that the report has the processor time of the whole process.
func TestProcessorTime(t *testing.T) {
	ranks := cluster(t, memory.NewDriver(), testConfig(), config.IdleYield)
	var stop atomic.Bool
	stopped := make(chan struct{})
	go func() { // a helper thread
		defer close(stopped)
		for !stop.Load() {
		}
	}()
	first, others, err := runAll(t, ranks, record.Window{Duration: 100 * time.Millisecond,
		SampleEvery: 1})
	stop.Store(true)
	<-stopped
	require.NoError(t, err)
	server, caller := first.Daemons[0].Thread, others[0].Clients[0].Thread
	require.Greater(t, others[0].Process.CPUNS, caller.CPUNS,
		"the client, the daemon and the helper")
	require.LessOrEqual(t, others[0].Process.SystemNS, others[0].Process.CPUNS)
	require.LessOrEqual(t, caller.SystemNS, caller.CPUNS+uint64(20*time.Millisecond),
		"accounted in ticks")
	for _, thread := range []record.ThreadReport{server, caller} {
		require.Positive(t, thread.MonotonicNS)
		require.LessOrEqual(t, thread.StartNS, machine.Monotonic())
	}
	for _, window := range []struct{ elapsed, monotonic uint64 }{
		{first.Daemons[0].ElapsedNS, server.MonotonicNS},
		{others[0].Clients[0].ElapsedNS, caller.MonotonicNS},
	} { // the second is around the first
		require.GreaterOrEqual(t, float64(window.monotonic), float64(window.elapsed)*0.999)
	}
}
