package config

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequests(t *testing.T) {
	for name, c := range map[string]struct {
		set      func(*Config)
		replayed bool
		multiple int // the number must be one of it
	}{
		"kv":         {func(*Config) {}, true, 1},
		"mesh":       {func(c *Config) { c.Topology, c.Ranks = TopologyMeshDirect, 4 }, true, 1},
		"sequential": {func(c *Config) { c.Distribution = DistributionSequential }, true, 1024},
		"pattern": {func(c *Config) {
			c.Pattern = Pattern{{OpLookup, 7}, {OpRead, 6},
				{OpWrite, 3}}
		}, true, 16},
		"echo":      {func(c *Config) { c.Service = ServiceEcho }, true, 1},
		"wide echo": {func(c *Config) { c.Service, c.InFlight = ServiceEcho, 64 }, true, 1},
		"large sink": {func(c *Config) {
			c.Service, c.ValueSize, c.InFlight = ServiceSink,
				FixedSize(512<<10), 12
		}, true, 1},
		"many keys":   {func(c *Config) { c.Keys = 100_000 }, false, 1},
		"large":       {func(c *Config) { c.ValueSize = FixedSize(1009) }, false, 1},
		"latest":      {func(c *Config) { c.Distribution = DistributionLatest }, false, 1},
		"insert":      {func(c *Config) { c.Mix = Mix{{OpRead, 0.5}, {OpInsert, 0.5}} }, false, 1},
		"rmw":         {func(c *Config) { c.Pattern = Pattern{{OpRMW, 1}} }, false, 1},
		"all at once": {func(c *Config) { c.InFlight = MaxInFlight }, false, 1},
	} {
		cfg := Default()
		c.set(&cfg)
		n, replayed := cfg.Requests()
		require.Equal(t, c.replayed, replayed, name)
		require.GreaterOrEqual(t, n, 2*cfg.InFlight, name)
		if !replayed {
			continue
		}
		require.GreaterOrEqual(t, n, 4*cfg.InFlight, "%s: calls ahead of those in flight are known",
			name)
		require.Zero(t, n%c.multiple, name)
		require.NotZero(t, n>>bits.TrailingZeros(uint(n))/2,
			"%s: no power of two is a multiple of %d", name, n)
		if cfg.Service == ServiceStore {
			require.GreaterOrEqual(t, n, 4*cfg.TotalKeys(), name)
			require.LessOrEqual(t, n*((cfg.LargestMessage()+63)&^63), 2*repeatBytes, name)
		}
	}
}

// TestCallsPerPair: clients that outnumber the daemons share them.
func TestCallsPerPair(t *testing.T) {
	for _, c := range []struct {
		topology                string
		ranks, daemons, clients int
		pairs, calls            int
	}{
		{TopologyClientServer, 2, 1, 1, 1, 3},
		{TopologyClientServer, 2, 1, 4, 1, 12},
		{TopologyClientServer, 3, 2, 1, 2, 3},
		{TopologyClientServer, 2, 2, 3, 2, 6},
		{TopologyClientServer, 2, 4, 2, 2, 3},
		{TopologyMeshDirect, 3, 1, 2, 3, 6},
		{TopologyMeshProxied, 3, 1, 2, 3, 6},
	} {
		cfg := Default()
		cfg.Topology, cfg.Ranks, cfg.Daemons, cfg.Clients, cfg.InFlight = c.topology, c.ranks,
			c.daemons, c.clients, 3
		require.Equal(t, c.pairs, cfg.IndependentPairs(), c)
		require.Equal(t, c.calls, cfg.CallsPerPair(), c)
	}
}
