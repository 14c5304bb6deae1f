package rank

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
	"transportbench/core/runtime/daemon"
	"transportbench/core/runtime/wiring/wiringtest"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

func delegating(topology string) config.Config {
	cfg := testConfig()
	cfg.Topology, cfg.Delegate, cfg.Daemons, cfg.Clients = topology, true, 3, 4
	return cfg
}

// TestDelegation serves requests that clients send to any daemon of a rank. A daemon that served a
// key of another would reject it, because its store does not have it.
func TestDelegation(t *testing.T) {
	shapes := map[string]func(*config.Config){
		"plain":           func(*config.Config) {},
		"one in flight":   func(c *config.Config) { c.InFlight = 1 },
		"immediate flush": func(c *config.Config) { c.Flush = config.FlushImmediate },
		"sizes that vary": func(c *config.Config) {
			require.NoError(t, c.ValueSize.Set("uniform:0-3000"))
		},
		"delays": func(c *config.Config) {
			c.ReadDelay, c.WriteDelay, c.StorageLanes = "20us", "exponential:10us", 2
		},
	}
	for _, topology := range []string{config.TopologyClientServer, config.TopologyMeshDirect,
		config.TopologyMeshProxied} {
		for name, shape := range shapes {
			for _, scarce := range []bool{false, true} {
				if scarce {
					name += ", little room"
				}
				t.Run(topology+"/"+name, func(t *testing.T) {
					cfg := delegating(topology)
					shape(&cfg)
					require.NoError(t, cfg.Validate())
					wrap := memory.Poison
					if scarce {
						wrap = func(w transport.Worker) transport.Worker {
							return memory.Poison(&wiringtest.Stingy{Worker: w})
						}
					}
					ranks, connect := unconnected(t, wrapped{memory.NewDriver(), wrap}, cfg,
						func(p *record.Plan) { p.Idle = config.IdleYield })
					for _, r := range ranks {
						if r.siblings != nil {
							r.siblings = wrappedTransport{r.siblings, wrap}
						}
					}
					connect()
					runOnOneThread(t, ranks, 300)
					sent, served := uint64(0), uint64(0)
					for _, d := range daemonsOf(ranks) {
						r := d.Report(record.ThreadReport{})
						require.Zero(t, r.Rejected)
						require.Positive(t, r.Requests, "every daemon owns keys")
						if p := r.Proxy; p != nil {
							require.Equal(t, p.Incoming+p.Local+r.Delegation.Served,
								r.Requests+r.Delegation.Sent)
						}
						sent, served = sent+r.Delegation.Sent, served+r.Delegation.Served
					}
					require.Equal(t, sent, served)
					require.Positive(t, sent)
				})
			}
		}
	}
}

func daemonsOf(ranks []*Rank) (list []*daemon.Daemon) {
	for _, r := range ranks {
		for _, t := range r.threads {
			if t.daemon != nil {
				list = append(list, t.daemon)
			}
		}
	}
	return list
}

// TestDelegatingWindow runs windows on threads, in which daemons wait for each other.
func TestDelegatingWindow(t *testing.T) {
	for _, topology := range []string{config.TopologyClientServer, config.TopologyMeshProxied} {
		cfg := delegating(topology)
		cfg.Daemons, cfg.Clients = 2, 2
		ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
		first, others := runUntil(t, ranks, 2, 100)
		reports := append(others, first)
		requireServedIssued(t, reports)
		sent := uint64(0)
		for _, r := range reports {
			for _, d := range r.Daemons {
				require.Zero(t, d.Rejected)
				sent += d.Delegation.Sent
			}
		}
		require.Positive(t, sent)
	}
}

func TestDelegationDoesNotAllocate(t *testing.T) {
	ranks := cluster(t, memory.NewDriver(), delegating(config.TopologyClientServer),
		config.IdleYield)
	runOnOneThread(t, ranks, 100)
	var clients []*client.Client
	for _, r := range ranks {
		clients = append(clients, r.clients()...)
	}
	daemons := daemonsOf(ranks)
	for _, c := range clients {
		c.Begin(hour(4))
		require.NoError(t, c.Load(1))
	}
	require.Zero(t, testing.AllocsPerRun(1, func() {
		for range 10_000 {
			for _, c := range clients {
				_, err := iterate(c)
				require.NoError(t, err)
			}
			for _, d := range daemons {
				require.NoError(t, d.Step())
			}
		}
	}))
}
