package result_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

func TestJain(t *testing.T) {
	for _, test := range []struct {
		rates []float64
		want  float64
	}{
		{[]float64{5, 5, 5, 5}, 1},
		{[]float64{1, 0, 0, 0}, 0.25},
		{[]float64{1, 2, 3}, 36.0 / 42},
		{[]float64{100, 300}, 0.8},
	} {
		index, ok := result.Jain(test.rates)
		require.True(t, ok)
		require.InDelta(t, test.want, index, 1e-12, "%v", test.rates)
	}
	for _, rates := range [][]float64{nil, {7}, {0, 0}} {
		_, ok := result.Jain(rates)
		require.False(t, ok, "%v", rates)
	}
}

func TestFlows(t *testing.T) {
	timing := func(ns ...uint64) record.TimingReport {
		h := record.NewHistogram()
		sum := uint64(0)
		for _, n := range ns {
			h.Record(n)
			sum += n
		}
		return record.TimingReport{Histogram: h.Encode(), Samples: uint64(len(ns)),
			MeanNS: float64(sum) / float64(max(len(ns), 1))}
	}
	client := func(peers ...record.PeerReport) record.ClientReport {
		return record.ClientReport{ElapsedNS: 1e9, Peers: peers}
	}
	repeats := []result.Repeat{{Ranks: []record.Report{
		{Rank: 1, Clients: []record.ClientReport{
			client(record.PeerReport{Rank: 0, Count: 30, Latency: timing(100, 100)},
				record.PeerReport{Rank: 1, Latency: timing()}),
			client(record.PeerReport{Rank: 0, Count: 50, Latency: timing(100)},
				record.PeerReport{Rank: 1, Latency: timing()}),
		}},
		{Rank: 0, Clients: []record.ClientReport{
			client(record.PeerReport{Rank: 0, Latency: timing()},
				record.PeerReport{Rank: 1, Count: 10, Latency: timing(300)}),
		}},
	}}}
	flows, err := result.FlowsOf(repeats)
	require.NoError(t, err)
	require.Len(t, flows, 2, "a rank that was not called is no flow")
	require.Equal(t, []int{0, 1, 1, 0}, []int{flows[0].From, flows[0].To, flows[1].From,
		flows[1].To})
	require.InDelta(t, 10, flows[0].PerSecond, 1e-9)
	require.InDelta(t, 80, flows[1].PerSecond, 1e-9)
	require.EqualValues(t, 3, flows[1].Latency.Samples)
	ratio, ok := result.Straggler(flows)
	require.True(t, ok)
	require.InDelta(t, 1.5, ratio, 0.01, "300 over the median of 100 and 300")
	_, ok = result.Straggler(flows[:1])
	require.False(t, ok)
	require.Zero(t, flows[1].Alone)

	repeats[0].PairsAlone = []result.PairAlone{{From: 1, ElapsedNS: 1e9,
		PeerReport: record.PeerReport{Rank: 0, Count: 9, Latency: timing(50, 50)}}}
	flows, err = result.FlowsOf(repeats)
	require.NoError(t, err)
	require.Zero(t, flows[0].Slowdown)
	require.EqualValues(t, 2, flows[1].Alone.Samples)
	require.InDelta(t, 2, flows[1].Slowdown, 0.01)
}
