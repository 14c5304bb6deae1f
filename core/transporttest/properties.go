package transporttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// Properties opens a transport with these options and one peer, and returns its properties. It
// skips the test with the transport's reason if the transport cannot run on this machine.
func Properties(t *testing.T, driver transport.Driver,
	options map[string]string) transport.Properties {
	t.Helper()
	parsed, err := transport.ParseOptions(driver.Info().Options, options)
	require.NoError(t, err)
	tr, err := driver.Open(t.Context(), transport.Config{Workers: 1, Peers: 1, InFlight: 8,
		MaxPayload: 64, Options: parsed})
	if err != nil {
		require.ErrorIs(t, err, transport.ErrUnavailable)
		t.Skip(err)
	}
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return tr.Properties()
}
