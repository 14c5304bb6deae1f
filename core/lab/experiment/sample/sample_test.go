package sample

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// histogram encodes the values.
func histogram(t *testing.T, values ...uint64) string {
	t.Helper()
	h := record.NewHistogram()
	for _, v := range values {
		h.Record(v)
	}
	text := h.Encode()
	return text
}

func TestFillSamples(t *testing.T) {
	repeat := result.Repeat{
		Ranks: []record.Report{
			{Daemons: []record.DaemonReport{
				{Requests: 700, Thread: record.ThreadReport{CPUNS: 5000}}}},
			{Clients: []record.ClientReport{
				{
					ElapsedNS: 2000, Reads: 100, Writes: 100, PayloadBytes: 6400,
					Latency: histogram(t, 100, 100, 100, 900), ReadLatency: histogram(t, 100, 100),
					Thread: record.ThreadReport{CPUNS: 1000},
				},
				{
					ElapsedNS: 1000, Reads: 300, Writes: 100, PayloadBytes: 12800,
					Latency:     histogram(t, 200, 200, 200, 200, 200, 200),
					ReadLatency: histogram(t, 200),
					Thread:      record.ThreadReport{CPUNS: 2000},
				},
			}},
			{Clients: []record.ClientReport{{ElapsedNS: 1000, Writes: 100, PayloadBytes: 3200,
				Thread: record.ThreadReport{CPUNS: 1000}}}},
		},
		Before: result.Readings{Medium: &transport.Floor{RoundTrip: 100}},
		After:  result.Readings{Medium: &transport.Floor{RoundTrip: 400}},
	}
	require.NoError(t, Fill(config.Default(), &repeat))
	require.InDeltaMapValues(t, map[string]float64{
		// Rates use each client's own time: 1e8 + 4e8 + 1e8.
		result.Throughput:     6e8,
		result.Goodput:        3.2e9 + 12.8e9 + 3.2e9,
		result.CPUPerOp:       9000.0 / 700,
		result.LatencyMean:    4000.0 / 700,
		result.ClientFairness: 1, // 1e8 of 1e8: the median is not the mean
		// Merged, not averaged: 10 samples are 3 of 100, 6 of 200 and 900, each somewhere within
		// its nanosecond.
		result.LatencyP50:  200 + 2.0/6,
		result.LatencyP90:  201,
		result.LatencyP99:  900,
		result.LatencyP999: 900,
		result.LatencyMax:  900,
		result.Floor:       200, // geometric
		result.FloorRatio:  (200 + 2.0/6) / 200,
	}, repeat.Samples, 1e-3)

	for _, c := range []struct {
		encoded string
		count   uint64
	}{{repeat.Latency, 10}, {repeat.ReadLatency, 3}, {repeat.WriteLatency, 0}} {
		merged, err := result.Histograms(c.encoded)
		require.NoError(t, err)
		require.Equal(t, c.count, merged.Count())
	}
}

