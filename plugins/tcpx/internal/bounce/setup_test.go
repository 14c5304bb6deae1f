package bounce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// TestSteeringNeedsAPort: a NIC's rule needs a fixed port.
func TestSteeringNeedsAPort(t *testing.T) {
	options := func(raw map[string]string) transport.Values {
		values, err := transport.ParseOptions(Options, raw)
		require.NoError(t, err)
		return values
	}
	s := &Setup{IPv6: true, options: options(map[string]string{"interface": "eth7"})}
	err := s.checkSteering()
	require.ErrorIs(t, err, transport.ErrUnavailable)
	require.ErrorContains(t, err, "set data-port=5201, for example, and then ethtool -N eth7 "+
		"flow-type tcp6 dst-port PORT queue N")
	s.DataPort = 5300
	s.options = options(map[string]string{"interface": "eth7", "queue": "15"})
	require.NoError(t, s.checkSteering())
	require.Equal(t,
		"ethtool -N eth7 flow-type tcp6 dst-port 5300 queue 15, and again with src-port",
		s.steering())
}
