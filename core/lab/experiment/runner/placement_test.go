package runner

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func TestPlace(t *testing.T) {
	smt := []machine.CPU{{ID: 0, Core: 0}, {ID: 1, Core: 0}, {ID: 2, Core: 1}, {ID: 3, Core: 1}}
	nodes := []machine.CPU{{ID: 0, Core: 0, Node: 1}, {ID: 1, Core: 1, Node: 0},
		{ID: 2, Core: 2, Node: 1}, {ID: 3, Core: 3, Node: 0}}
	packages := []machine.CPU{{ID: 0, Core: 0, Package: 1}, {ID: 1, Core: 0, Package: 0}}
	unknown := []machine.CPU{{ID: 4, Core: -1}, {ID: 6, Core: -1}}
	for _, c := range []struct {
		name                    string
		ranks, daemons, clients int
		cpus                    []machine.CPU
		pin                     bool
		idle                    string
		want                    [][]int
		wantIdle                string
		oversubscribed          bool
		topology                string // client-server where it is empty
	}{
		{"a processor each", 2, 1, 1, processors(2), true, "auto", [][]int{{0}, {1}}, "spin",
			false, ""},
		{"daemons first", 3, 2, 2, processors(6), true, "spin", [][]int{{0, 1}, {2, 3}, {4, 5}},
			"spin", false, ""},
		{"daemons apart", 2, 1, 4, processors(2), true, "auto", [][]int{{0}, {1, 1, 1, 1}}, "yield",
			true, ""},
		{"park as asked", 2, 1, 4, processors(2), true, "park", [][]int{{0}, {1, 0, 1, 0}}, "park",
			true, ""},
		{"yield as asked", 2, 1, 1, processors(2), true, "yield", [][]int{{0}, {1}}, "yield",
			false, ""},
		{"unpinned", 2, 1, 1, processors(2), false, "auto", [][]int{{-1}, {-1}}, "spin", false, ""},
		{"unpinned and too many", 2, 1, 2, processors(2), false, "auto", [][]int{{-1}, {-1, -1}},
			"yield", true, ""},
		{"cores before siblings", 2, 1, 2, smt, true, "auto", [][]int{{0}, {2, 1}}, "spin",
			false, ""},
		{"one node first", 2, 1, 2, nodes, true, "auto", [][]int{{1}, {3, 0}}, "spin", false, ""},
		{"same core number in two packages", 2, 1, 1, packages, true, "auto", [][]int{{1}, {0}},
			"spin", false, ""},
		// A rank's threads are neighbours. With too few processors, each rank keeps to its part,
		// if they divide evenly.
		{"mesh", 2, 1, 2, processors(6), true, "auto", [][]int{{0, 1, 2}, {3, 4, 5}}, "spin", false,
			config.TopologyMeshProxied},
		{"mesh of too few", 2, 1, 2, processors(2), true, "auto", [][]int{{0, 0, 0}, {1, 1, 1}},
			"yield", true, config.TopologyMeshDirect},
		{"daemons apart, two ranks", 3, 2, 3, processors(4), true, "auto",
			[][]int{{0, 1}, {2, 3, 2}, {3, 2, 3}}, "yield", true, ""},
		{"too many daemons", 2, 2, 2, processors(2), true, "auto", [][]int{{0, 1}, {0, 1}}, "yield",
			true, ""},
		{"mesh, parts of two", 2, 1, 2, processors(4), true, "auto", [][]int{{0, 1, 1}, {2, 3, 3}},
			"yield", true, config.TopologyMeshProxied},
		{"mesh, ranks that share", 4, 1, 1, processors(2), true, "auto",
			[][]int{{0, 0}, {0, 0}, {1, 1}, {1, 1}}, "yield", true, config.TopologyMeshProxied},
		{"mesh, uneven", 3, 1, 1, processors(4), true, "auto", [][]int{{0, 1}, {2, 3}, {0, 1}},
			"yield", true, config.TopologyMeshProxied},
		{"unknown cores", 2, 1, 1, unknown, true, "auto", [][]int{{4}, {6}}, "spin", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config.Default()
			cfg.Topology = cmp.Or(c.topology, cfg.Topology)
			cfg.Ranks, cfg.Daemons, cfg.Clients, cfg.Pin, cfg.Idle = c.ranks, c.daemons, c.clients,
				c.pin, c.idle
			plans, oversubscribed, err := place(cfg, transport.Capabilities{}, c.cpus)
			require.NoError(t, err)
			require.Equal(t, c.oversubscribed, oversubscribed)
			require.Len(t, plans, len(c.want))
			for r, p := range plans {
				require.Equal(t, r, p.Rank)
				require.Equal(t, c.want[r], p.CPUs)
				require.Equal(t, c.wantIdle, p.Idle)
				require.Equal(t, cfg, p.Config)
			}
		})
	}
}

