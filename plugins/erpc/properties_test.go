package erpc

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

// TestChosenAndChecked checks what a result shows of the choice of auto and of the own checks.
func TestChosenAndChecked(t *testing.T) {
	p := properties(t, nil)
	require.Equal(t, p.Provider, p.Chosen["provider"])
	require.Contains(t, []string{"off", "gso", "gro", "gso+gro"}, p.Chosen["offload"])
	require.Contains(t, p.Integrity, "CRC-32 of headers and payloads")

	p = properties(t, map[string]string{"provider": "udp", "offload": "off"})
	require.Empty(t, p.Chosen)

	// On the track matched the payload is left to the runtime.
	require.NotContains(t, properties(t, Driver{}.Info().Matched).Integrity, "payload")
}
