package result

import (
	"math"
	"slices"
	"testing"

	"transportbench/core/base/record"

	"github.com/stretchr/testify/require"
)

func timing(t *testing.T, values ...uint64) record.TimingReport {
	t.Helper()
	h := record.NewHistogram()
	sum := uint64(0)
	for _, v := range values {
		h.Record(v)
		sum += v
	}
	text := h.Encode()
	r := record.TimingReport{Histogram: text, Samples: uint64(len(values))}
	if len(values) > 0 {
		r.MeanNS = float64(sum) / float64(len(values))
	}
	return r
}

func remoteClient(t *testing.T, samples, ns int, stages ...uint64) record.ClientReport {
	remote := timing(t, slices.Repeat([]uint64{uint64(ns)}, samples)...)
	c := record.ClientReport{Remote: &remote, Stages: map[string]record.TimingReport{}}
	for i, ns := range stages {
		c.Stages[record.StageNames[i]] = timing(t, ns)
	}
	return c
}

func TestStages(t *testing.T) {
	repeats := []Repeat{
		{Ranks: []record.Report{{Clients: []record.ClientReport{
			remoteClient(t, 300, 1000, 100, 200, 300, 300),
			remoteClient(t, 50, 7777), // none was sampled
			{},                        // of another topology
		}}}},
		{Ranks: []record.Report{
			{Clients: []record.ClientReport{remoteClient(t, 100, 3000, 900, 800, 700, 600)}}}},
	}
	s, err := StagesOf(repeats)
	require.NoError(t, err)
	require.Equal(t, record.StageNames, s.Names)
	// The weight is the number of remote requests, although each client has one trace.
	require.InDelta(t, 0.75*1000+0.25*3000, s.Whole.Mean, 1e-9)
	require.InDelta(t, (0.75*900+0.25*3000)/s.Whole.Mean, s.Explained(), 1e-9)
	require.InDelta(t, 1000, s.Whole.P50, 1)
	first := s.Spreads[0]
	first.deviation = 0
	require.Equal(t, Spread{Mean: 300, P50: 100, P90: 900, P99: 900, Max: 900, Samples: 2}, first)
	// 300 of 1000 ns and 100 of 3000 ns have a standard deviation of 866 ns, and 2 of the 400 were
	// sampled.
	require.InEpsilon(t, 3*866.0*math.Sqrt(1.0/2-1.0/400)/1500, s.Noise, 1e-2)

	for _, none := range [][]Repeat{nil,
		{{Ranks: []record.Report{
			{Clients: []record.ClientReport{{}, remoteClient(t, 0, 0, 1, 2, 3, 4)}}}}}} {
		s, err := StagesOf(none)
		require.NoError(t, err)
		require.Nil(t, s)
	}
	repeats[1].Ranks[0].Clients[0].Stages[record.StageNames[2]] = record.TimingReport{
		Histogram: "rubbish"}
	_, err = StagesOf(repeats)
	require.ErrorContains(t, err, "decoding histogram")
}

func directClient(t *testing.T, ops, mean uint64, stages ...uint64) record.ClientReport {
	c := record.ClientReport{
		Reads: ops, InFlightNS: ops * mean, Latency: timing(t, mean, mean).Histogram,
		MeanNS: float64(mean), StageNS: 20,
		Remote: &record.TimingReport{}, Stages: map[string]record.TimingReport{},
	}
	for i, ns := range stages {
		c.Stages[record.DirectStages[i]] = timing(t, ns)
	}
	return c
}

func TestDirectStages(t *testing.T) {
	repeats := []Repeat{{Ranks: []record.Report{
		{Clients: []record.ClientReport{directClient(t, 300, 1000, 100, 200, 50, 50, 500, 50)}},
		{Clients: []record.ClientReport{directClient(t, 100, 3000, 300, 1000, 100, 100, 1300, 0)}},
	}}}
	s, err := StagesOf(repeats)
	require.NoError(t, err)
	require.True(t, s.Direct)
	require.Equal(t, record.DirectStages, s.Names)
	require.InDelta(t, 1500, s.Whole.Mean, 1e-9, "exact: each client by its operations")
	require.InDelta(t, 0.75*100+0.25*300, s.Spreads[0].Mean, 1e-9)
	require.InDelta(t, (0.75*950+0.25*2800)/1500, s.Explained(), 1e-9)
	require.InDelta(t, 20, s.Cost, 1e-9)
	require.Empty(t, s.Halves)
}

func TestExactMean(t *testing.T) {
	clients := []record.ClientReport{{ElapsedNS: 1000, Reads: 98, Drained: 4},
		{ElapsedNS: 1000, Reads: 98, Drained: 4}}
	require.InDelta(t, 40, ExactMean(clients, 4), 1e-9, "calls in flight at the end are half done")
	require.True(t, math.IsNaN(ExactMean(clients, 0)),
		"an open loop has no constant number in flight")
	clients[0].InFlightNS, clients[1].InFlightNS = 1000, 3000
	require.InDelta(t, 20, ExactMean(clients, 0), 1e-9)

	// The stages are compared with the same mean.
	c := directClient(t, 98, 1000, 100, 200, 50, 50, 500, 50)
	c.InFlightNS, c.Drained = 100_000, 4
	s, err := StagesOf([]Repeat{{Ranks: []record.Report{{Clients: []record.ClientReport{c}}}}})
	require.NoError(t, err)
	require.InDelta(t, 1000, s.Whole.Mean, 1e-9)
}

