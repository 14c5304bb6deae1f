package ofi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// TestPathHasPorts: two workers over UDP state the same two ports from either end, by which the
// kernel may choose between routes.
func TestPathHasPorts(t *testing.T) {
	needLibrary(t)
	var workers [2]*worker
	for i := range workers {
		tr, w, err := open(fabrictest.Rank{Options: map[string]string{optionProvider: "udp"},
			MaxPayload: 64})
		require.NoError(t, err)
		defer func() { require.NoError(t, tr.Close()) }()
		workers[i] = w
	}
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
