package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/result"
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
			{Daemons: []record.DaemonReport{{Requests: 700, Thread: record.ThreadReport{CPUNS: 5000}}}},
			{Clients: []record.ClientReport{
				{
					ElapsedNS: 2000, Reads: 100, Writes: 100, PayloadBytes: 6400,
					Latency: histogram(t, 100, 100, 100, 900), ReadLatency: histogram(t, 100, 100),
					Thread: record.ThreadReport{CPUNS: 1000},
				},
				{
					ElapsedNS: 1000, Reads: 300, Writes: 100, PayloadBytes: 12800,
					Latency: histogram(t, 200, 200, 200, 200, 200, 200), ReadLatency: histogram(t, 200),
					Thread: record.ThreadReport{CPUNS: 2000},
				},
			}},
			{Clients: []record.ClientReport{{ElapsedNS: 1000, Writes: 100, PayloadBytes: 3200, Thread: record.ThreadReport{CPUNS: 1000}}}},
		},
		Before: result.Readings{Medium: &transport.Floor{RoundTrip: 100}},
		After:  result.Readings{Medium: &transport.Floor{RoundTrip: 400}},
	}
	require.NoError(t, fillSamples(config.Default(), &repeat))
	require.InDeltaMapValues(t, map[string]float64{
		// Rates use each client's own time: 1e8 + 4e8 + 1e8.
		result.Throughput:     6e8,
		result.Goodput:        3.2e9 + 12.8e9 + 3.2e9,
		result.CPUPerOp:       9000.0 / 700,
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

func TestSamplesOfMeshAndOpenLoop(t *testing.T) {
	client := func(local, remote *record.TimingReport, due, response, lag uint64) record.ClientReport {
		return record.ClientReport{
			ElapsedNS: 1e9, Reads: due, Local: local, Remote: remote,
			Open: &record.OpenReport{Scheduled: due, Response: *timingOf(due, response), Lag: *timingOf(due, lag)},
		}
	}
	repeat := result.Repeat{Ranks: []record.Report{
		{
			Clients: []record.ClientReport{client(timingOf(30, 100), timingOf(0, 0), 99, 1000, 10)},
			Daemons: []record.DaemonReport{{Loops: 100, EmptyLoops: 20}},
		},
		{
			Clients: []record.ClientReport{client(timingOf(10, 200), timingOf(5, 900), 101, 1500, 20)},
			Daemons: []record.DaemonReport{{Loops: 300, EmptyLoops: 60}},
		},
	}}
	require.NoError(t, fillSamples(config.Default(), &repeat))
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
	require.ErrorContains(t, fillSamples(config.Default(), &repeat), "decoding histogram")
}

func TestSamplesThatCannotBeTold(t *testing.T) {
	repeat := result.Repeat{
		Ranks:  []record.Report{{Clients: []record.ClientReport{{}}}},
		Before: result.Readings{Medium: &transport.Floor{RoundTrip: 100}}, After: result.Readings{Medium: &transport.Floor{RoundTrip: 100}},
	}
	require.NoError(t, fillSamples(config.Default(), &repeat))
	require.Equal(t, map[string]float64{
		result.Throughput: 0, result.Goodput: 0, result.ClientFairness: 0, result.Floor: 100,
	}, repeat.Samples)
}

func TestFairness(t *testing.T) {
	client := func(ops uint64) record.ClientReport { return record.ClientReport{Reads: ops, ElapsedNS: 1000} }
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

func TestEveryMetricIsDefined(t *testing.T) {
	operations := map[string]record.OperationReport{}
	for _, op := range config.OpNames() {
		operations[op] = record.OperationReport{Count: 1, Latency: *timingOf(1, 5)}
	}
	cfg := config.Default()
	cfg.TokensPerBlock = 128
	repeat := result.Repeat{
		Ranks: []record.Report{{
			Clients: []record.ClientReport{{
				Reads: 1, ElapsedNS: 9, Latency: histogram(t, 5), Local: timingOf(1, 5), Remote: timingOf(1, 5),
				Open:       &record.OpenReport{Scheduled: 1, Response: *timingOf(1, 5), Lag: *timingOf(1, 5)},
				Operations: operations, Iterations: timingOf(1, 5),
			}},
			Daemons: []record.DaemonReport{{Loops: 1}},
		}},
		Before: result.Readings{Medium: &transport.Floor{RoundTrip: 1}}, After: result.Readings{Medium: &transport.Floor{RoundTrip: 1}},
	}
	require.NoError(t, fillSamples(cfg, &repeat))
	names := []string{result.HarnessOverhead, result.VerifyCost, // once a run
		// Not measured yet.
		result.LatencyMean, result.RateFloor, result.OpTimeRatio, result.Library, result.LibraryRatio, result.HarnessShare,
		result.BusyPerOp, result.ProcessCPUPerOp, result.KernelPerOp, result.Bounce, result.Steal}
	for name := range repeat.Samples {
		names = append(names, name)
	}
	defined := []string{}
	for _, d := range result.Definitions {
		defined = append(defined, d.Name)
	}
	require.ElementsMatch(t, defined, names)
}
