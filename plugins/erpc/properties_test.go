package erpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transporttest"
)

// TestChosenAndChecked checks what a result shows of the choice of auto and of the own checks.
func TestChosenAndChecked(t *testing.T) {
	p := transporttest.Properties(t, Driver{}, nil)
	require.Equal(t, p.Provider, p.Chosen["provider"])
	require.Contains(t, []string{"off", "gso", "gro", "gso+gro"}, p.Chosen["offload"])
	require.Contains(t, p.Integrity, "CRC-32 of headers and payloads")

	p = transporttest.Properties(t, Driver{},
		map[string]string{"provider": "udp", "offload": "off"})
	require.Empty(t, p.Chosen)

	// On the track matched the payload is left to the runtime.
	require.NotContains(t, transporttest.Properties(t, Driver{}, Driver{}.Info().Matched).Integrity,
		"payload")
}
