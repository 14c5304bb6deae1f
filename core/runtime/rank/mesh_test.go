package rank

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/kv"
	"transportbench/core/runtime/workload"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
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
				driver := wrapped{transporttest.NewMemoryDriver(), transporttest.Poison}
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

// TestRemoteShare counts the ranks that requests go to.
func TestRemoteShare(t *testing.T) {
	cfg := meshConfig(config.TopologyMeshDirect)
	cfg.Ranks, cfg.RemoteShare = 4, 0.25
	r := newRoute(wiring{cfg: cfg, rank: 2}, 7)
	const draws = 100_000
	to := make([]int, cfg.Ranks)
	for i := range draws {
		key, owner, peer := r.choose(uint64(i % cfg.TotalKeys()))
		require.EqualValues(t, kv.RankOf(key, cfg.Ranks), peer)
		require.Equal(t, peer != 2, r.remote(owner))
		to[peer]++
	}
	for rank, count := range to {
		want := 0.25 / 3
		if rank == 2 {
			want = 0.75
		}
		require.InEpsilon(t, want*draws, count, 0.05)
	}
}

// TestMeshDoesNotAllocate runs requests through clients, links, daemons and the transport on one
// thread.
func TestMeshDoesNotAllocate(t *testing.T) {
	cfg := meshConfig(config.TopologyMeshProxied)
	ranks := cluster(t, transporttest.NewMemoryDriver(), cfg, config.IdleYield)
	var clients []*client
	var daemons []*daemon
	for _, r := range ranks {
		daemons = append(daemons, r.threads[0].daemon)
		clients = append(clients, r.threads[1].client)
		r.threads[1].client.begin(4, 1<<40)
		require.NoError(t, r.threads[1].client.load(1))
	}
	step := func(measuring bool) {
		for i := range clients {
			require.NoError(t, clients[i].step(measuring))
			require.NoError(t, daemons[i].step())
		}
	}
	allocations := testing.AllocsPerRun(1, func() {
		for clients[0].counts.ops < 100_000 {
			step(true)
		}
	})
	require.Zero(t, allocations)
	require.Positive(t, clients[0].mesh.stages[0].samples)
	for clients[0].inFlight+clients[1].inFlight > 0 {
		step(false)
	}
}

// TestSendPoll checks the order of a daemon's work: with send-poll, a reply to another rank is
// posted before the links of the clients are polled, and a forwarded call in the same iteration.
func TestSendPoll(t *testing.T) {
	for interleave, want := range map[config.Interleave][]string{
		"":                        {"poll", "scan", "post 2"},
		config.InterleaveSendPoll: {"poll", "post 1", "scan", "post 1"},
	} {
		cfg := meshConfig(config.TopologyMeshProxied)
		cfg.Interleave, cfg.RemoteShare, cfg.InFlight = interleave, 1, 1
		ranks := cluster(t, transporttest.NewMemoryDriver(), cfg, config.IdleYield)
		for _, r := range ranks { // each client calls the other rank
			c := r.threads[1].client
			c.begin(1, 1<<40)
			require.NoError(t, c.load(1))
		}
		near, far := ranks[0].threads[0].daemon, ranks[1].threads[0].daemon
		require.NoError(t, far.step()) // forwards its client's call to near
		var order []string
		near.worker = ordered{near.worker, "poll", &order}
		near.out.worker = near.worker
		near.proxy.links = ordered{near.proxy.links, "scan", &order}
		require.NoError(t, near.step())
		require.Equal(t, want, order)
	}
}

// ordered notes the calls of a worker.
type ordered struct {
	transport.Worker
	poll  string
	order *[]string
}

func (w ordered) Poll(events []transport.Event) (int, error) {
	*w.order = append(*w.order, w.poll)
	return w.Worker.Poll(events)
}

func (w ordered) Post(ops []transport.Op) (int, error) {
	*w.order = append(*w.order, fmt.Sprintf("post %d", len(ops)))
	return w.Worker.Post(ops)
}

// TestResponsesToNoForward checks that a response without a forwarded call is an error. Otherwise a
// duplicate response would free its token twice, and two calls would share it.
func TestResponsesToNoForward(t *testing.T) {
	cfg := meshConfig(config.TopologyMeshProxied)
	d := cluster(t, transporttest.NewMemoryDriver(), cfg, config.IdleYield)[0].threads[0].daemon
	for _, token := range []transport.Token{0, 1 << 40} {
		event := transport.Event{Kind: transport.EventResponse, Token: token}
		require.ErrorIs(t, d.respond(&event), transport.ErrCorrupt)
	}
	require.Len(t, d.proxy.forwards.free, len(d.proxy.forwards.list))
}

func TestWiring(t *testing.T) {
	direct := wiring{cfg: meshConfig(config.TopologyMeshDirect), rank: 1}
	direct.cfg.Ranks, direct.cfg.Daemons, direct.cfg.Clients = 3, 2, 4
	require.Equal(t, 6, direct.workers())
	require.Equal(t, 12, direct.peers())
	peer, err := direct.peer(record.Thread{Rank: 1, Daemon: 0, Client: -1},
		record.Thread{Rank: 2, Daemon: -1, Client: 3})
	require.NoError(t, err)
	require.EqualValues(t, 11, peer)

	proxied := wiring{cfg: direct.cfg, rank: 1}
	proxied.cfg.Topology = config.TopologyMeshProxied
	require.Equal(t, 2, proxied.workers())
	require.Equal(t, 2, proxied.peers())
	for far, want := range map[int]transport.PeerID{0: 0, 2: 1} {
		peer, err := proxied.peer(record.Thread{Rank: 1, Daemon: 1, Client: -1},
			record.Thread{Rank: far, Daemon: 1, Client: -1})
		require.NoError(t, err)
		require.Equal(t, want, peer)
	}
	_, err = proxied.peer(record.Thread{Rank: 1, Daemon: 1, Client: -1},
		record.Thread{Rank: 0, Daemon: 0, Client: -1})
	require.ErrorContains(t, err, "have no connection")
}
