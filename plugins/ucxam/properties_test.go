package ucxam

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

// TestChosenTransport checks that a result shows UCX's choice, unless the user left it none, and
// that UCX's own work is not counted.
func TestChosenTransport(t *testing.T) {
	p := properties(t, nil)
	require.Equal(t, map[string]string{"tls": p.Provider}, p.Chosen)
	require.Equal(t, "UCX", p.Uncounted)
	require.Empty(t, properties(t, map[string]string{"tls": "posix", "error-handling": "none"}).Chosen)
}
