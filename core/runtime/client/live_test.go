package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/runtime/loop"
)

func TestLivePublishesAtMostOnceInAWhile(t *testing.T) {
	l := live{every: 100, silences: silences{limit: loop.NoLimit}}
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
