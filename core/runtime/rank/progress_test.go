package rank

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/transporttest"
)

// TestProgressDoesNotWaitForSamples checks that progress has the operations up to liveEvery before
// the last ones, although no latency is sampled.
func TestProgressDoesNotWaitForSamples(t *testing.T) {
	ranks := cluster(t, transporttest.NewMemoryDriver(), testConfig(), config.IdleSpin)
	daemon, caller := ranks[0].threads[0].daemon, ranks[1].threads[0].client
	caller.begin(1<<20, time.Hour)
	require.NoError(t, caller.load(caller.clock.Now()))
	for range 10 {
		done := caller.counts.ops
		spinFor(liveEvery)
		for caller.counts.ops == done {
			require.NoError(t, errors.Join(caller.step(true), daemon.step()))
		}
		require.Equal(t, caller.counts.ops, progressOf([]*client{caller}, time.Second).Ops)
	}
	require.Zero(t, caller.counts.samples)
	require.NoError(t, caller.drainInTest(daemon))
}

func TestLivePublishesAtMostOnceInAWhile(t *testing.T) {
	l := live{every: 100, silences: silences{limit: noLimit}}
	for _, c := range []struct{ ops, now, want uint64 }{{1, 1000, 1}, {2, 1099, 1}, {3, 1100, 3},
		{9, 1101, 3}, {10, 5000, 10}} {
		l.publish(c.ops, c.now)
		require.Equal(t, c.want, l.ops.Load(), c.now)
	}
	l.reset()
	require.Zero(t, l.ops.Load())
	l.publish(4, 1)
	require.EqualValues(t, 4, l.ops.Load())
}
