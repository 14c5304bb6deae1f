package tables

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The tables of a set have its classes of traffic and the fairness of its patterns, and no others
// do.
func TestTraffic(t *testing.T) {
	s := set.New()
	add := func(name, classes, traffic string, samples map[string]float64) {
		r := sample(name, "echo", 1e6)
		require.NoError(t, r.Config.Classes.Set(classes))
		require.NoError(t, r.Config.Traffic.Set(traffic))
		samples[result.LatencyP50], samples[result.LatencyP99] = 313, 900
		r.Repeats = []result.Repeat{{Samples: samples}}
		r.Summary = result.SummarizeRepeats(r.Repeats)
		require.NoError(t, s.Add(r))
	}
	var out bytes.Buffer
	add("shm", "", "", map[string]float64{})
	write(&out, Traffic(s))
	require.Empty(t, out.String())

	const classes = "bulk:1MiB,rate=500,slo=5ms;rpc:64B,slo=50us"
	add("tcpx", classes, "", map[string]float64{
		"bulk.throughput": 498, "bulk.alone.throughput": 500,
		"bulk.slowdown.throughput": 500.0 / 498,
		"bulk.latency_p50":         1e6, "bulk.response_p50": 2e6, "bulk.response_p99": 6e6,
		"bulk.slowdown.response_p99": 3,
		"bulk.slo_attainment":        0.97, "bulk.alone.slo_attainment": 1,
		"rpc.throughput": 1e4, "rpc.alone.throughput": 4e4, "rpc.slowdown.throughput": 4,
		"rpc.latency_p50":          80e3,
		"rpc.slowdown.latency_p50": 3.2, "rpc.latency_p99": 3e5, "rpc.slowdown.latency_p99": 5,
		"rpc.slo_attainment": 0.25, "rpc.alone.slo_attainment": 0.999,
	})
	add("sockets", "", "incast:3", map[string]float64{result.JainClients: 0.8,
		result.StragglerRatio: 1.5})
	add("sockets", "", "storm:100", map[string]float64{
		result.StormRate: 99, result.StormKept: 0.99, result.StormConnectP50: 1e5,
		result.StormConnectP99: 4e5, result.StormClose: 5e4,
	})
	write(&out, Traffic(s))
	doctest.Golden(t, "traffic.txt", out.String())
}
