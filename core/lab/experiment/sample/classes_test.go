package sample

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

// TestClassSamples computes the metrics of known reports.
func TestClassSamples(t *testing.T) {
	cfg := config.Default()
	require.NoError(t, cfg.Classes.Set("rpc:64B,slo=1us,clients=2;bulk:1KiB,rate=100,slo=1us"))
	latencies := func(fast, slow int) string {
		h := record.NewHistogram()
		for range fast {
			h.Record(500)
		}
		for range slow {
			h.Record(5000)
		}
		return h.Encode()
	}
	client := func(ops uint64, latency string) record.ClientReport {
		return record.ClientReport{ElapsedNS: uint64(time.Second), Reads: ops,
			PayloadBytes: 128 * ops, Latency: latency}
	}
	open := client(80, latencies(80, 0))
	open.Open = &record.OpenReport{Scheduled: 101,
		Response: record.TimingReport{Histogram: latencies(60, 20)}}
	open.Drained = 1
	reports := []record.Report{{}, {Rank: 1,
		Clients: []record.ClientReport{client(30, latencies(30, 0)), client(10, latencies(0, 10)),
			open}}}

	rpc, err := classSamples(&cfg, reports, 0, 1)
	require.NoError(t, err)
	require.InDelta(t, 40, rpc[result.Throughput], 1e-9)
	require.InDelta(t, 128*40, rpc[result.Goodput], 1e-9)
	require.InDelta(t, 0.75, rpc[result.SLOAttainment], 1e-9, "30 of 40 are fast")
	require.InDelta(t, 5000, rpc[result.LatencyP99], 50)
	require.NotContains(t, rpc, result.ResponseP50)

	bulk, err := classSamples(&cfg, reports, 1, 1)
	require.NoError(t, err)
	require.InDelta(t, 0.6, bulk[result.SLOAttainment], 1e-9,
		"60 of the 100 that were due, by response time; 20 were not even issued")
	require.InDelta(t, 500, bulk[result.LatencyP99], 5)
	require.InDelta(t, 5000, bulk[result.ResponseP99], 50)

	idle := client(0, latencies(0, 0))
	idle.Open = &record.OpenReport{Scheduled: 20}
	reports[1].Clients = []record.ClientReport{client(0, latencies(0, 0)),
		client(0, latencies(0, 0)), idle}
	for class := range cfg.Classes {
		starved, err := classSamples(&cfg, reports, class, 1)
		require.NoError(t, err)
		require.Contains(t, starved, result.SLOAttainment)
		require.Zero(t, starved[result.SLOAttainment], "nothing was answered")
	}
	idle.Open.Scheduled = 0
	none, err := classSamples(&cfg, reports, 1, 1)
	require.NoError(t, err)
	require.NotContains(t, none, result.SLOAttainment, "nothing was due")

	for metric, want := range map[string]float64{result.Throughput: 4, result.LatencyP50: 0.25} {
		ratio, ok := slowdown(metric, 10, 40)
		require.True(t, ok)
		require.InDelta(t, want, ratio, 1e-9, metric)
	}
	_, ok := slowdown(result.LatencyP99, 10, 0)
	require.False(t, ok, "nothing was completed alone")
	d := result.Define(result.ClassMetric("rpc", result.ClassSlowdown, result.Throughput))
	require.Equal(t, result.Lower, d.Better)
	require.Equal(t, "ns", result.Define("rpc.alone.latency_p99").Unit)
}