// TestStalledShare has gaps whose times are recorded, and others. Time in which both threads
// stopped counts once.
func TestStalledShare(t *testing.T) {
	thread := func(gaps uint64, list ...record.Gap) record.ThreadReport {
		return record.ThreadReport{GapLimitNS: 20_000, GapNS: gaps, Gaps: list}
	}
	for name, c := range map[string]struct {
		client, daemon record.ThreadReport
		want           float64
	}{
		"one stops":           {thread(50_000), thread(0), 0.05},
		"both, times unknown": {thread(50_000), thread(30_000), 0.05},
		"at the same time": {thread(50_000, record.Gap{AtNS: 100, ForNS: 50_000}),
			thread(50_000, record.Gap{AtNS: 100, ForNS: 50_000}), 0.05},
		"partly": {thread(50_000, record.Gap{AtNS: 100_000, ForNS: 50_000}),
			thread(50_000, record.Gap{AtNS: 80_000, ForNS: 50_000}), 0.07},
		"one after the other": {thread(50_000, record.Gap{AtNS: 100_000, ForNS: 50_000}),
			thread(50_000, record.Gap{AtNS: 200_000, ForNS: 50_000}), 0.1},
		"some known": {thread(70_000, record.Gap{AtNS: 100_000, ForNS: 50_000}),
			thread(80_000, record.Gap{AtNS: 200_000, ForNS: 50_000}), 0.13},
	} {
		share, known := stalledShare([]record.ClientReport{{ElapsedNS: 1e6, Thread: c.client}},
			[]record.DaemonReport{{ElapsedNS: 1e6, Thread: c.daemon}})
		require.True(t, known, name)
		require.InDelta(t, c.want, share, 1e-9, name)
	}
	clients := []record.ClientReport{{ElapsedNS: 1e6, Thread: thread(10_000)},
		{ElapsedNS: 1e6, Thread: thread(90_000)}}
	daemons := []record.DaemonReport{{ElapsedNS: 1e6, Thread: thread(50_000)}}
	share, known := stalledShare(clients, daemons)
	require.True(t, known)
	require.InDelta(t, 0.07, share, 1e-9, "the mean over the pairs")
	daemons[0].Thread.GapLimitNS = 90_000
	require.InDelta(t, 90_000, gapLimit(clients, daemons), 0)
	daemons[0].Thread.GapLimitNS = 0
	_, known = stalledShare(clients, daemons)
	require.False(t, known)
	_, known = stalledShare(nil, nil)
	require.False(t, known)
}

func TestSamplesOfMeshAndOpenLoop(t *testing.T) {
	client := func(local, remote *record.TimingReport, due,
		response, lag uint64) record.ClientReport {
		return record.ClientReport{
			ElapsedNS: 1e9, Reads: due, Local: local, Remote: remote,
			Open: &record.OpenReport{Scheduled: due, Response: *timingOf(due, response),
				Lag: *timingOf(due, lag)},
		}
	}
	repeat := result.Repeat{Ranks: []record.Report{
		{
			Clients: []record.ClientReport{client(timingOf(30, 100), timingOf(0, 0), 99, 1000, 10)},
			Daemons: []record.DaemonReport{{Loops: 100, EmptyLoops: 20}},
		},
		{
			Clients: []record.ClientReport{client(timingOf(10, 200), timingOf(5, 900), 101,
				1500, 20)},
			Daemons: []record.DaemonReport{{Loops: 300, EmptyLoops: 60}},
		},
	}}
	require.NoError(t, Fill(config.Default(), &repeat))
	for name, want := range map[string]float64{
		result.LocalMean:  125, // by sample and not by client
		result.RemoteMean: 900, result.EmptyLoops: 0.2, result.OfferedLoad: 200,
		result.ResponseP50: 1500, result.ResponseMax: 1500, result.ScheduleLagP99: 20,
	} {
		require.InEpsilon(t, want, repeat.Samples[name], 1e-3, name)
	}
	for _, encoded := range []string{repeat.Response, repeat.Lag} {
		merged, err := result.Histograms(encoded)
		require.NoError(t, err)
		require.EqualValues(t, 200, merged.Count())
	}
	repeat.Ranks[1].Clients[0].Open.Lag.Histogram = "rubbish"
	require.ErrorContains(t, Fill(config.Default(), &repeat), "decoding histogram")
}

func TestSamplesThatCannotBeTold(t *testing.T) {
	repeat := result.Repeat{
		Ranks:  []record.Report{{Clients: []record.ClientReport{{}}}},
		Before: result.Readings{Medium: &transport.Floor{RoundTrip: 100}},
		After:  result.Readings{Medium: &transport.Floor{RoundTrip: 100}},
	}
	require.NoError(t, Fill(config.Default(), &repeat))
	require.Equal(t, map[string]float64{
		result.Throughput: 0, result.Goodput: 0, result.ClientFairness: 0, result.Floor: 100,
	}, repeat.Samples)
}

