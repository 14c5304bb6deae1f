package shm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// TestChosenRing checks that a result shows which ring auto took, which depends on the calls in
// flight and on whether a message fits into two cache lines.
func TestChosenRing(t *testing.T) {
	for _, c := range []struct {
		ring     string
		inFlight int
		size     int
		want     map[string]string
	}{
		{"auto", 1, 48, map[string]string{"ring": "inplace"}},
		{"auto", 1, 112, map[string]string{"ring": "inplace"}},
		{"auto", 1, 113, map[string]string{"ring": "onesided"}},
		{"auto", 32, 48, map[string]string{"ring": "fastforward"}},
		{"lamport", 32, 48, nil},
	} {
		options, err := transport.ParseOptions(schema, map[string]string{"ring": c.ring})
		require.NoError(t, err)
		tr, err := Driver{}.Open(t.Context(),
			transport.Config{Workers: 1, Peers: 1, InFlight: c.inFlight, MaxPayload: c.size,
				Options: options})
		require.NoError(t, err)
		require.Equal(t, c.want, tr.Properties().Chosen, "%s with %d in flight of %d bytes",
			c.ring, c.inFlight, c.size)
		require.Equal(t, "none", tr.Properties().Integrity)
		require.NoError(t, tr.Close())
	}
}
