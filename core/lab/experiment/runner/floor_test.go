package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

func TestCallingPairs(t *testing.T) {
	plans := func(cpus ...[]int) (p []record.Plan) {
		for r, c := range cpus {
			p = append(p, record.Plan{Rank: r, CPUs: c})
		}
		return p
	}
	client := func(r, i int) record.Thread { return record.Thread{Rank: r, Daemon: -1, Client: i} }
	daemon := func(r, i int) record.Thread { return record.Thread{Rank: r, Daemon: i, Client: -1} }
	type pairs = []callingPair
	for name, c := range map[string]struct {
		topology   string
		daemons    int
		plans      []record.Plan
		processors int
		want       pairs
	}{
		"own processors": {"client-server", 1, plans([]int{0}, []int{1}), 2,
			pairs{{daemon(0, 0), client(1, 0)}}},
		"the first client shares": {"client-server", 1, plans([]int{0}, []int{0, 1}), 2,
			pairs{{daemon(0, 0), client(1, 1)}}},
		"another rank's client": {"client-server", 1, plans([]int{0}, []int{0}, []int{0, 1}), 2,
			pairs{{daemon(0, 0), client(2, 1)}}},
		"only another daemon": {"client-server", 2, plans([]int{0, 1}, []int{0}), 2,
			pairs{{daemon(0, 1), client(1, 0)}}},
		"several": {"client-server", 2, plans([]int{0, 1}, []int{2}), 3,
			pairs{{daemon(0, 0), client(1, 0)}, {daemon(0, 1), client(1, 0)}}},
		"all share": {"client-server", 1, plans([]int{0}, []int{0, 0}), 2, nil},
		"not pinned": {"client-server", 1, plans([]int{-1}, []int{-1}), 2,
			pairs{{daemon(0, 0), client(1, 0)}}},
		"not pinned, one processor": {"client-server", 1, plans([]int{-1}, []int{-1}), 1, nil},
		// A rank's daemons come first. In mesh-direct, clients of other ranks call the daemon.
		"direct": {"mesh-direct", 1, plans([]int{0, 1}, []int{2, 3}), 4,
			pairs{{daemon(0, 0), client(1, 0)}, {daemon(1, 0), client(0, 0)}}},
		"direct, sharing": {"mesh-direct", 1, plans([]int{0, 1}, []int{1, 0}), 2, nil},
		// In mesh-proxied, daemons of the same index call each other.
		"proxied": {"mesh-proxied", 1, plans([]int{0, 1}, []int{2, 3}), 4,
			pairs{{daemon(0, 0), daemon(1, 0)}}},
		"proxied, second": {"mesh-proxied", 2, plans([]int{0, 1, 0}, []int{0, 0, 1}), 2,
			pairs{{daemon(0, 1), daemon(1, 1)}}},
		"proxied, sharing": {"mesh-proxied", 2, plans([]int{0, 1, 2}, []int{0, 1, 2}), 3, nil},
	} {
		cfg := config.Default()
		cfg.Topology, cfg.Ranks, cfg.Daemons = c.topology, len(c.plans), c.daemons
		req := &Request{Config: cfg, CPUs: processors(c.processors)}
		require.Equal(t, c.want, pairs(callingPairs(req, cfg, c.plans)), name)
	}
}

// TestPairsOfAMatrix: ranks that do not call each other are not connected.
func TestPairsOfAMatrix(t *testing.T) {
	cfg := config.Default()
	cfg.Topology, cfg.Ranks, cfg.Traffic = config.TopologyMeshDirect, 2, "matrix:0:1/0:0"
	plans := []record.Plan{{CPUs: []int{0, 1}}, {CPUs: []int{2, 3}}}
	require.Equal(t, []callingPair{{record.Thread{Rank: 1, Client: -1},
		record.Thread{Rank: 0, Daemon: -1}}},
		callingPairs(&Request{Config: cfg, CPUs: processors(4)}, cfg, plans))
}