func TestFairness(t *testing.T) {
	client := func(ops uint64) record.ClientReport {
		return record.ClientReport{Reads: ops,
			ElapsedNS: 1000}
	}
	for _, c := range []struct {
		want    float64
		clients []record.ClientReport
	}{
		{0, nil},
		{1, []record.ClientReport{client(7)}},
		{0.5, []record.ClientReport{client(10), client(5), client(20)}},
		{5.0 / 15, []record.ClientReport{client(20), client(5), client(10), client(90)}},
		{0, []record.ClientReport{client(0), client(0), client(9)}},
	} {
		require.InDelta(t, c.want, fairness(c.clients), 1e-12)
	}
}

// readings has a distance, the floors of the medium and its rate, and a round trip of the library.
func readings(distance, medium, rate, library float64) result.Readings {
	return result.Readings{
		CoreDistance: distance, Medium: &transport.Floor{RoundTrip: medium},
		Rate: &transport.Floor{PerOp: rate}, Library: &transport.Floor{RoundTrip: library},
	}
}

func TestRatiosToReadings(t *testing.T) {
	cfg := config.Default()
	client := record.ClientReport{ElapsedNS: 1e6, Reads: 10_000,
		Latency: timingOf(100, 400).Histogram}
	repeat := result.Repeat{
		Ranks:  []record.Report{{}, {Clients: []record.ClientReport{client, client}}},
		Before: readings(50, 100, 20, 250), After: readings(72, 100, 20, 250),
	}
	cfg.Clients, cfg.Daemons = 2, 2
	for inFlight, ratios := range map[int]map[string]float64{
		1: {result.FloorRatio: 4, result.LibraryRatio: 1.6},
		8: {result.OpTimeRatio: 5}, // two pairs, each 100 ns an operation
	} {
		cfg.InFlight = inFlight
		require.NoError(t, Fill(cfg, &repeat))
		require.InDelta(t, 60, repeat.Samples[result.CoreDistance], 1e-9)
		for name, want := range map[string]float64{result.Floor: 100, result.Library: 250,
			result.RateFloor: 10} {
			require.InEpsilon(t, want, repeat.Samples[name], 0.01, name)
		}
		for _, name := range []string{result.FloorRatio, result.LibraryRatio, result.OpTimeRatio} {
			got, has := repeat.Samples[name]
			want, applies := ratios[name]
			require.Equal(t, applies, has, "%s with %d in flight", name, inFlight)
			require.InDelta(t, want, got, 0.01*want, name)
		}
	}
	cfg.Daemons = 1 // both clients share it, and the probe has the calls of both in flight
	for _, inFlight := range []int{1, 8} {
		cfg.InFlight = inFlight
		require.NoError(t, Fill(cfg, &repeat))
		require.InEpsilon(t, 2.5, repeat.Samples[result.OpTimeRatio], 0.01)
		require.NotContains(t, repeat.Samples, result.FloorRatio,
			"its latency has the wait for the other client")
	}
	repeat.After = result.Readings{}
	require.NoError(t, Fill(cfg, &repeat))
	for _, name := range []string{result.CoreDistance, result.Floor, result.FloorRatio,
		result.Library, result.RateFloor, result.OpTimeRatio} {
		require.NotContains(t, repeat.Samples, name, "one side is missing")
	}
}

// A disturbed probe does not raise a floor, unless the machine's state may have changed.
func TestDisturbedProbe(t *testing.T) {
	cfg := config.Default()
	repeat := result.Repeat{
		Ranks: []record.Report{
			{Clients: []record.ClientReport{
				{ElapsedNS: 1e6, Reads: 200, Latency: timingOf(100, 9000).Histogram}}}},
		Before: readings(51, 5879, 19869, 20000), After: readings(50, 6620, 6404, 8000),
	}
	require.NoError(t, Fill(cfg, &repeat))
	require.InEpsilon(t, 6404, repeat.Samples[result.RateFloor], 1e-9)
	require.InEpsilon(t, 6238.5, repeat.Samples[result.Floor], 1e-3, "geometric")
	require.InEpsilon(t, 8000, repeat.Samples[result.Library], 1e-9)
	repeat.After.CoreDistance = 0
	require.NoError(t, Fill(cfg, &repeat))
	require.InEpsilon(t, 11280, repeat.Samples[result.RateFloor], 1e-3,
		"geometric: the state may have changed")
}

