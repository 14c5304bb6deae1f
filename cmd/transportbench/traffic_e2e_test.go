package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

// TestMatrix: two ranks call by a matrix of traffic, of which one only serves.
func TestMatrix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "traffic.csv")
	require.NoError(t, os.WriteFile(file, []byte("0,1,3\n0,0,0\n0,4,0\n"), 0o600))
	i := command(t, "run", "--transport", "sockets", "--traffic", "matrix:"+file,
		"--rate", "8000", "--warmup", "20ms", "--repeats", "2", "--duration", "200ms")
	require.NoError(t, i.cmd.Start())
	i.wait(t)
	require.Len(t, i.results(t), 1, "%s", &i.stderr)
	r := i.results(t)[0]
	require.False(t, r.Incomplete, r.IncompleteReason)
	requireVerified(t, r)
	flows, err := result.FlowsOf(r.Repeats)
	require.NoError(t, err)
	require.Len(t, flows, 3)
	for at, want := range []struct {
		from, to int
		rate     float64
	}{{0, 1, 1000}, {0, 2, 3000}, {2, 1, 4000}} {
		require.Equal(t, want.from, flows[at].From)
		require.Equal(t, want.to, flows[at].To)
		require.InEpsilon(t, want.rate, flows[at].PerSecond, 0.25, "%+v", flows[at])
	}
}
