package rank

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
	"transportbench/core/runtime/daemon"
	"transportbench/core/runtime/workload"
	"transportbench/core/transporttest/memory"
)

func meshConfig(topology string) config.Config {
	cfg := testConfig()
	cfg.Topology = topology
	return cfg
}

func TestMesh(t *testing.T) {
	shapes := map[string]func(*config.Config){
		"one of each":   func(*config.Config) {},
		"one rank":      func(c *config.Config) { c.Ranks = 1 },
		"many":          func(c *config.Config) { c.Ranks, c.Daemons, c.Clients = 3, 2, 3 },
		"one in flight": func(c *config.Config) { c.InFlight = 1 },
		"send-poll": func(c *config.Config) {
			if c.Proxied() {
				c.Interleave = config.InterleaveSendPoll
			}
		},
		"immediate flush": func(c *config.Config) { c.Flush = config.FlushImmediate },
		"large values":    func(c *config.Config) { c.ValueSize = config.FixedSize(5000) },
		"all remote":      func(c *config.Config) { c.RemoteShare = 1 },
		"none remote":     func(c *config.Config) { c.RemoteShare = 0 },
		"open loop":       func(c *config.Config) { c.Rate = 20_000 },
		"sizes that vary": func(c *config.Config) {
			require.NoError(t, c.ValueSize.Set("uniform:0-300"))
		},
		"all operations": func(c *config.Config) {
			require.NoError(t, c.Mix.Set("read:0.2,write:0.2,lookup:0.2,insert:0.2,rmw:0.2"))
		},
		"a pattern": func(c *config.Config) {
			require.NoError(t, c.Pattern.Set("lookup:7,read:6,write:3"))
		},
		"echo": func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceEcho, 1 },
		"sink": func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceSink, 0 },
	}
	for _, topology := range []string{config.TopologyMeshDirect, config.TopologyMeshProxied} {
		for name, shape := range shapes {
			t.Run(topology+"/"+name, func(t *testing.T) {
				cfg := meshConfig(topology)
				shape(&cfg)
				driver := wrapped{memory.NewDriver(), memory.Poison}
				ranks := cluster(t, driver, cfg, config.IdleYield)
				for range 2 {
					first, others := runUntil(t, ranks, 2, 100)
					checkMesh(t, cfg, append(others, first))
				}
			})
		}
	}
}

func checkMesh(t *testing.T, cfg config.Config, reports []record.Report) {
	require.Len(t, reports, cfg.Ranks)
	requireServedIssued(t, reports)
	for _, r := range reports {
		require.Len(t, r.Clients, cfg.Clients)
		require.Len(t, r.Daemons, cfg.Daemons)
		for _, c := range r.Clients {
			require.Empty(t, c.Failures)
			require.Zero(t, c.Lost)
			require.Equal(t, c.Reads+c.Writes+c.Lookups, c.VerifiedKeys)
			checkOperations(t, cfg, c)
			require.Equal(t, c.Samples, c.Local.Samples+c.Remote.Samples)
			switch {
			case cfg.RemoteShare == 0 || cfg.Ranks == 1:
				require.Zero(t, c.Remote.Samples)
			case cfg.RemoteShare == 1:
				require.Zero(t, c.Local.Samples)
			}
			if cfg.Proxied() && cfg.RemoteShare == 1 {
				require.Len(t, c.Stages, len(record.StageNames))
			}
			if cfg.Rate > 0 {
				require.GreaterOrEqual(t, c.Open.Scheduled, c.Reads+c.Writes)
				require.Equal(t, c.Samples, c.Open.Response.Samples)
				require.GreaterOrEqual(t, c.Open.Response.MeanNS, c.MeanNS)
			}
		}
		for _, d := range r.Daemons {
			require.Zero(t, d.Rejected)
			if d.Loops > 10*uint64(d.PhaseEvery) {
				require.Positive(t, d.Phases[record.PhaseLoop].Samples)
			}
			if cfg.Proxied() {
				require.Equal(t, d.Proxy.FromClients, d.Proxy.Local+d.Proxy.Remote)
				require.Equal(t, d.Requests, d.Proxy.Local+d.Proxy.Incoming)
			}
		}
	}
}

func checkOperations(t *testing.T, cfg config.Config, c record.ClientReport) {
	count := uint64(0)
	for name, o := range c.Operations {
		require.Positive(t, o.Count, name)
		count += o.Count
	}
	switch {
	case len(cfg.Mix) > 0:
		require.Len(t, c.Operations, workload.NumOps)
		require.Equal(t, c.VerifiedKeys, count)
	case len(cfg.Pattern) > 0:
		require.Equal(t, c.VerifiedKeys, count)
		// Each has 16 operations; the iterations at the ends of the window are incomplete.
		require.InDelta(t, float64(count)/16, float64(c.Iterations.Samples), 4)
		require.Positive(t, c.Iterations.MeanNS)
	}
}

// TestMeshDoesNotAllocate runs requests through clients, links, daemons and the transport on one
// thread.
func TestMeshDoesNotAllocate(t *testing.T) {
	cfg := meshConfig(config.TopologyMeshProxied)
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	var clients []*client.Client
	var daemons []*daemon.Daemon
	for _, r := range ranks {
		daemons = append(daemons, r.threads[0].daemon)
		clients = append(clients, r.threads[1].client)
		r.threads[1].client.Begin(hour(4))
		require.NoError(t, r.threads[1].client.Load(1))
	}
	target := uint64(0)
	allocations := testing.AllocsPerRun(1, func() {
		target += 50_000
		for done := uint64(0); done < target; {
			for i := range clients {
				ops, err := iterate(clients[i])
				require.NoError(t, errors.Join(err, daemons[i].Step()))
				done = max(done, ops)
			}
		}
	})
	require.Zero(t, allocations)
	require.NotEmpty(t, clients[0].Report(record.ThreadReport{}).Stages)
	require.NoError(t, drain(clients, daemons...))
}