// A floor comes from the sides of a window whose distances all show the window's state.
func TestFloorInTheStateOfTheWindow(t *testing.T) {
	cfg := config.Default()
	cfg.InFlight = 1
	side := func(medium, next float64, others ...float64) result.Readings {
		r := readings(next, medium, medium, medium)
		r.CoreDistances = append(others, next)
		return r
	}
	for name, c := range map[string]struct {
		before, after result.Readings
		floor         float64 // 0: none
	}{
		"one state":                  {side(250, 310, 300), side(250, 300, 310), 250},
		"near during one probe":      {side(50, 310, 300, 51, 52), side(250, 300), 250},
		"far during one probe":       {side(50, 51), side(250, 52, 51, 300), 50},
		"near during the later ones": {side(250, 300), side(51, 310, 53), 250},
		"both sides are of no state": {side(50, 310, 50), side(50, 300, 52), 0},
		"mixed":                      {side(50, 50, 50), side(250, 300, 300), 0},
		"mixed, and agreeing floors": {side(250, 50, 300), side(250, 300, 300), 0},
		"disturbed within a state":   {side(53, 51, 50), side(90, 50, 51), 53},
		"the file has one distance": {readings(300, 250, 250, 250), readings(310, 250, 250, 250),
			250},
		"one without the distances":   {readings(51, 50, 50, 50), side(250, 52, 300), 50},
		"another state on both sides": {side(50, 310, 51, 50), side(250, 300, 290), 250},
	} {
		repeat := result.Repeat{
			Ranks: []record.Report{
				{Clients: []record.ClientReport{
					{ElapsedNS: 1e6, Reads: 200, Latency: timingOf(100, 1000).Histogram}}}},
			Before: c.before, After: c.after,
		}
		require.NoError(t, Fill(cfg, &repeat))
		require.Contains(t, repeat.Samples, result.CoreDistance, name)
		for metric, ratio := range map[string]string{result.Floor: result.FloorRatio,
			result.Library: result.LibraryRatio, result.RateFloor: ""} {
			if c.floor == 0 {
				require.NotContains(t, repeat.Samples, metric, name)
				require.NotContains(t, repeat.Samples, ratio, name)
				continue
			}
			require.InEpsilon(t, c.floor, repeat.Samples[metric], 1e-9, "%s: %s", name, metric)
			if ratio != "" {
				require.InEpsilon(t, 1000/c.floor, repeat.Samples[ratio], 0.01, "%s: %s",
					name, ratio)
			}
		}
	}
}

func TestProcessorTime(t *testing.T) {
	cfg := config.Default()
	cfg.Duration = 1000
	thread := record.ThreadReport{CPUNS: 900}
	repeat := result.Repeat{
		Ranks: []record.Report{
			{Daemons: []record.DaemonReport{{Requests: 10, ElapsedNS: 1000, BusyNS: 300,
				Thread: thread}}, Process: record.ProcessReport{CPUNS: 1100, SystemNS: 50}},
			{Clients: []record.ClientReport{{Reads: 10, ElapsedNS: 1000, BusyNS: 400,
				Thread: thread}}, Process: record.ProcessReport{CPUNS: 1000, SystemNS: 150}},
		},
		Machine: result.MachineTime{Processors: 2, CoveredNS: 1250, StealNS: 100, SoftIRQNS: 60,
			KernelNS: 240},
		Overhead: &record.Overhead{ClientNS: 18, DaemonNS: 27, PerOpNS: 45, VerifyNS: 5},
	}
	require.NoError(t, Fill(cfg, &repeat))
	for name, want := range map[string]float64{
		// the window and the calls around it
		result.BusyPerOp: 70, result.ProcessCPUPerOp: 210, result.Steal: 0.04,
		// 200 ns of the processes and 60 of soft interrupts, but the kernel ran for 240 only
		result.KernelPerOp:     24,
		result.HarnessOverhead: 45, result.VerifyCost: 5,
		result.HarnessShare: 0.45, // of a latency of 100 ns
	} {
		require.InDelta(t, want, repeat.Samples[name], 1e-9, name)
	}
	// With many in flight, the busiest thread is what counts.
	cfg.InFlight = 32
	require.NoError(t, Fill(cfg, &repeat))
	require.InDelta(t, 0.3, repeat.Samples[result.HarnessShare], 1e-9, "270 of the daemon's 900 ns")
	repeat.Overhead.ClientNS = 500
	require.NoError(t, Fill(cfg, &repeat))
	require.InDelta(t, 1, repeat.Samples[result.HarnessShare], 1e-9, "a share is at most 1")
	repeat.Ranks[0].Daemons[0].BusyNS = 0
	require.NoError(t, Fill(cfg, &repeat))
	require.NotContains(t, repeat.Samples, result.BusyPerOp, "a thread did not record it")
	require.EqualValues(t, 200, kernelTime(200, result.MachineTime{}))
}

