package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
)

// TestClasses: clients of two classes, of which one thread may serve both. A busy machine, too,
// answers within a second.
func TestClasses(t *testing.T) {
	i := command(t, "run", "--json", "--transport", "shm", "--class",
		"bulk:64KiB,in-flight=2,clients=2", "--class", "rpc:64B,slo=1s",
		"--warmup", "20ms", "--repeats", "2", "--duration", "50ms")
	require.NoError(t, i.cmd.Start())
	i.wait(t)
	r, err := result.Parse(i.stdout.Bytes())
	require.NoError(t, err, i.stderr.String())
	require.False(t, r.Incomplete, r.IncompleteReason)
	requireVerified(t, r)
	for _, name := range []string{"rpc.slowdown.throughput", "bulk.alone.goodput",
		"rpc.slo_attainment"} {
		require.Positive(t, r.Summary[name].Median, name)
	}
}