// TestSampleOf: a sample includes the first and reaches towards the last.
func TestSampleOf(t *testing.T) {
	require.Equal(t, []int{1, 2, 3}, sampleOf([]int{1, 2, 3}, 4))
	require.Equal(t, []int{0, 2, 5, 7}, sampleOf([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 4))
}

// TestReadings: each kind is probed between every calling pair, and the median is the reading.
func TestReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.others[transport.ProbeLibrary] = transport.Floor{Name: "library", RoundTrip: 700,
			Samples: 1}
		asked := map[transport.ProbeKind]transport.Probe{}
		var order []transport.ProbeKind
		distances := 0
		c.perPair = func(p record.Probe, floor *transport.Floor) {
			floor.RoundTrip += float64(p.Near.Client)
			asked[p.Kind] = p.Probe
			if p.Near.Client == 0 {
				order = append(order, p.Kind)
				if p.Kind == record.ProbeDistance {
					distances++
				}
			}
			if p.Kind == record.ProbeDistance {
				floor.RoundTrip += float64(distances)
			}
		}
		req := request(c)
		req.Config.Ranks, req.Config.Clients, req.Config.InFlight, req.Config.ReadRatio,
			req.Config.Repeats = 2, 3, 5, 1, 1
		req.CPUs = processors(8)
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		require.Equal(t, []transport.ProbeKind{
			record.ProbeDistance, transport.ProbeLibrary, record.ProbeDistance, transport.ProbeRate,
			record.ProbeDistance, transport.ProbeMedium, record.ProbeDistance, // the window
			record.ProbeDistance, transport.ProbeMedium, record.ProbeDistance, transport.ProbeRate,
			record.ProbeDistance, transport.ProbeLibrary, record.ProbeDistance,
		}, order)
		require.Equal(t, []float64{52, 53, 54, 55}, r.Repeats[0].Before.CoreDistances)
		require.Equal(t, []float64{56, 57, 58, 59}, r.Repeats[0].After.CoreDistances)
		for next, side := range map[float64]result.Readings{55: r.Repeats[0].Before,
			56: r.Repeats[0].After} {
			require.Empty(t, side.Note)
			require.Equal(t, next, side.CoreDistance)
			require.Equal(t, transport.Floor{Name: "bounce", RoundTrip: 501, Samples: 30},
				*side.Medium)
			require.Equal(t, transport.Floor{Name: "stream", PerOp: 400, Samples: 30}, *side.Rate)
			require.Equal(t, transport.Floor{Name: "library", RoundTrip: 701, Samples: 3},
				*side.Library)
			require.Len(t, side.Pairs, 3)
			require.Equal(t, result.PairReadings{
				Caller:       record.Thread{Rank: 1, Daemon: -1, Client: 2},
				Daemon:       record.Thread{Client: -1},
				CoreDistance: next + 1, Medium: 502, Rate: 400, Library: 702,
			}, side.Pairs[2])
		}
		for kind, p := range asked {
			duration := floorTime / 3
			if kind == record.ProbeDistance {
				duration = distanceTime / 3
			}
			require.Equal(t, transport.Probe{Kind: kind, Initiate: true, Duration: duration,
				Forth: 16, Back: 48, InFlight: 15}, p, "the calls of three clients")
		}
		require.Len(t, asked, 1+len(floorKinds))
	})
}

// TestReadingsBesideShortWindows: probes beside short windows are short.
func TestReadingsBesideShortWindows(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{
		time.Second: floorTime, 20 * time.Millisecond: floorTime, 10 * time.Millisecond: floorTime /
			2, 2 * time.Millisecond: floorTime / 4,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			c.perPair = func(p record.Probe, _ *transport.Floor) {
				if p.Kind == transport.ProbeMedium {
					require.Equal(t, want, p.Duration, window)
				}
			}
			req := request(c)
			req.Config.Ranks, req.Config.Duration = 2, config.Duration(window)
			_, err := Run(t.Context(), req, nil)
			require.NoError(t, err)
		})
	}
}

// TestStateOnly: of what is measured beside a window, only the distances are left, and no check
// misses the rest.
func TestStateOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		probed := map[transport.ProbeKind]bool{}
		c.perPair = func(p record.Probe, _ *transport.Floor) { probed[p.Kind] = true }
		req := request(c)
		req.StateOnly = true
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		require.Equal(t, map[transport.ProbeKind]bool{record.ProbeDistance: true}, probed)
		require.NotContains(t, c.calls(0), opOverhead)
		for _, repeat := range r.Repeats {
			require.Nil(t, repeat.Overhead)
			require.Nil(t, repeat.Before.Medium)
			require.Len(t, repeat.Before.CoreDistances, 1)
			require.Positive(t, repeat.Before.CoreDistance)
			require.Positive(t, repeat.After.CoreDistance)
			require.Positive(t, repeat.Samples[result.Throughput])
		}
		for _, check := range r.Checks {
			require.True(t, check.OK || check.Severity == result.Info, "%s: %s", check.Name,
				check.Message)
		}
	})
}
