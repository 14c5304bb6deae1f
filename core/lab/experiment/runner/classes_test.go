package runner

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// TestClassesAlone checks that each repeat measures all classes together and then each alone.
func TestClassesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		req := request(c)
		cfg := &req.Config
		require.NoError(t, cfg.Classes.Set("rpc:32B;bulk:32B,clients=2"))
		cfg.Clients, cfg.Service, cfg.ReadRatio = 3, config.ServiceEcho, 1
		require.NoError(t, cfg.Validate())
		req.CPUs = processors(8)
		// class 1 is twice as fast alone, and class 2 three times
		c.alone = func(r *record.Report, class int) {
			for i := range r.Clients {
				client := &r.Clients[i]
				n := uint64(class + 1)
				client.Reads, client.Writes, client.PayloadBytes = n*client.Reads, n*client.Writes,
					n*client.PayloadBytes
				client.Latency = timingOf(100, 1000/n).Histogram
			}
		}
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		for rank := range cfg.Ranks {
			require.Equal(t, []int{0, 0, 1, 2, 1, 2, 0, 0, 1, 2}, c.only[rank],
				"the warm-up, and three repeats")
		}
		// Each fake client has 1 M op/s; two ranks call.
		for name, want := range map[string]float64{
			"rpc.throughput": 2e6, "bulk.throughput": 4e6, "rpc.alone.throughput": 4e6,
			"bulk.alone.throughput":   12e6,
			"rpc.slowdown.throughput": 2, "bulk.slowdown.throughput": 3,
			"rpc.slowdown.latency_p50": 2, "bulk.slowdown.latency_p99": 3,
		} {
			require.InEpsilon(t, want, r.Summary[name].Median, 0.01, name)
			require.Equal(t, 3, r.Summary[name].N)
		}
		require.InEpsilon(t, 6e6, r.Summary[result.Throughput].Median, 1e-6)
		require.NotContains(t, r.Summary, result.ClientFairness)
		requireValid(t, r)

		sound := c.alone
		c.alone = func(r *record.Report, class int) { // a wrong response in one window alone
			if sound(r, class); class == 2 && r.Rank == 1 {
				r.Clients[2].Failures = map[string]uint64{"wrong key": 1}
			}
		}
		r, err = Run(t.Context(), req, nil)
		require.NoError(t, err)
		require.True(t, r.Failed(), "the check verified fails")
	})
}

// TestPairsAlone checks that each repeat measures all pairs of a matrix together and then each
// alone, for as long together, and that a wrong response in any of the windows counts.
func TestPairsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		req := request(c)
		cfg := &req.Config
		cfg.Topology, cfg.Ranks, cfg.Repeats = config.TopologyMeshDirect, 3, 1
		require.NoError(t, cfg.Traffic.Set("matrix:0:1:0/0:0:0/1:3:0"))
		require.NoError(t, cfg.Validate())
		req.CPUs = processors(8)
		pairs := []record.Pair{{From: 0, To: 1}, {From: 2, To: 0}, {From: 2, To: 1}}
		var windows []record.Window
		for _, w := range alone(*cfg, 0) {
			require.Zero(t, w.Only)
			windows = append(windows, w)
		}
		require.Len(t, windows, len(pairs))
		for i, w := range windows {
			require.Equal(t, pairs[i], *w.Pair)
			require.Equal(t, time.Duration(cfg.Duration)/3, w.Duration)
		}
		require.InDelta(t, float64(cfg.Duration), float64(timeAlone(*cfg)), 3)

		c.pair = func(r *record.Report, pair record.Pair) {
			if r.Rank == pair.From && pair.To == 0 {
				r.Clients[0].Failures = map[string]uint64{"wrong key": 1}
			}
		}
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		require.True(t, r.Failed(), "the check verified fails")
		for i, p := range r.Repeats[0].PairsAlone {
			require.Equal(t, pairs[i], record.Pair{From: p.From, To: p.Rank})
		}
		require.Len(t, r.Repeats[0].PairsAlone, len(pairs))
		requireValid(t, r)
	})
}

// TestManyPairsAlone checks that pairs which do not fit a repeat take turns over the repeats.
func TestManyPairsAlone(t *testing.T) {
	const ranks = 64
	var rows []string
	for rank := range ranks {
		row := slices.Repeat([]string{"1"}, ranks)
		row[rank] = "0"
		rows = append(rows, strings.Join(row, ":"))
	}
	cfg := config.Default()
	cfg.Topology, cfg.Ranks = config.TopologyMeshDirect, ranks
	require.NoError(t, cfg.Traffic.Set("matrix:"+strings.Join(rows, "/")))
	cfg.Duration = config.Duration(time.Second)
	pairs := len(cfg.Traffic.Matrix().Pairs())
	each := int(time.Second / minPair)
	seen := map[record.Pair]int{}
	for i := range pairs {
		windows := alone(cfg, i)
		require.Len(t, windows, each)
		for _, w := range windows {
			require.GreaterOrEqual(t, w.Duration, minPair)
			seen[*w.Pair]++
		}
	}
	require.Equal(t, time.Second, timeAlone(cfg))
	require.Len(t, seen, pairs)
	for _, n := range seen {
		require.Equal(t, each, n)
	}
	cfg.Duration = config.Duration(time.Millisecond)
	require.Equal(t, time.Millisecond, timeAlone(cfg))
}

// TestRateOfAClass checks that an open class that falls behind fails the check of the rate.
func TestRateOfAClass(t *testing.T) {
	for done, ok := range map[uint64]bool{1000: true, 500: false} {
		var r result.Result
		require.NoError(t, r.Config.Classes.Set("rpc:64B,rate=1000;bulk:1KiB"))
		r.Repeats = []result.Repeat{{Ranks: []record.Report{{Clients: []record.ClientReport{
			{Reads: done, Open: &record.OpenReport{Scheduled: 1000}}, {Reads: 7},
		}}}}}
		f := findCheck(t, evidence{Result: &r}, "rate")
		require.Equal(t, ok, f.OK, f.Message)
	}
}
