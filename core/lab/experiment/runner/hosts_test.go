package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/sample"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// onHosts puts the ranks of a request on hosts with two processors each. machines names each
// host's.
func onHosts(req Request, ranks []int, machines ...string) Request {
	for i, m := range machines {
		req.Hosts = append(req.Hosts, Host{
			Name: string(rune('a' + i)), Machine: m, CPUs: processors(2),
			State: func(_ context.Context, cpus []int) (machine.State, error) {
				return machine.State{Times: machine.CPUTimes{StealNS: uint64(len(cpus))},
					OOMKills: 1}, nil
			},
		})
	}
	req.RankHosts = ranks
	return req
}

// Ranks of different machines have processors of their own; those of containers on one machine
// share them.
func TestPlacementOnHosts(t *testing.T) {
	cfg := config.Default()
	cfg.Topology, cfg.Ranks = config.TopologyMeshDirect, 3
	for name, c := range map[string]struct {
		machines []string
		ranks    []int
		cpus     [][]int
		idle     []string
	}{
		"own machines": {[]string{"m0", "m1", "m2"}, []int{0, 1, 2},
			[][]int{{0, 1}, {0, 1}, {0, 1}}, []string{"spin", "spin", "spin"}},
		"two on one": {[]string{"m0", "m1", "m1"}, []int{0, 1, 2},
			[][]int{{0, 1}, {0, 0}, {1, 1}}, []string{"spin", "yield", "yield"}},
		"by map": {[]string{"m0", "m1"}, []int{1, 0, 1}, [][]int{{0, 0}, {0, 1}, {1, 1}},
			[]string{"yield", "spin", "yield"}},
	} {
		req := onHosts(Request{Config: cfg}, c.ranks, c.machines...)
		plans, busiest, err := placePools(cfg, transport.Capabilities{}, req.pools())
		require.NoError(t, err)
		for r, p := range plans {
			require.Equal(t, r, p.Rank, name)
			require.Equal(t, c.cpus[r], p.CPUs, name)
			require.Equal(t, c.idle[r], p.Idle, name)
		}
		require.Equal(t, name != "own machines", busiest.oversubscribed(), name)
	}
}

