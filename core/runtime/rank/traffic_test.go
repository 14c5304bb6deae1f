package rank

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
	"transportbench/core/runtime/daemon"
	"transportbench/core/transporttest/memory"
)

// TestTraffic runs each pattern of traffic on one thread, and checks whom the clients called, by
// their own counts and by those of the daemons.
func TestTraffic(t *testing.T) {
	for _, test := range []struct {
		name, topology string
		traffic        config.Traffic
		ranks          int
		shape          func(*config.Config)
	}{
		{"incast", config.TopologyClientServer, "incast:3", 4, nil},
		{"fan-out", config.TopologyClientServer, "fan-out", 4, nil},
		{"fan-out of several daemons and clients", config.TopologyClientServer, "fan-out", 3,
			func(c *config.Config) { c.Daemons, c.Clients = 2, 2 }},
		{"fan-out of echoes", config.TopologyClientServer, "fan-out", 4,
			func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceEcho, 1 }},
		{"fan-out without replay", config.TopologyClientServer, "fan-out", 4,
			func(c *config.Config) { c.Distribution = config.DistributionLatest }},
		{"all-to-all", config.TopologyMeshDirect, "all-to-all", 4, nil},
		{"all-to-all by proxies", config.TopologyMeshProxied, "all-to-all", 3, nil},
		{"hotspot", config.TopologyMeshDirect, "hotspot:0.6", 4, nil},
		{"hotspot by proxies", config.TopologyMeshProxied, "hotspot:0.6", 3, nil},
		{"matrix", config.TopologyMeshDirect, "matrix:0:1:2/1:0:0/3:1:0", 3, nil},
		{"matrix by proxies", config.TopologyMeshProxied, "matrix:0:1:2/1:0:0/3:1:0", 3, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Topology, cfg.Traffic, cfg.Ranks = test.topology, test.traffic, test.ranks
			if test.shape != nil {
				test.shape(&cfg)
			}
			require.NoError(t, cfg.Validate())
			ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
			for range 2 { // the second window begins where the first ended
				runOnOneThread(t, ranks, 20_000)
				checkTraffic(t, cfg, ranks)
			}
		})
	}
}

// TestPairAlone runs windows in which one pair of a matrix calls, between windows of all: replayed
// requests, and those that are drawn.
func TestPairAlone(t *testing.T) {
	for name, shape := range map[string]func(*config.Config){
		"replayed": func(*config.Config) {},
		"drawn":    func(c *config.Config) { c.Distribution = config.DistributionLatest },
		"by proxy": func(c *config.Config) { c.Topology = config.TopologyMeshProxied },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := matrixConfig(t, shape)
			ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
			for _, pair := range []*record.Pair{nil, {From: 0, To: 1}, {From: 2, To: 1},
				{From: 0, To: 2}, {From: 0, To: 2}, nil} {
				runPair(t, ranks, 2000, pair)
				for from, r := range ranks {
					for to, n := range callsOf(r) {
						called := cfg.Traffic.Matrix()[from][to] > 0
						if pair != nil {
							called = *pair == record.Pair{From: from, To: to}
						}
						require.Equal(t, called, n > 0, "%v: %d to %d", pair, from, to)
					}
				}
			}
		})
	}
}

// TestRateOfAPair: a pair that calls alone has its share of the rate, as with the others.
func TestRateOfAPair(t *testing.T) {
	cfg := matrixConfig(t, func(c *config.Config) { c.Rate = 40_000 })
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	for _, test := range []struct {
		pair *record.Pair
		from int
		rate float64
	}{
		{nil, 0, 20e3}, {&record.Pair{From: 0, To: 1}, 0, 5e3},
		{&record.Pair{From: 2, To: 1}, 2, 20e3}, {nil, 0, 20e3},
	} {
		first, others, err := runAll(t, ranks,
			record.Window{Duration: 100 * time.Millisecond, SampleEvery: 1, Pair: test.pair})
		require.NoError(t, err)
		c := append([]record.Report{first}, others...)[test.from].Clients[0]
		require.InEpsilon(t, test.rate, float64(c.Open.Scheduled)/(float64(c.ElapsedNS)/1e9), 0.2)
	}
}

// matrixConfig returns a configuration of three ranks, of which the second one only serves.
func matrixConfig(t *testing.T, shape func(*config.Config)) config.Config {
	cfg := testConfig()
	cfg.Topology, cfg.Traffic, cfg.Ranks = config.TopologyMeshDirect, "matrix:0:1:3/0:0:0/0:4:0", 3
	shape(&cfg)
	require.NoError(t, cfg.Validate())
	return cfg
}

// callsOf returns the calls of a rank's clients in the last window, by the rank that they called.
func callsOf(r *Rank) []uint64 {
	n := make([]uint64, r.plan.Config.Ranks)
	for _, thread := range r.threads {
		if thread.client != nil {
			for _, p := range thread.client.Report(record.ThreadReport{}).Peers {
				n[p.Rank] += p.Count
			}
		}
	}
	return n
}

