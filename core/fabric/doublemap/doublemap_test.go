package doublemap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is written across the end of a ring is contiguous, and is at its beginning too.
func TestMirror(t *testing.T) {
	const size = 2 * Unit
	ring, err := New("transportbench-test", size)
	require.NoError(t, err)
	require.Len(t, ring, 2*size)
	copy(ring[size-3:], "abcdef")
	require.Equal(t, "def", string(ring[:3]))
	require.Equal(t, "abc", string(ring[2*size-3:]))
	ring[size+5] = 'x'
	require.Equal(t, byte('x'), ring[5])
	require.NoError(t, Free(ring))
	require.NoError(t, Free(nil))
}

// The error of a ring that cannot be says its size.
func TestImpossibleSize(t *testing.T) {
	_, err := New("transportbench-test", -1)
	require.ErrorContains(t, err, "a ring of -1 bytes: ftruncate")
}
