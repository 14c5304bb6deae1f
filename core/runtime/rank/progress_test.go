package rank

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/transporttest"
)

// TestProgressDoesNotWaitForSamples checks that the count of operations in progress is never more
// than one look at the clock behind, although no latency is sampled.
func TestProgressDoesNotWaitForSamples(t *testing.T) {
	ranks := cluster(t, transporttest.NewMemoryDriver(), testConfig(), config.IdleSpin)
	daemon, caller := ranks[0].threads[0].daemon, ranks[1].threads[0].client
	caller.begin(1<<20, time.Hour)
	caller.gaps.begin()
	require.NoError(t, caller.enter(caller.clock.Now()))
	var done []uint64
	for len(done) < 1000 {
		require.NoError(t, errors.Join(caller.step(true), daemon.step()))
		done = append(done, caller.counts.ops)
		if before := len(done) - 1 - lookEvery; before >= 0 {
			require.GreaterOrEqual(t, progressOf([]*client{caller}, time.Second).Ops, done[before])
		}
	}
	require.Greater(t, caller.counts.ops, uint64(lookEvery))
	require.Zero(t, caller.counts.samples)
	caller.gaps.stop()
	require.NoError(t, caller.drainInTest(daemon))
}
