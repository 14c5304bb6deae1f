package result

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/transport"
)

func TestRankLoops(t *testing.T) {
	var sizes transport.BatchSizes
	for _, n := range []uint32{1, 1, 1, 3, 7} {
		sizes.Add(n)
	}
	daemon := record.DaemonReport{
		ElapsedNS: 1e9, Loops: 1000, EmptyLoops: 750, Requests: 200, Flushes: 100,
		Proxy: &record.ProxyReport{FromClients: 150, Local: 100, Remote: 50, Responses: 50,
			Incoming: 100},
		Delegation: &record.DelegationReport{Sent: 40, Served: 40},
		Phases: map[string]record.TimingReport{record.PhaseLoop: timing(t, 50, 51, 100, 600,
			20_000), "poll": timing(t, 10, 20, 30)},
		Transport: append(sizes.Append(nil), transport.Stat{Name: "batches", Value: 5},
			transport.Stat{Name: "messages", Value: 13},
			transport.Stat{Name: "credit_only", Value: 2},
			transport.Stat{Name: "doorbells", Value: 6}),
		Storage: &record.StorageReport{Lanes: 3, Reads: 4, BusyNS: 100, WaitNS: 10, MaxQueued: 7},
	}
	repeats := []Repeat{
		{Index: 1, Ranks: []record.Report{{Rank: 1, Daemons: []record.DaemonReport{daemon, daemon}},
			{Rank: 0}}},
		{Index: 2, Ranks: []record.Report{
			{Rank: 1, Daemons: []record.DaemonReport{daemon, daemon}}}},
	}
	list, err := RankLoopsOf(repeats)
	require.NoError(t, err)
	require.Len(t, list, 1, "a rank without daemons has no loop")
	l := list[0]
	require.Equal(t, 1, l.Rank)
	require.Equal(t, 2, l.Daemons)
	require.Equal(t, 2, l.Windows)
	require.EqualValues(t, 4000, l.Loops)
	require.InDelta(t, 1000, l.PerSecond, 1e-9)
	require.InDelta(t, 0.15, l.PerLoop[EventFromClients], 1e-9)
	require.InDelta(t, 0.04, l.PerLoop[EventDelegated], 1e-9)
	require.InDelta(t, 4, l.LoopsPerRequest, 1e-9, "served and forwarded")
	for name := range l.PerLoop {
		require.Contains(t, LoopEvents(), name)
	}
	require.EqualValues(t, 12, l.Phases["poll"].Samples)
	require.InDelta(t, 20, l.Phases["poll"].P50, 0.1)
	require.Equal(t, []TimeBucket{{50, 4}, {100, 8}, {200, 0}, {500, 0}, {1000, 4}, {2000, 0},
		{5000, 0}, {10_000, 0}, {0, 4}}, l.Times)
	require.Len(t, l.Writes, 2, "one for each window")
	for i, w := range l.Writes {
		require.Equal(t, i+1, w.Window)
		require.EqualValues(t, []uint64{10, 26, 12, 4}, []uint64{w.Batches, w.Messages, w.Doorbells,
			w.CreditOnly})
		require.Equal(t, []int{1, 4, 8}, []int{w.Quantile(0.5), w.Quantile(0.8), w.Quantile(0.99)})
	}
	require.Equal(t, &record.StorageReport{Lanes: 3, Reads: 16, BusyNS: 400, WaitNS: 40,
		MaxQueued: 7}, l.Storage)
	require.Zero(t, (&WindowWrites{}).Quantile(0.5))
}
