package loop

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrace(t *testing.T) {
	var tr LinkTrace
	tr.Begin(77)
	require.True(t, tr.Traced(77))
	require.False(t, tr.Traced(78))
	tr.Picked.Store(20)
	tr.Flushed.Store(25)
	_, ok := tr.End(10, 100)
	require.False(t, ok, "it never completed here")
	tr.Begin(77)
	tr.Picked.Store(20)
	tr.Flushed.Store(25)
	tr.Completed.Store(90)
	stages, ok := tr.End(10, 100)
	require.True(t, ok)
	require.Equal(t, [4]uint64{10, 5, 65, 10}, stages)
	require.False(t, tr.Traced(77))
}
