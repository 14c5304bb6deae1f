package shm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// TestChosenRing checks that a result shows which ring auto took, and that it takes another one for
// one call in flight than for several.
func TestChosenRing(t *testing.T) {
	for _, c := range []struct {
		ring     string
		inFlight int
		want     map[string]string
	}{
		{"auto", 1, map[string]string{"ring": "onesided"}},
		{"auto", 32, map[string]string{"ring": "fastforward"}},
		{"lamport", 32, nil},
	} {
		options, err := transport.ParseOptions(schema, map[string]string{"ring": c.ring})
		require.NoError(t, err)
		tr, err := Driver{}.Open(t.Context(),
			transport.Config{Workers: 1, Peers: 1, InFlight: c.inFlight, MaxPayload: 64,
				Options: options})
		require.NoError(t, err)
		require.Equal(t, c.want, tr.Properties().Chosen, "%s with %d in flight", c.ring, c.inFlight)
		require.Equal(t, "none", tr.Properties().Integrity)
		require.NoError(t, tr.Close())
	}
}
