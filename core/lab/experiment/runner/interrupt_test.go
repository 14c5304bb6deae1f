package runner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestInterrupted(t *testing.T) {
	forEachStep(t, func(t *testing.T, at call, _ string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newCluster()
		c.hook = func(this call) {
			if this == at {
				cancel()
			}
		}
		r, err := Run(ctx, request(c), nil)
		require.ErrorIs(t, err, context.Canceled)
		// The steps are in order: in the last two, the first repeat is complete.
		if at.nth == 3 {
			require.NotNil(t, r)
			require.Len(t, r.Repeats, 1)
			require.True(t, r.Incomplete)
			require.Contains(t, r.IncompleteReason, "after 1 of 3")
			requireValid(t, r)
		} else {
			require.Nil(t, r)
		}
		c.requireAllKilled(t)
	})
}

func TestInterruptedWindowIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newCluster()
		start := time.Now()
		c.hook = func(this call) {
			if this == (call{2, opRun, 2}) {
				time.AfterFunc(500*time.Millisecond, cancel) // mid-window
			}
		}
		_, err := Run(ctx, request(c), nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 800*time.Millisecond, time.Since(start), "warm-up and half a window")

		c.mu.Lock()
		defer c.mu.Unlock()
		require.Empty(t, c.wrong, "servers are stopped after the clients, in %v", c.log)
		for r, op := range map[int]string{0: opStop, 1: opDrain, 2: opDrain} {
			require.Contains(t, c.log, call{r, op, 2 - r%2 - r/2})
		}
	})
}

func TestInterruptedWhileHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := newCluster()
		c.hang = map[call]bool{{1, opRun, 2}: true, {1, opDrain, 1}: true, {1, opStop, 1}: true,
			{1, opClose, 1}: true}
		start := time.Now()
		r, err := Run(ctx, request(c), nil)
		require.Nil(t, r)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second+stopGrace+abortTimeout, time.Since(start))
		c.requireAllKilled(t)
	})
}

func TestInterruptedBeforeItBegins(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := newCluster()
	_, err := Run(ctx, request(c), nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, c.calls(-1))
}

func TestInterruptedWhenAllIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := newCluster()
		c.hook = func(this call) {
			if this.op == opClose {
				cancel()
			}
		}
		r, err := Run(ctx, request(c), nil)
		require.NoError(t, err)
		require.False(t, r.Incomplete)
		require.Len(t, r.Repeats, 3)
	})
}
