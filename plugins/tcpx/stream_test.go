package tcpx

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInStream: a message has arrived when all receives that hold it are consumed, and a
// request that is not full ends with a message.
func TestInStream(t *testing.T) {
	in := inStream{request: 100, sizes: make([]int, 4)}
	arrived := func(size int, consumed uint64) bool {
		yes, err := in.arrived(size, consumed)
		require.NoError(t, err)
		return yes
	}
	require.True(t, arrived(0, 0), "an empty message needs no receive")
	require.False(t, arrived(1, 0))
	copy(in.sizes, []int{100, 100, 30})
	require.True(t, arrived(100, 1))
	require.False(t, arrived(101, 1))
	require.True(t, arrived(230, 3))
	_, err := in.arrived(231, 3)
	require.ErrorIs(t, err, errProtocol, "a message goes on behind a request that is not full")

	in.skip(99, 3)
	require.Equal(t, []uint64{0, 99}, []uint64{in.read, uint64(in.offset)})
	in.skip(101, 3)
	require.Equal(t, []uint64{2, 0}, []uint64{in.read, uint64(in.offset)})
	in.skip(30, 3)
	require.Equal(t, []uint64{3, 0}, []uint64{in.read, uint64(in.offset)})
	in.sizes[3], in.sizes[0] = 100, 10 // receives 3 and 4, in the slots behind
	require.True(t, arrived(110, 5))
	in.skip(110, 5)
	require.Equal(t, []uint64{5, 0}, []uint64{in.read, uint64(in.offset)})
}