// The ranks of each host are placed by its own NUMA nodes and cores.
func TestPlacementByOwnNodes(t *testing.T) {
	read := func(files map[string]string) []machine.CPU {
		root := machine.Root(t.TempDir())
		for name, text := range files {
			path := root.Path("sys/devices/system", name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		}
		cpus, err := root.Topology()
		require.NoError(t, err)
		return cpus
	}
	cfg := config.Default()
	cfg.Topology, cfg.Ranks = config.TopologyMeshDirect, 2
	req := onHosts(Request{Config: cfg}, []int{0, 1}, "m0", "m1")
	req.Hosts[0].CPUs = read(map[string]string{ // 0 and 1 are one core
		"cpu/online": "0-3", "cpu/cpu0/topology/core_id": "0", "cpu/cpu1/topology/core_id": "0",
		"cpu/cpu2/topology/core_id": "1", "cpu/cpu3/topology/core_id": "1",
		"cpu/cpu0/node0/x": "", "cpu/cpu1/node0/x": "", "cpu/cpu2/node0/x": "",
		"cpu/cpu3/node0/x": "",
	})
	req.Hosts[1].CPUs = read(map[string]string{ // the first node has the last processors
		"cpu/online": "4-7", "cpu/cpu4/node1/x": "", "cpu/cpu5/node1/x": "", "cpu/cpu6/node0/x": "",
		"cpu/cpu7/node0/x": "",
	})
	plans, _, err := placePools(cfg, transport.Capabilities{}, req.pools())
	require.NoError(t, err)
	require.Equal(t, []int{0, 2}, plans[0].CPUs)
	require.Equal(t, []int{6, 7}, plans[1].CPUs)

	// The node of the network device comes first, unless the configuration says otherwise.
	req.Hosts[1].Device = &machine.NetworkDevice{Name: "eth0", Node: 1}
	for _, c := range []struct {
		set  func(*Request)
		cpus []int
		near *result.Device
	}{
		{func(*Request) {}, []int{4, 5}, &result.Device{Name: "eth0", Node: 1}},
		{func(r *Request) { r.Config.Clients = 3 }, []int{4, 5, 6, 7},
			&result.Device{Name: "eth0", Node: 1}},
		{func(r *Request) { r.Config.NUMA = "0" }, []int{6, 7}, nil},
		{func(r *Request) { require.NoError(t, r.Config.CPUs.Set("daemons=7,clients=6")) },
			[]int{7, 6}, nil},
		{func(r *Request) { r.Hosts[1].Device = &machine.NetworkDevice{Name: "eth1", Node: 2} },
			[]int{6, 7}, nil},
		{func(r *Request) { r.Hosts[1].Device = &machine.NetworkDevice{Name: "lo", Node: -1} },
			[]int{6, 7}, nil},
		{func(r *Request) { r.Capabilities.Goroutines = true }, []int{-1, -1}, nil},
	} {
		own := req
		own.Hosts, own.RankHosts, own.Config.Ranks = slices.Clone(req.Hosts), []int{1}, 1
		c.set(&own)
		plans, _, err := placePools(own.Config, own.Capabilities, own.pools())
		require.NoError(t, err)
		require.Equal(t, c.cpus, plans[0].CPUs)
		require.Equal(t, c.near, own.resultHosts()[0].Device)
	}
}

// Threads with the same processor number on different machines do not share it.
func TestPairsOnHosts(t *testing.T) {
	cfg := config.Default()
	cfg.Topology, cfg.Ranks = config.TopologyMeshDirect, 3
	req := onHosts(Request{Config: cfg}, []int{0, 1, 1}, "m0", "m1")
	plans, _, err := placePools(cfg, transport.Capabilities{}, req.pools())
	require.NoError(t, err)
	far, near := partition(callingPairs(&req, cfg, plans), req.crossing)
	require.Len(t, far, 4)
	require.Len(t, near, 2)
	for _, p := range near {
		require.NotEqual(t, p.server.Rank, p.caller.Rank)
		require.NotZero(t, p.server.Rank*p.caller.Rank)
	}
}

func TestRunOnHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		req := onHosts(request(c), []int{0, 1, 1}, "m0", "m1")
		req.Config.Ranks = 3
		req.Hosts[1].Options = map[string]string{"address": "10.0.0.2"}
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		requireValid(t, r)
		require.Len(t, r.Hosts, 2)
		require.Equal(t, []int{1, 2}, r.Hosts[1].Ranks)
		require.Equal(t, []string{"a", "b", "b"}, []string{r.Placement[0].Host, r.Placement[1].Host,
			r.Placement[2].Host})
		require.Equal(t, 3, r.Repeats[0].Machine.Processors,
			"processor 0 of one host, and 0 and 1 of the other")
	})
}

// A transport on a medium of one machine is refused between machines, in one line.
func TestCrossing(t *testing.T) {
	for medium, refused := range map[string]bool{
		transport.MediumMemory: true, transport.MediumUnix: true, transport.MediumTCP: false,
		"": false,
	} {
		for _, machines := range [][]string{{"m0", "m1"}, {"m0", "m0"}} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				c.prepared.Properties.Medium = medium
				req := onHosts(request(c), []int{0, 1}, machines...)
				req.Config.Ranks = 2
				_, err := Run(t.Context(), req, nil)
				c.requireAllKilled(t)
				if refused && machines[1] == "m1" {
					require.ErrorIs(t, err, transport.ErrUnavailable)
					require.ErrorContains(t, err,
						"does not cross machines, and the ranks are on a, b")
					require.NotContains(t, err.Error(), "\n")
					return
				}
				require.NoError(t, err)
			})
		}
	}
}

