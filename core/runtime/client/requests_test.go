package client

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/runtime/wiring"
)

// TestReplayHasTheDistribution checks that the requests of a client are as the options say: the
// share of reads within four standard deviations, and keys that pass a chi-squared test.
func TestReplayHasTheDistribution(t *testing.T) {
	cfg := config.Default()
	n, repeated := cfg.Requests()
	require.True(t, repeated)
	for number := range 8 {
		c, err := New(wiring.Wiring{Config: cfg, Rank: 1}, number, config.IdleSpin, nil)
		require.NoError(t, err)
		reads, keys := 0.0, make([]float64, cfg.Keys)
		for i := range c.calls {
			reads += float64(c.calls[i].reads)
			keys[c.calls[i].key]++
		}
		require.NoError(t, c.Close())
		require.InDelta(t, 0.5*float64(n), reads, 4*math.Sqrt(0.25*float64(n)))
		chi, expected := 0.0, float64(n)/float64(cfg.Keys)
		for _, count := range keys {
			chi += (count - expected) * (count - expected) / expected
		}
		freedom := float64(cfg.Keys - 1)
		require.InDelta(t, freedom, chi, 4*math.Sqrt(2*freedom))
	}
}