// TestPlaceAsListed has the threads of each role on the processors of its list.
func TestPlaceAsListed(t *testing.T) {
	nodes := processors(8)
	for i := range nodes {
		nodes[i].Node = i / 4
	}
	for name, c := range map[string]struct {
		cpus           config.CPUs
		numa           config.NUMANode
		clients        int
		want           [][]int
		oversubscribed bool
	}{
		// does not ascend: Set rejects it
		"one each":      {"daemons=7,5,clients=1-4", "", 2, nil, false},
		"in turn":       {"daemons=5,7,clients=1-4", "", 2, [][]int{{5, 1, 2}, {7, 3, 4}}, false},
		"too few":       {"daemons=5,clients=1-3", "", 2, [][]int{{5, 1, 2}, {5, 3, 1}}, true},
		"too many":      {"daemons=0-3,clients=4-7", "", 1, [][]int{{0, 4}, {1, 5}}, false},
		"both roles":    {"daemons=0,1,clients=0-3", "", 1, [][]int{{0, 0}, {1, 1}}, true},
		"the far node":  {"", "1", 1, [][]int{{4, 5}, {6, 7}}, false},
		"a node shared": {"", "0", 3, [][]int{{0, 1, 1, 1}, {2, 3, 3, 3}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.Topology, cfg.Clients, cfg.CPUs, cfg.NUMA = config.TopologyMeshProxied, c.clients,
				c.cpus, c.numa
			if c.want == nil {
				require.Error(t, cfg.Validate())
				return
			}
			require.NoError(t, cfg.Validate())
			plans, oversubscribed, err := place(cfg, transport.Capabilities{}, nodes)
			require.NoError(t, err)
			for r, p := range plans {
				require.Equal(t, c.want[r], p.CPUs)
			}
			require.Equal(t, c.oversubscribed, oversubscribed)
			require.Equal(t, map[bool]string{false: config.IdleSpin,
				true: config.IdleYield}[oversubscribed], plans[0].Idle)
		})
	}
}

func TestPlaceRefusesProcessors(t *testing.T) {
	for want, c := range map[string]struct {
		cpus       config.CPUs
		numa       config.NUMANode
		goroutines bool
	}{
		"--cpus: the run may not use processor 4; it may use 0-3": {"daemons=0,clients=3-5",
			"", false},
		"--numa: node 1 has none of the processors that the run may use; use --numa any or " +
			"another node": {"", "1", false},
		"--cpus: the polling loops of transport shm are goroutines, which are not pinned; leave " +
			"it out": {"daemons=0,clients=1", "", true},
		"--numa: the polling loops of transport shm are goroutines, which are not pinned; leave " +
			"it out": {"", "0", true},
	} {
		cfg := config.Default()
		cfg.CPUs, cfg.NUMA = c.cpus, c.numa
		_, _, err := place(cfg, transport.Capabilities{Goroutines: c.goroutines}, processors(4))
		var configErr *config.Error
		require.ErrorAs(t, err, &configErr)
		require.EqualError(t, err, want)
	}
}

func TestPlaceRefusesToSpinOnSharedProcessors(t *testing.T) {
	cfg := config.Default()
	cfg.Clients, cfg.Idle = 16, config.IdleSpin
	for _, pin := range []bool{true, false} {
		cfg.Pin = pin
		_, _, err := place(cfg, transport.Capabilities{}, processors(2))
		var configErr *config.Error
		require.ErrorAs(t, err, &configErr)
		require.Equal(t, "idle", configErr.Option)
		require.EqualError(t, err, "--idle: spin needs a processor for each polling thread, but "+
			"17 threads have 2; use --idle auto, or fewer ranks, daemons or clients")
	}
}

func TestPlaceIsEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config.Default()
		cfg.Topology = rapid.SampledFrom([]string{
			config.TopologyClientServer, config.TopologyMeshDirect, config.TopologyMeshProxied,
		}).Draw(t, "topology")
		cfg.Ranks = rapid.IntRange(2, 6).Draw(t, "ranks")
		cfg.Daemons = rapid.IntRange(1, 5).Draw(t, "daemons")
		cfg.Clients = rapid.IntRange(1, 20).Draw(t, "clients")
		cfg.Idle = rapid.SampledFrom([]string{config.IdleAuto, config.IdlePark}).Draw(t, "idle")
		cpus := make([]machine.CPU, rapid.IntRange(1, 40).Draw(t, "cpus"))
		for i := range cpus {
			cpus[i] = machine.CPU{
				ID: i, Core: rapid.IntRange(-1, 8).Draw(t, "core"),
				Package: rapid.IntRange(0, 1).Draw(t, "package"),
				Node:    rapid.IntRange(-1, 1).Draw(t, "node"),
			}
		}
		plans, oversubscribed, err := place(cfg, transport.Capabilities{}, cpus)
		require.NoError(t, err)
		use := make([]int, len(cpus))
		for _, p := range plans {
			for _, cpu := range p.CPUs {
				use[cpu]++
			}
		}
		total, lowest, highest := 0, use[0], use[0]
		for _, n := range use {
			total, lowest, highest = total+n, min(lowest, n), max(highest, n)
		}
		require.Equal(t, cfg.ServingRanks()*cfg.Daemons+cfg.CallingRanks()*cfg.Clients, total)
		require.Equal(t, oversubscribed, total > len(cpus))
		daemons := cfg.ServingRanks() * cfg.Daemons
		switch {
		case !oversubscribed || cfg.Idle == config.IdlePark:
			require.LessOrEqual(t, highest-lowest, 1)
		case !cfg.Mesh() && daemons < len(cpus):
			var alone, others []int
			for _, cpu := range plans[0].CPUs {
				alone = append(alone, use[cpu])
				use[cpu] = 0
			}
			for _, n := range use {
				if n > 0 {
					others = append(others, n)
				}
			}
			require.Equal(t, 1, slices.Max(alone), "threads on a daemon's processor")
			require.LessOrEqual(t, slices.Max(others)-slices.Min(others), 1)
			require.Len(t, others, min(len(cpus)-daemons, total-daemons))
		}
	})
}

// TestPlaceGoroutines checks that loops which share processors with a transport's goroutines are
// not pinned, and park if they can.
func TestPlaceGoroutines(t *testing.T) {
	cfg := config.Default()
	for idle, want := range map[string]string{config.IdleAuto: config.IdlePark,
		config.IdleSpin: config.IdleSpin} {
		cfg.Idle = idle
		plans, _, err := place(cfg, transport.Capabilities{Goroutines: true}, processors(8))
		require.NoError(t, err)
		for _, p := range plans {
			require.Equal(t, want, p.Idle)
			for _, cpu := range p.CPUs {
				require.Equal(t, -1, cpu)
			}
		}
	}
	cfg.Topology, cfg.Ranks, cfg.Idle = config.TopologyMeshProxied, 2, config.IdleAuto
	plans, _, err := place(cfg, transport.Capabilities{Goroutines: true}, processors(1))
	require.NoError(t, err)
	require.Equal(t, config.IdleYield, plans[0].Idle, "links cannot park")
}

// place places the ranks of one host.
func place(cfg config.Config, capabilities transport.Capabilities, cpus []machine.CPU) (
	plans []record.Plan, oversubscribed bool, err error) {
	plans, busiest, err := placePools(cfg, capabilities,
		[]pool{{cpus: cpus, ranks: numbers(0, cfg.Ranks), near: -1}})
	return plans, busiest.oversubscribed(), err
}