// TestTrafficMetrics computes the fairness of known counts.
func TestTrafficMetrics(t *testing.T) {
	cfg := config.Default()
	cfg.Topology, cfg.Traffic, cfg.Ranks = config.TopologyMeshDirect, "hotspot:0.5", 3
	client := func(counts ...uint64) record.ClientReport {
		c := record.ClientReport{ElapsedNS: 1e9, Latency: histogram(t, 5)}
		for rank, n := range counts {
			c.Reads += n
			c.Peers = append(c.Peers, record.PeerReport{Rank: rank, Count: n,
				Latency: *timingOf(min(n, 1), 100*uint64(1+rank))})
		}
		return c
	}
	repeat := result.Repeat{Ranks: []record.Report{
		{Rank: 0, Clients: []record.ClientReport{client(0, 20, 20)}},
		{Rank: 1, Clients: []record.ClientReport{client(40, 0, 20)}},
		{Rank: 2, Clients: []record.ClientReport{client(40, 40, 0)}},
	}}
	require.NoError(t, Fill(cfg, &repeat))
	require.InDelta(t, 180.0*180/(3*(40*40+60*60+80*80)), repeat.Samples[result.JainClients], 1e-9)
	require.InDelta(t, 180.0*180/(3*(80*80+60*60+40*40)), repeat.Samples[result.JainPeers], 1e-9)
	require.InEpsilon(t, 1.5, repeat.Samples[result.StragglerRatio], 0.01,
		"300 ns over a median of 200 ns")
	cfg.Traffic = ""
	require.NoError(t, Fill(cfg, &repeat))
	require.NotContains(t, repeat.Samples, result.JainClients)
}

// TestIterationRate: iterations that the ends of a window cut count by their operations.
func TestIterationRate(t *testing.T) {
	cfg := config.Default()
	cfg.Topology, cfg.Traffic, cfg.Ranks = config.TopologyMeshDirect, config.TrafficAllToAll, 3
	require.Equal(t, 2, cfg.Iteration())
	repeat := result.Repeat{Ranks: []record.Report{{
		Clients: []record.ClientReport{{ElapsedNS: 1e9, Reads: 7, InFlightNS: 1e9,
			Latency: histogram(t, 5), Iterations: timingOf(2, 5)}},
		Daemons: []record.DaemonReport{{Loops: 1, ElapsedNS: 1e9}},
	}}}
	require.NoError(t, Fill(cfg, &repeat))
	require.InDelta(t, 3.5, repeat.Samples[result.IterationRate], 1e-9)
}

