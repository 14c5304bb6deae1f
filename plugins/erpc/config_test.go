package erpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// TestTooMuchTogether: options that are each in range but would take gigabytes together are refused
// by name, before any memory is taken.
func TestTooMuchTogether(t *testing.T) {
	for option, c := range map[string]struct {
		config  transport.Config
		options map[string]string
	}{
		"credits": {transport.Config{Workers: 1, Peers: 4096, InFlight: 1, MaxPayload: 64},
			map[string]string{"credits": "65536"}},
		"window": {transport.Config{Workers: 1, Peers: 1, InFlight: 1, MaxPayload: maxMessage},
			map[string]string{"window": "4096", "credits": "65536", "mtu": "64"}},
		"peer-timeout": {transport.Config{Workers: 1, Peers: 1, InFlight: 1, MaxPayload: 64},
			map[string]string{"peer-timeout": "1s", "keepalive": "1s"}},
	} {
		t.Run(option, func(t *testing.T) {
			c.options["provider"] = providerUDP
			var err error
			c.config.Options, err = transport.ParseOptions(schema, c.options)
			require.NoError(t, err)
			_, err = Driver{}.Open(t.Context(), c.config)
			var wrong *transport.OptionError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, option, wrong.Option)
		})
	}
}

// TestTooManyPeers: Open refuses too many peers, before the first of them connects.
func TestTooManyPeers(t *testing.T) {
	options, err := transport.ParseOptions(schema, map[string]string{"provider": providerSoft})
	require.NoError(t, err)
	_, err = Driver{}.Open(t.Context(), transport.Config{Workers: 1, Peers: 1025, InFlight: 1,
		MaxPayload: 64, Options: options})
	require.ErrorIs(t, err, transport.ErrUnsupported)
	require.ErrorContains(t, err, "1025 peers")
}