// The error of a rank names its host, and Explain completes it.
func TestFailureOnAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.fail = map[call]error{{1, opRun, 3}: errBroken}
		req := onHosts(request(c), []int{0, 1}, "m0", "m1")
		req.Config.Ranks = 2
		gone := errors.New("host b does not answer")
		req.Explain = func(err error) error { return errors.Join(err, gone) }
		r, err := Run(t.Context(), req, nil)
		require.ErrorIs(t, err, errBroken)
		require.ErrorIs(t, err, gone)
		require.ErrorContains(t, err, "rank 1 on b: run: ")
		require.Equal(t, "run", r.Failure.Operation)
		require.Contains(t, r.Failure.Error, "host b does not answer")
		c.requireAllKilled(t)
	})
}

// In a run of both kinds of pairs, the floor is that of the pairs between machines, and no cache
// line bounces between those.
func TestFloorsOfBothKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.others = map[transport.ProbeKind]transport.Floor{record.ProbeDistance: {RoundTrip: 60}}
		c.perPair = func(p record.Probe, f *transport.Floor) {
			if p.Near.Rank == 0 || p.Far.Rank == 0 {
				require.NotEqual(t, record.ProbeDistance, p.Kind)
				f.RoundTrip *= 100
			}
		}
		req := onHosts(request(c), []int{0, 1, 1}, "m0", "m1")
		req.Hosts[1].CPUs = processors(4)
		req.Config.Topology, req.Config.Ranks, req.Config.Repeats = config.TopologyMeshDirect, 3, 1
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		requireValid(t, r)
		before := r.Repeats[0].Before
		var far, near []result.PairReadings
		for _, p := range before.Pairs {
			if p.Crosses {
				far = append(far, p)
				require.Zero(t, p.CoreDistance)
			} else {
				near = append(near, p)
				require.NotZero(t, p.CoreDistance)
			}
		}
		require.Len(t, far, 4)
		require.Len(t, near, 2)
		require.Equal(t, far[0].Medium, before.Medium.RoundTrip)
		require.Equal(t, 100*near[0].Medium, before.Medium.RoundTrip)
		require.Equal(t, 60.0, before.CoreDistance)
		samples := r.Repeats[0].Samples
		require.Equal(t, near[0].Medium, samples[result.Floor+result.WithinMachine])
		require.Equal(t, 100*near[0].Medium, samples[result.Floor+result.BetweenMachines])
		require.NotContains(t, samples, result.FloorRatio, "of a latency over both kinds")
	})
}

// TestPlansTellThatRanksCross: a transport that chooses its provider needs to know.
func TestPlansTellThatRanksCross(t *testing.T) {
	for machine, crosses := range map[string]bool{"m0": false, "m1": true} {
		req := onHosts(Request{Config: config.Default()}, []int{0, 1}, "m0", machine)
		req.Hosts[1].Options = map[string]string{"address": "10.0.0.2"}
		plans := make([]record.Plan, req.Config.Ranks)
		req.setOptions(plans)
		require.Equal(t, []bool{crosses, crosses}, []bool{plans[0].Crosses, plans[1].Crosses})
		require.Equal(t, "10.0.0.2", plans[1].Config.Options["address"])
	}
}

// TestClientsCountByKind: only where nothing else tells the kinds of calls apart.
func TestClientsCountByKind(t *testing.T) {
	cfg := config.Default()
	cfg.Topology, cfg.Ranks = config.TopologyMeshDirect, 3
	kinds := func(hosts ...int) [][]record.CallKind {
		req := onHosts(Request{Config: cfg}, hosts, "m0", "m1")
		plans := make([]record.Plan, cfg.Ranks)
		req.setKinds(plans)
		var all [][]record.CallKind
		for _, p := range plans {
			all = append(all, p.Kinds)
		}
		return all
	}
	const own, within, between = record.CallOwn, record.CallWithin, record.CallBetween
	require.Equal(t, [][]record.CallKind{{own, between, between}, {between, own, within},
		{between, within, own}}, kinds(0, 1, 1))
	require.Equal(t, make([][]record.CallKind, 3), kinds(1, 1, 1), "all calls within a machine")
	cfg.Traffic = "all-to-all"
	require.Equal(t, make([][]record.CallKind, 3), kinds(0, 1, 1), "the clients count by rank")
	cfg.Traffic, cfg.Topology = "", config.TopologyClientServer
	require.Equal(t, make([][]record.CallKind, 3), kinds(0, 0, 1), "each client calls one rank")
}