// TestKindsOfCalls counts calls by their kind: those to several ranks of one kind are one count.
func TestKindsOfCalls(t *testing.T) {
	for _, topology := range []string{config.TopologyMeshDirect, config.TopologyMeshProxied} {
		cfg := testConfig()
		cfg.Topology, cfg.Ranks = topology, 4
		require.NoError(t, cfg.Validate())
		ranks := clusterWith(t, memory.NewDriver(), cfg, func(p *record.Plan) {
			p.Idle, p.Kinds = config.IdleYield,
				[]record.CallKind{record.CallWithin, record.CallWithin, record.CallBetween,
					record.CallBetween}
			p.Kinds[p.Rank] = record.CallOwn
		})
		_, err := ranks[0].Overhead(t.Context(), time.Millisecond)
		require.NoError(t, err)
		runOnOneThread(t, ranks, 20_000)
		served := map[int]uint64{} // by kind, of rank 0's clients
		for _, thread := range ranks[0].threads {
			if thread.client == nil {
				continue
			}
			c := thread.client.Report(record.ThreadReport{})
			require.Empty(t, c.Peers)
			require.Len(t, c.Kinds, int(record.CallKinds))
			var ops, samples uint64
			for kind, k := range c.Kinds {
				served[kind] += k.Count
				ops, samples = ops+k.Count, samples+k.Latency.Samples
			}
			require.Equal(t, c.Ops(), ops)
			require.Equal(t, c.Samples, samples)
			require.Equal(t, c.Local.Samples, c.Kinds[record.CallOwn].Latency.Samples)
		}
		// one rank of each, and two of the last
		for _, kind := range []record.CallKind{record.CallOwn, record.CallWithin} {
			require.InEpsilon(t, served[int(record.CallBetween)], 2*served[int(kind)], 0.2,
				topology)
		}
	}
}

// runOnOneThread runs a window in which every client completes that many operations.
func runOnOneThread(t *testing.T, ranks []*Rank, ops uint64) { runPair(t, ranks, ops, nil) }

// runPair is runOnOneThread for one pair of ranks, or all.
func runPair(t *testing.T, ranks []*Rank, ops uint64, pair *record.Pair) {
	var clients []*client.Client
	var daemons []*daemon.Daemon
	for _, r := range ranks {
		for _, thread := range r.threads {
			if thread.daemon != nil {
				thread.daemon.Begin()
				daemons = append(daemons, thread.daemon)
				continue
			}
			w := r.clientWindow(thread, 4, record.Window{Duration: time.Hour, Pair: pair})
			thread.client.Begin(w)
			if w.Silent {
				continue
			}
			require.NoError(t, thread.client.Load(1))
			clients = append(clients, thread.client)
		}
	}
	calling := slices.Clone(clients)
	for len(calling) > 0 {
		calling = slices.DeleteFunc(calling, func(c *client.Client) bool {
			done, err := iterate(c)
			require.NoError(t, err)
			return done >= ops
		})
		for _, d := range daemons {
			require.NoError(t, d.Step())
		}
	}
	require.NoError(t, drain(clients, daemons...))
}

func checkTraffic(t *testing.T, cfg config.Config, ranks []*Rank) {
	served := make([]uint64, cfg.Ranks)
	called := make([]uint64, cfg.Ranks)
	drained := uint64(0)
	for rank, r := range ranks {
		daemons, clients := 0, 0
		for _, thread := range r.threads {
			if d := thread.daemon; d != nil {
				daemons++
				if served[rank] += d.Requests(); cfg.Proxied() {
					served[rank] -= d.Report(record.ThreadReport{}).Proxy.Local
				}
				continue
			}
			clients++
			c := thread.client.Report(record.ThreadReport{})
			drained += c.Drained
			checkPeers(t, cfg, rank, &c)
			for _, p := range c.Peers {
				called[p.Rank] += p.Count
			}
		}
		require.Equal(t, cfg.Calls(rank), clients > 0, "rank %d", rank)
		require.Equal(t, cfg.Serves(rank), daemons > 0, "rank %d", rank)
	}
	for rank := range called {
		require.LessOrEqual(t, called[rank], served[rank])
		require.LessOrEqual(t, served[rank], called[rank]+drained,
			"the clients count whom they called")
		// each client may end its turns anywhere
		if cfg.Traffic == config.TrafficFanOut && cfg.Serves(rank) {
			require.InDelta(t, float64(served[0]), float64(served[rank]), float64(cfg.Clients),
				"served by rank %d", rank)
		}
	}
}

// checkPeers checks the counts of one client.
func checkPeers(t *testing.T, cfg config.Config, rank int, c *record.ClientReport) {
	require.Empty(t, c.Failures)
	require.Len(t, c.Peers, cfg.ServingRanks())
	var ops, samples, high uint64
	low := ^uint64(0)
	for i, p := range c.Peers {
		require.Equal(t, i, p.Rank)
		ops, samples = ops+p.Count, samples+p.Latency.Samples
		if cfg.Mesh() && p.Rank == rank {
			require.Zero(t, p.Count, "calls to the client's own rank")
			continue
		}
		low, high = min(low, p.Count), max(high, p.Count)
	}
	require.Equal(t, c.Ops(), ops)
	require.Equal(t, c.Samples, samples)
	if cfg.Turns() > 0 { // those in flight at the ends of the window may all have been to one rank
		require.LessOrEqual(t, high-low, uint64(cfg.InFlight+1))
		require.InDelta(t, float64(ops)/float64(cfg.Turns()), float64(c.Iterations.Samples),
			float64(2*cfg.InFlight))
	}
	if share := cfg.Traffic.Share(); share > 0 && rank != 0 {
		requests, _ := cfg.Requests()
		requireShare(t, share, c.Peers[0].Count, ops, requests)
	}
}

// requireShare checks a share of n draws, of which at most distinct are independent, against its
// binomial distribution.
func requireShare(t *testing.T, share float64, count, n uint64, distinct int) {
	t.Helper()
	deviation := math.Sqrt(share * (1 - share) / float64(min(n, uint64(distinct))))
	require.InDelta(t, share, float64(count)/float64(n), 5*deviation, "of %d", n)
}
