package erpc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// TestPathHasPorts: two workers state the same two ports from either end, by which the kernel may
// choose between routes.
func TestPathHasPorts(t *testing.T) {
	workers := opened(t, 2, transport.Config{Workers: 2, Peers: 1, InFlight: 1, MaxPayload: 64},
		map[string]string{"provider": "udp"})
	var paths [2]transport.Path
	for i, w := range workers {
		require.NoError(t, w.Connect(t.Context(), 0, workers[1-i].Address()))
		list := w.ReadPaths(nil)
		require.Len(t, list, 1)
		paths[i] = list[0]
	}
	require.NotZero(t, paths[0].LocalPort)
	require.NotZero(t, paths[0].RemotePort)
	require.NotEqual(t, paths[0].LocalPort, paths[0].RemotePort)
	require.Equal(t, paths[0].LocalPort, paths[1].RemotePort)
	require.Equal(t, paths[0].RemotePort, paths[1].LocalPort)
}
