package runner

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/experiment/witness"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// Without a tool a run says why, and measures all the same. The reason is found once.
func TestMissingWitness(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.prepared.Properties.Medium = transport.MediumUDP
		req := launched(c, 5)
		req.Config.Ranks, req.Config.Clients, req.Config.InFlight, req.Witness = 2, 1, 1, true
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		require.Equal(t, &result.Witness{
			Missing: "sockperf is not installed: apt install sockperf"}, r.Witness)
		require.NotContains(t, r.Summary, result.WitnessRatio)
	})
}

// A tool that failed is not tried at every window: it may take long to fail.
func TestNoReadingAfterAFailure(t *testing.T) {
	b := &bench{witness: new(witness.Witness), unwitnessed: "broken"} // an attempt would panic
	reading, err := b.readWitness(t.Context(), 1)
	require.NoError(t, err)
	require.Nil(t, reading)
}
