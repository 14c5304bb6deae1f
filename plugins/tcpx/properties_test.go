package tcpx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transporttest"
)

// TestChosenMode checks that a result shows what auto took for the mode, the unpacker and
// zero-copy.
func TestChosenMode(t *testing.T) {
	p := transporttest.Properties(t, Driver{},
		map[string]string{"mode": "auto", "zero-copy": "auto"})
	require.Equal(t, p.Provider, p.Chosen["mode"])
	require.Equal(t, p.Notes["unpack"], p.Chosen["unpack"])
	require.Equal(t, zeroCopyOff, p.Chosen["zero-copy"], "over the loopback")
	p = transporttest.Properties(t, Driver{}, map[string]string{"mode": "host", "unpack": "cpu"})
	require.Empty(t, p.Chosen)
	require.Contains(t, p.Integrity, "none", "over the loopback")
}
