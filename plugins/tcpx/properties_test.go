package tcpx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// properties opens the transport with options and returns its properties.
func properties(t *testing.T, own map[string]string) transport.Properties {
	t.Helper()
	options, err := transport.ParseOptions(Driver{}.Info().Options, own)
	require.NoError(t, err)
	tr, err := Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 8, MaxPayload: 64, Options: options})
	if err != nil {
		require.ErrorIs(t, err, transport.ErrUnavailable)
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return tr.Properties()
}

// TestChosenMode checks that a result shows what auto took for the mode, the unpacker and zero-copy.
func TestChosenMode(t *testing.T) {
	p := properties(t, map[string]string{"mode": "auto", "zero-copy": "auto"})
	require.Equal(t, p.Provider, p.Chosen["mode"])
	require.Equal(t, p.Notes["unpack"], p.Chosen["unpack"])
	require.Equal(t, zeroCopyOff, p.Chosen["zero-copy"], "over the loopback")
	p = properties(t, map[string]string{"mode": "host", "unpack": "cpu"})
	require.Empty(t, p.Chosen)
	require.Contains(t, p.Integrity, "none", "over the loopback")
}
