package runner

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func TestImpossibleRequestsLaunchNothing(t *testing.T) {
	c := newCluster()
	req := request(c)
	req.Config.Idle, req.Config.Clients = config.IdleSpin, 16
	_, err := Run(t.Context(), req, nil)
	var configErr *config.Error
	require.ErrorAs(t, err, &configErr)
	require.Empty(t, c.calls(-1))

	req = request(newCluster())
	req.CPUs = nil
	_, err = Run(t.Context(), req, nil)
	require.ErrorContains(t, err, "no processors")
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(*config.Config, *record.Prepared)
		option string // empty where it fits
		want   string
	}{
		{"largest value", func(c *config.Config, p *record.Prepared) {
			c.ValueSize, p.Properties.Limits.MaxPayload = config.FixedSize(48), 64
		}, "", ""},
		{"value too large", func(c *config.Config, p *record.Prepared) {
			c.ValueSize, p.Properties.Limits.MaxPayload = config.FixedSize(49), 64
		},
			"value-size", "use --value-size 48 or less"},
		{"no limit on payload", func(c *config.Config, p *record.Prepared) {
			c.ValueSize, p.Properties.Limits.MaxPayload = config.FixedSize(1<<20), 0
		}, "", ""},
		{"as many in flight", func(c *config.Config, p *record.Prepared) {
			c.InFlight, p.Properties.Limits.InFlight = 8, 8
		}, "", ""},
		{"too many in flight", func(c *config.Config, p *record.Prepared) {
			c.InFlight, p.Properties.Limits.InFlight = 9, 8
		},
			"in-flight", "use --in-flight 8 or less"},
		{"too many clients", func(c *config.Config, p *record.Prepared) {
			p.Properties.Limits.Peers = 1
		},
			"clients", "each daemon would have 2 clients"},
		{"too many daemons", func(c *config.Config, p *record.Prepared) {
			c.Daemons, p.Properties.Limits.Peers = 3, 2
		},
			"daemons", "each client would have 3 daemons, but transport shm takes 2 connections " +
				"a worker; use fewer ranks or daemons"},
		{"mesh, too many clients", func(c *config.Config, p *record.Prepared) {
			c.Topology, c.Clients, p.Properties.Limits.Peers = config.TopologyMeshDirect, 2, 5
		}, "clients", "each daemon would have 6 clients"},
		{"mesh, too many daemons", func(c *config.Config, p *record.Prepared) {
			c.Topology, c.Daemons, p.Properties.Limits.Peers = config.TopologyMeshDirect, 2, 5
		}, "daemons", "each client would have 6 daemons"},
		// The clients of a proxied mesh do not use the transport.
		{"proxied, many clients", func(c *config.Config, p *record.Prepared) {
			c.Topology, c.Clients, p.Properties.Limits.Peers = config.TopologyMeshProxied, 7, 2
		}, "", ""},
		{"proxied, too many ranks", func(c *config.Config, p *record.Prepared) {
			c.Topology, p.Properties.Limits.Peers = config.TopologyMeshProxied, 1
		}, "ranks", "each daemon would have 2 other ranks, but transport shm takes 1 connections " +
			"a worker; use fewer ranks"},
		{"proxied, as many in flight", func(c *config.Config, p *record.Prepared) {
			c.Topology, c.Clients, c.InFlight,
				p.Properties.Limits.InFlight = config.TopologyMeshProxied, 3, 4, 12
		}, "", ""},
		{"proxied, too many in flight", func(c *config.Config, p *record.Prepared) {
			c.Topology, c.Clients, c.InFlight,
				p.Properties.Limits.InFlight = config.TopologyMeshProxied, 3, 4, 11
		}, "in-flight",
			"3 clients with 4 calls in flight each share a connection, but transport shm takes 11"},
		{"park", func(c *config.Config, p *record.Prepared) { c.Idle = config.IdlePark }, "", ""},
		{"cannot park", func(c *config.Config, p *record.Prepared) {
			c.Idle, p.Properties.Capabilities.Waits = config.IdlePark, false
		},
			"idle", "cannot park a thread; use --idle auto"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := newCluster()
				req := request(fake)
				c.edit(&req.Config, &fake.prepared)
				_, err := Run(t.Context(), req, nil)
				fake.requireAllKilled(t)
				if c.option == "" {
					require.NoError(t, err)
					return
				}
				var configErr *config.Error
				require.ErrorAs(t, err, &configErr)
				require.Equal(t, c.option, configErr.Option)
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, fake.calls(-1), opConnect, "nothing is sent")
			})
		})
	}
}

func TestProvidersMustAgree(t *testing.T) {
	prepared := []record.Prepared{
		{Properties: transport.Properties{Provider: "verbs"}},
		{Properties: transport.Properties{Provider: "soft"}},
	}
	requireRankError(t, checkPrepared(config.Default(), prepared), 1, "prepare")
}

// recorder is an observer that keeps every status.
type recorder struct{ states []Status }

func TestMemoryIsCheckedFirst(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		change    func(*config.Config)
		available uint64
		option    string // "" if the run fits
	}{
		"default":       {func(*config.Config) {}, gib, ""},
		"unknown":       {func(c *config.Config) { c.Ranks = 1024 }, 0, ""},
		"ranks":         {func(c *config.Config) { c.Ranks = 1024 }, 8 * gib, "ranks"},
		"ranks, enough": {func(c *config.Config) { c.Ranks = 1024 }, 64 * gib, ""},
		"keys": {func(c *config.Config) {
			c.Keys, c.ValueSize = 1<<24,
				config.FixedSize(4096)
		}, 8 * gib, "keys"},
		"in flight": {func(c *config.Config) {
			c.InFlight, c.ValueSize = 1<<14,
				config.FixedSize(1<<20)
		}, 8 * gib, "in-flight"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			c.change(&cfg)
			err := checkMemory(cfg, transport.Needs{}, c.available, 1)
			if c.option == "" {
				require.NoError(t, err)
				return
			}
			var wrong *config.Error
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, c.option, wrong.Option)
			require.Contains(t, wrong.Problem, "only 8.0 GiB are available; use fewer")
		})
	}
	cluster := newCluster()
	req := request(cluster)
	req.Environment.Volatile.AvailableMemory = 1 << 20
	_, err := Run(t.Context(), req, nil)
	require.ErrorContains(t, err, "of memory")
	require.Empty(t, cluster.calls(-1))
}
