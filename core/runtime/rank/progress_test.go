package rank

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/client"
	"transportbench/core/transporttest/memory"
)

// TestProgressDoesNotWaitForSamples checks that progress has the operations up to liveEvery before
// the last ones, although no latency is sampled.
func TestProgressDoesNotWaitForSamples(t *testing.T) {
	ranks := cluster(t, memory.NewDriver(), testConfig(), config.IdleSpin)
	daemon, caller := ranks[0].threads[0].daemon, ranks[1].threads[0].client
	caller.Begin(hour(1 << 20))
	require.NoError(t, caller.Load(caller.Clock.Now()))
	for range 10 {
		done := caller.Counts.Ops
		spinFor(client.LiveEvery)
		for caller.Counts.Ops == done {
			require.NoError(t, errors.Join(iterate(caller, true), daemon.Step()))
		}
		progress := client.Progress([]*client.Client{caller}, time.Second)
		require.Equal(t, caller.Counts.Ops, progress.Ops)
	}
	require.Zero(t, caller.Counts.Samples)
	require.NoError(t, drainInTest(caller, daemon))
}
