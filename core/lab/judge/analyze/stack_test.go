package analyze

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// layered is a set with a cell of each layer, in which every metric has eight equal values.
func layered() *set.Set {
	s := set.New()
	add := func(topology string, share config.Share, inFlight int, samples map[string]float64) {
		run := config.Default()
		run.Topology, run.InFlight, run.RemoteShare = topology, inFlight, share
		c := set.Cell{Status: set.Measured, Samples: map[string][]float64{}, Run: &run}
		for name, value := range samples {
			for range 8 {
				c.Samples[name] = append(c.Samples[name], value)
			}
		}
		s.Cells = append(s.Cells, c)
	}
	add(config.TopologyMeshProxied, 1, 1,
		map[string]float64{result.Bare: 310, result.LatencyP50: 900, result.LatencyMean: 1000,
			result.Stalled: 0.1})
	add(config.TopologyMeshProxied, 0, 1,
		map[string]float64{result.Bare: 310, result.LatencyP50: 490, result.LatencyMean: 500})
	add(config.TopologyClientServer, config.ByHash, 1, map[string]float64{
		result.CoreDistance: 100, result.Floor: 120, result.Bare: 300, result.LatencyP50: 400,
		result.LatencyMean: 420,
	})
	add(config.TopologyMeshDirect, 1, 1,
		map[string]float64{result.Bare: 305, result.LatencyP50: 600, result.LatencyMean: 630})
	add(config.TopologyClientServer, config.ByHash, 32, map[string]float64{result.RateFloor: 40,
		result.BareRate: 50, result.Throughput: 1e9 / 80})
	add(config.TopologyMeshDirect, 1, 32,
		map[string]float64{result.BareRate: 55, result.Throughput: 1e9 / 70})
	client := record.ClientReport{ElapsedNS: 100, Thread: record.ThreadReport{CPUNS: 40}}
	s.Cells[0].Results = []*result.Result{
		{Repeats: []result.Repeat{
			{Ranks: []record.Report{{Clients: []record.ClientReport{client}}}}}}}
	s.Cells = append(s.Cells, set.Cell{Status: set.Measured, Layer: "ring",
		Config:  map[string]string{"transport": "shm", set.MicroOption: "rings/call-1"},
		Samples: map[string][]float64{result.LatencyP50: {200, 200, 200, 200, 200, 200, 200, 200}}})
	for i := range s.Cells {
		s.Cells[i].Environment = -1
	}
	if err := s.Check(); err != nil { // it completes the cells
		panic(err)
	}
	return s
}

// A layer adds what it takes longer than the one before; the highest has all shares; the sums are
// of parts that were measured apart.
func TestStacks(t *testing.T) {
	list := StacksOf(layered())
	require.Len(t, list, 2)
	of := func(s *Stack) (names []string, adds, shares []float64) {
		for _, l := range s.Layers {
			names, adds, shares = append(names, l.Name), append(adds, l.Adds),
				append(shares, l.Share)
			if len(names) > 1 {
				require.NotNil(t, l.Low, l.Name)
				require.InDelta(t, l.Adds, *l.Low, 1e-6)
			}
		}
		return names, adds, shares
	}
	names, adds, shares := of(&list[0])
	require.Equal(t, []string{"cache-line bounce", "medium", "ring",
		"transport, without the runtime", "client-server", "mesh-direct", "mesh-proxied"}, names)
	require.InDeltaSlice(t, []float64{100, 20, 80, 100, 100, 200, 300}, adds, 1e-6)
	require.InDelta(t, 100.0/900, shares[0], 1e-9)
	require.InDelta(t, 300.0/900, shares[6], 1e-9)
	require.Equal(t, 2, list[0].Cell)
	require.Equal(t, []Sum{
		{Topology: "mesh-proxied", Mean: 1000,
			Parts: []SumPart{{"transport", 310}, {"request to the own daemon", 500},
				{"stopped threads", 100}}, Explained: 0.91, Waiting: 0.6},
	}, list[0].Sums)

	names, adds, _ = of(&list[1])
	require.Equal(t, []string{"medium", "transport, without the runtime", "client-server",
		"mesh-direct"}, names)
	require.InDeltaSlice(t, []float64{40, 10, 30, -10}, adds, 1e-6)
	require.Equal(t, 32, list[1].InFlight)
	require.Empty(t, list[1].Sums)

	b := list[1].Breakdown()
	require.InDelta(t, 70, b.Whole, 1e-6)
	require.Len(t, b.Parts, 3, "a layer that adds less than nothing is no part")
	require.Empty(t, StacksOf(set.New()))
	alone := layered()
	alone.Cells = alone.Cells[2:3]
	require.Empty(t, StacksOf(alone), "a sweep without meshes")
}
