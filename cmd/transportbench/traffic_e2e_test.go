package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

// TestMatrix: two ranks call by a matrix of traffic, of which one only serves. Each pair is
// measured with the others and alone.
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
	for at, want := range [][2]int{{0, 1}, {0, 2}, {2, 1}} {
		require.Equal(t, want, [2]int{flows[at].From, flows[at].To})
	}
	for _, f := range flows {
		require.NotZero(t, f.Alone.Samples, "%d to %d", f.From, f.To)
		require.Positive(t, f.Slowdown)
	}
	require.Contains(t, i.stdout.String(), "p50 alone")
	require.Regexp(t, `the slowest pair is rank \d to rank \d: .*; alone, rank \d to rank \d is the`,
		i.stdout.String())
	// What was due and how a rank shares it out are the same on a busy machine.
	for _, repeat := range r.Repeats {
		for _, rank := range []int{0, 2} {
			c := &repeat.Ranks[rank].Clients[0]
			require.InEpsilon(t, 4000, result.PerSecond(c.Open.Scheduled, c.ElapsedNS), 0.25)
		}
	}
	require.InDelta(t, 0.25, flows[0].PerSecond/(flows[0].PerSecond+flows[1].PerSecond), 0.1)
}