// In a run of both kinds of pairs, each kind has its throughput and latencies. Calls to the own
// rank have no kind.
func TestMetricsOfKinds(t *testing.T) {
	client := func(counts ...uint64) []record.ClientReport {
		c := record.ClientReport{ElapsedNS: 1e9, Latency: histogram(t, 5)}
		for rank, n := range counts {
			c.Reads += n
			// of a pattern of traffic
			c.Peers = append(c.Peers, record.PeerReport{Rank: rank, Count: n,
				Latency: *timingOf(min(n, 1), 100*uint64(1+rank))})
		}
		return []record.ClientReport{c}
	}
	cfg := config.Default()
	cfg.Topology, cfg.Ranks = config.TopologyMeshDirect, 3
	req := onHosts(Request{Config: cfg}, []int{0, 1, 1}, "m0", "m1")
	repeat := result.Repeat{Ranks: []record.Report{
		{Rank: 0, Clients: client(1, 20, 0)}, {Rank: 1, Clients: client(30, 2, 40)},
		{Rank: 2, Clients: client(0, 50, 4)},
	}}
	repeat.Before.Pairs = []result.PairReadings{{Medium: 10}, {Medium: 80, Crosses: true},
		{Medium: 90, Crosses: true}, {Medium: 95, Crosses: true}}
	repeat.After.Pairs = repeat.Before.Pairs
	require.NoError(t, sample.Fill(cfg, &repeat))
	require.NoError(t, req.fillKinds(&repeat))
	for name, want := range map[string]float64{
		// of 20 and 30, of 40 and 50
		"throughput_within_machine": 90, "throughput_between_machines": 50,
		"latency_p50_within_machine": 200, "latency_p99_within_machine": 300,
		"latency_p50_between_machines": 100, "latency_p99_between_machines": 200,
		"floor_within_machine": 10, "floor_between_machines": 90, "floor_ratio_within_machine": 20,
	} {
		require.InEpsilon(t, want, repeat.Samples[name], 0.02, name)
	}

	// The clients count by kind, without a pattern of traffic.
	for i := range repeat.Ranks {
		c := &repeat.Ranks[i].Clients[0]
		c.Kinds = make([]record.OperationReport, record.CallKinds)
		for _, p := range c.Peers {
			k := &c.Kinds[req.kindOf(i, p.Rank)]
			k.Count += p.Count
			k.Latency = *timingOf(min(k.Count, 1), 500)
		}
		c.Peers = nil
	}
	require.NoError(t, sample.Fill(cfg, &repeat))
	require.NoError(t, req.fillKinds(&repeat))
	require.InDelta(t, 90, repeat.Samples["throughput_within_machine"], 1e-9)
	require.InDelta(t, 50, repeat.Samples["throughput_between_machines"], 1e-9)
	require.InEpsilon(t, 500, repeat.Samples["latency_p50_between_machines"], 0.02)

	// In client-server, each client calls one rank.
	cfg.Topology = config.TopologyClientServer
	req = onHosts(Request{Config: cfg}, []int{0, 0, 1}, "m0", "m1")
	repeat = result.Repeat{Ranks: []record.Report{{Rank: 0},
		{Rank: 1, Clients: []record.ClientReport{
			{ElapsedNS: 1e9, Reads: 70, Latency: histogram(t, 100)}}},
		{Rank: 2, Clients: []record.ClientReport{
			{ElapsedNS: 1e9, Reads: 7, Latency: histogram(t, 1000)}}},
	}}
	require.NoError(t, sample.Fill(cfg, &repeat))
	require.NoError(t, req.fillKinds(&repeat))
	require.InDelta(t, 70, repeat.Samples["throughput_within_machine"], 1e-9)
	require.InEpsilon(t, 1000, repeat.Samples["latency_p50_between_machines"], 0.02)
	require.NotContains(t, repeat.Samples, "floor_within_machine", "nothing was probed")
	req = onHosts(Request{Config: cfg}, []int{0, 1, 1}, "m0", "m1")
	require.False(t, req.bothKinds(), "all calls cross")
}