func TestEveryMetricIsDefined(t *testing.T) {
	operations := map[string]record.OperationReport{}
	for _, op := range config.OpNames() {
		operations[op] = record.OperationReport{Count: 1, Latency: *timingOf(1, 5)}
	}
	cfg := config.Default()
	cfg.TokensPerBlock = 128
	cfg.Topology, cfg.Traffic = config.TopologyMeshDirect, config.TrafficAllToAll
	peers := []record.PeerReport{{Rank: 0, Count: 1, Latency: *timingOf(1, 5)},
		{Rank: 1, Count: 1, Latency: *timingOf(1, 5)}}
	repeat := result.Repeat{
		Ranks: []record.Report{{
			Clients: []record.ClientReport{{ElapsedNS: 9, Reads: 1, InFlightNS: 5, BusyNS: 1,
				Latency: histogram(t, 5), Local: timingOf(1, 5), Remote: timingOf(1, 5),
				Peers: peers,
				Open: &record.OpenReport{Scheduled: 1, Response: *timingOf(1, 5),
					Lag: *timingOf(1, 5)}, Thread: record.ThreadReport{GapLimitNS: 1}}, {
				Reads: 1, ElapsedNS: 9, BusyNS: 1, InFlightNS: 5, Latency: histogram(t, 5),
				Local: timingOf(1, 5), Remote: timingOf(1, 5),
				Transport: stats(map[string]uint64{transport.StatCopies: 1}),
				Open: &record.OpenReport{Scheduled: 1, Response: *timingOf(1, 5),
					Lag: *timingOf(1, 5)},
				Operations: operations, Iterations: timingOf(1, 5), FirstParts: timingOf(1, 4),
				Thread: record.ThreadReport{GapLimitNS: 1},
			}},
			Daemons: []record.DaemonReport{
				{Loops: 1, BusyNS: 1, ElapsedNS: 9, Thread: record.ThreadReport{GapLimitNS: 1}}},
			Storm: &record.StormReport{Due: 1, Connections: 1, Connect: *timingOf(1, 5),
				Close: *timingOf(1, 5)},
			Process: record.ProcessReport{CPUNS: 2, SystemNS: 1, BusyThreads: 2},
		}},
		Before: readings(1, 1, 1, 1), After: readings(1, 1, 1, 1),
		Overhead: &record.Overhead{PerOpNS: 1}, Machine: result.MachineTime{Processors: 2,
			CoveredNS: 1},
	}
	names := []string{}
	for _, cfg.InFlight = range []int{1, 8} {
		require.NoError(t, Fill(cfg, &repeat))
		for name := range repeat.Samples {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, f := range []*transport.Floor{{RoundTrip: 1}, {PerOp: 1}} {
		repeat.Before.Witness, repeat.After.Witness = f, f
		repeat.Before.Transport, repeat.After.Transport = f, f
		cfg.InFlight = 1 + 7*int(f.PerOp)
		require.NoError(t, Fill(cfg, &repeat))
		for name := range repeat.Samples {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	Setup(&result.Setup{CloseMS: 2, Steps: []result.Step{{Name: result.StepConnect, MS: 1}},
		Ranks: []record.RankSetup{{
			OpenNS: 1, RegisteredBytes: 1, RegisterNS: 1, Connections: 1, ConnectNS: 1,
			ConnectAllNS: 1,
			FirstCalls:   1, FirstCallNS: 1,
		}}}, repeat.Samples)
	for name := range repeat.Samples {
		if result.OfSetup(name) {
			names = append(names, name)
		}
	}
	cfg.Ranks, cfg.InFlight = 3, 1
	repeat.Ranks[0].Clients[0].Peers = append(peers,
		record.PeerReport{Rank: 2, Count: 1, Latency: *timingOf(1, 5)})
	repeat.Before.Pairs = []result.PairReadings{{Medium: 1}, {Medium: 1, Crosses: true}}
	repeat.After.Pairs = repeat.Before.Pairs
	require.NoError(t, Kinds(&cfg, func(caller, server int) record.CallKind {
		switch {
		case caller == server:
			return record.CallOwn
		case caller == 2 || server == 2:
			return record.CallBetween
		}
		return record.CallWithin
	}, &repeat))
	for name := range repeat.Samples {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for name := range result.CounterRatios { // of microbenchmarks
		names = append(names, name)
	}
	defined := []string{}
	for _, d := range result.Definitions {
		defined = append(defined, d.Name)
	}
	require.ElementsMatch(t, defined, names)
}

// timingOf encodes samples of one time.
func timingOf(samples, ns uint64) *record.TimingReport {
	h := record.NewHistogram()
	for range samples {
		h.Record(ns)
	}
	return &record.TimingReport{Histogram: h.Encode(), MeanNS: float64(ns), Samples: samples}
}
