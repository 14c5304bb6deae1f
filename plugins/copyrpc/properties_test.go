package copyrpc

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

// TestChosenProvider checks that a result shows which provider auto took.
func TestChosenProvider(t *testing.T) {
	p := properties(t, nil)
	require.Equal(t, map[string]string{"provider": p.Provider}, p.Chosen)
	p = properties(t, map[string]string{"provider": "soft"})
	require.Empty(t, p.Chosen)
	require.Equal(t, "none", p.Integrity)
	require.Empty(t, p.Uncounted)
}
