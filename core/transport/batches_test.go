package transport

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBatchSizes(t *testing.T) {
	var b BatchSizes
	for _, n := range []uint32{1, 2, 3, 4, 5, 8, 9, 1 << 16, 1 << 20} {
		b.Add(n)
	}
	counts := map[int]uint64{}
	for _, s := range b.Append(nil) {
		limit, is := BatchSizeOf(s.Name)
		require.True(t, is, s.Name)
		counts[limit] = s.Value
	}
	require.Len(t, counts, len(b))
	for limit, want := range map[int]uint64{1: 1, 2: 1, 4: 2, 8: 2, 16: 1, 32: 0, 1 << 16: 2} {
		require.Equal(t, want, counts[limit], limit)
	}
	for _, name := range []string{"batches", "batches_to_", "batches_to_few"} {
		_, is := BatchSizeOf(name)
		require.False(t, is, name)
	}
}