// TestSlowedStages has stamps that slow the sampled calls.
func TestSlowedStages(t *testing.T) {
	s, err := StagesOf(
		[]Repeat{
			{Ranks: []record.Report{
				{Clients: []record.ClientReport{directClient(t, 100, 1000, 200, 300, 100, 100, 500,
					50)}}}}})
	require.NoError(t, err)
	require.InDelta(t, 0.25, s.Slowed, 1e-9)
	require.InDelta(t, 300/1.25, s.Spreads[1].Mean, 1e-9)
	require.InDelta(t, 1, s.Explained(), 1e-9)
}

// TestHeldCalls has calls of 1 us and few of 400 us, which a stall or a late wake-up held up. The
// sample caught one of those, or none. The means of the stages are those of the other calls, and
// what the slow ones add is not unexplained, whether the threads recorded the stall or not.
func TestHeldCalls(t *testing.T) {
	const slow = 400_000
	for _, c := range []struct {
		name             string
		latency, caught  bool // the latencies, the stages have a slow call
		recorded         bool // a thread recorded the gap
		held, unresolved float64
	}{
		{"nothing was slow", false, false, false, 0, 50},
		{"seen in the latencies", true, false, false, 400, 50},
		{"caught", true, true, false, 400, 50},
		{"recorded, and in no sample", false, false, true, 400, 50},
		{"caught, and in no latency", false, true, false, 400, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			var repeats []Repeat
			for i := range 3 {
				client := directClient(t, 100_000, uint64(1000+c.held), 100, 200, 50, 50, 500, 50)
				client.Thread.GapLimitNS = 20_000
				latencies := slices.Repeat([]uint64{1000}, 999)
				if c.latency {
					latencies = append(latencies, slow)
				}
				latency := timing(t, latencies...)
				client.Latency, client.MeanNS = latency.Histogram, latency.MeanNS
				for name, stage := range client.Stages {
					client.Stages[name] = timing(t,
						slices.Repeat([]uint64{uint64(stage.MeanNS)}, 100)...)
				}
				if c.caught && i == 1 {
					client.Stages[record.StageResponse] = timing(t,
						append(slices.Repeat([]uint64{500}, 99), slow)...)
				}
				if c.recorded {
					client.Thread.Gaps = []record.Gap{{ForNS: slow}}
				}
				repeats = append(repeats,
					Repeat{Ranks: []record.Report{{Clients: []record.ClientReport{client}}}})
			}
			s, err := StagesOf(repeats)
			require.NoError(t, err)
			require.Zero(t, s.Slowed)
			require.InDelta(t, c.held, s.Held, 1)
			require.InDelta(t, c.unresolved, (1-s.Explained())*s.Ordinary(), 5)
			require.Less(t, s.Noise, 0.01, "of calls that are alike")
			for i, want := range []float64{100, 200, 50, 50, 500, 50} {
				require.InEpsilon(t, want, s.Spreads[i].Mean, 0.01, s.Names[i])
			}
		})
	}
}

// TestHalvedStages has a client on another host than its daemon.
func TestHalvedStages(t *testing.T) {
	far := directClient(t, 100, 5000)
	far.NoStages = "rank 0: it is on another host"
	repeats := []Repeat{{Ranks: []record.Report{
		{Clients: []record.ClientReport{far}},
		{Daemons: []record.DaemonReport{
			{Phases: map[string]record.TimingReport{record.PhaseTurnaround: timing(t, 1000)}}}},
	}}}
	s, err := StagesOf(repeats)
	require.NoError(t, err)
	require.Equal(t, far.NoStages, s.Halves)
	require.Equal(t, []float64{2000, 1000, 2000}, []float64{s.Spreads[0].Mean, s.Spreads[1].Mean,
		s.Spreads[2].Mean})
	require.InDelta(t, 1, s.Explained(), 1e-9)
	repeats[0].Ranks[1].Daemons = nil
	s, err = StagesOf(repeats)
	require.NoError(t, err)
	require.Nil(t, s)
}

func TestPhases(t *testing.T) {
	daemon := func(times ...uint64) record.DaemonReport {
		return record.DaemonReport{
			Phases: map[string]record.TimingReport{record.PhaseLoop: timing(t, times...)}}
	}
	repeats := []Repeat{
		{Ranks: []record.Report{
			{Rank: 0, Daemons: []record.DaemonReport{daemon(50), daemon(70)}},
			{Rank: 1},
			{Rank: 2, Daemons: []record.DaemonReport{daemon()}},
		}},
		{Ranks: []record.Report{{Rank: 0, Daemons: []record.DaemonReport{daemon(90), daemon(90)}}}},
	}
	phases, err := PhasesOf(repeats)
	require.NoError(t, err)
	require.Len(t, phases, 1)
	whole := phases[record.PhaseLoop]
	whole.deviation = 0
	require.Equal(t, Spread{Mean: 75, P50: 70, P90: 90, P99: 90, Max: 90, Samples: 4}, whole)
	repeats[0].Ranks[2].Daemons[0].Phases[record.PhaseLoop] = record.TimingReport{
		Histogram: "rubbish"}
	_, err = PhasesOf(repeats)
	require.ErrorContains(t, err, "decoding histogram")
}
