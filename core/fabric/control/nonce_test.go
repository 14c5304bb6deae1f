package control

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNewNonce: each bit of a nonce is random.
func TestNewNonce(t *testing.T) {
	var set, clear uint64
	for range 100 {
		nonce := NewNonce()
		require.NotZero(t, nonce)
		set, clear = set|nonce, clear|^nonce
	}
	require.Equal(t, ^uint64(0), set)
	require.Equal(t, ^uint64(0), clear)
}
