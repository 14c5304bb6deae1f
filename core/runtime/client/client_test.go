package client

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

func testConfig() config.Config {
	cfg := config.Default()
	cfg.Transport = "memory"
	cfg.Keys, cfg.InFlight = 64, 8
	return cfg
}
func meshConfig(topology string) config.Config {
	cfg := testConfig()
	cfg.Topology = topology
	return cfg
}
func delegating(topology string) config.Config {
	cfg := testConfig()
	cfg.Topology, cfg.Delegate, cfg.Daemons, cfg.Clients = topology, true, 3, 4
	return cfg
}

func requireShare(t *testing.T, share float64, count, n uint64, distinct int) {
	t.Helper()
	deviation := math.Sqrt(share * (1 - share) / float64(min(n, uint64(distinct))))
	require.InDelta(t, share, float64(count)/float64(n), 5*deviation, "of %d", n)
}
