package tables

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// TestFlows: pairs of a matrix have their times alone, and the slowest of each are named.
func TestFlows(t *testing.T) {
	list := []result.Flow{
		{From: 0, To: 1, PerSecond: 100, Latency: result.Spread{Samples: 9, P50: 900}},
		{From: 1, To: 0, PerSecond: 300, Latency: result.Spread{Samples: 9, P50: 300}},
	}
	var out bytes.Buffer
	write(&out, Flows(list, 0))
	require.Contains(t, out.String(),
		"the slowest pair is rank 0 to rank 1: its p50 of 900 ns is 1.50 x")
	require.NotContains(t, out.String(), "alone")
	list[0].Alone, list[0].Slowdown = result.Spread{Samples: 9, P50: 225, P99: 250}, 4
	list[1].Alone, list[1].Slowdown = result.Spread{Samples: 9, P50: 240, P99: 700}, 1.25
	out.Reset()
	write(&out, Flows(list, 0))
	require.Regexp(t, `p50 alone +p99 alone +slowdown`, out.String())
	require.Regexp(t, `225 ns +250 ns +4.00`, out.String())
	require.Contains(t, out.String(), "; alone, rank 1 to rank 0 is the slowest, with 240 ns")
	list[0].Alone, list[0].Slowdown = result.Spread{}, 0
	out.Reset()
	write(&out, Flows(list, 0))
	require.Regexp(t, ` - +- +-\n`, out.String(), "a pair that had no turn")
}

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

// TestHandoffs compares hand-offs with those of the same transport and direction in bulk.
func TestHandoffs(t *testing.T) {
	s, repeats := set.New(), 1
	add := func(name string, handoff config.Handoff, page int, rate float64, ended bool) {
		r := sample(name, "kvhandoff", 1e6)
		r.Config.Handoff, r.Config.Model = handoff, "llama-3.1-8b"
		r.Config.TokensPerBlock, r.Config.InFlight = page, 12+page
		samples := map[string]float64{result.Goodput: rate, result.FirstPart + "_p50": 2e6}
		if ended {
			samples[result.Iteration+"_p50"] = 7e6
		}
		r.Repeats = slices.Repeat([]result.Repeat{{Samples: samples}}, repeats)
		r.Summary = result.SummarizeRepeats(r.Repeats)
		require.NoError(t, s.Add(r))
	}
	var out bytes.Buffer
	require.NoError(t, s.Add(sample("shm", "echo", 1e6)))
	write(&out, Handoffs(s))
	require.Empty(t, out.String())

	add("shm", "push:512", 0, 4e9, true)
	add("shm", "push:512", 16, 1e9, true)
	add("shm", "pull:512", 16, 3e9, true)
	add("tcpx", "push:512", 16, 2e9, false)
	write(&out, Handoffs(s))
	text := out.String()
	require.Regexp(t, `shm +2.00 ms +7.00 ms +4.00 GB/s +- `, text)
	require.Regexp(t, `shm +2.00 ms +7.00 ms +1.00 GB/s +25.0% `, text)
	require.Regexp(t, `shm +2.00 ms +7.00 ms +3.00 GB/s +- `, text, "the other direction")
	require.Regexp(t, `tcpx +2.00 ms +- +2.00 GB/s +- `, text, "another transport")
	require.Contains(t, text, "no hand-off ended in a window")
	require.NotContains(t, text, "in_flight")

	repeats = 6
	add("sockets", "pull:512", 0, 2e9, true)
	add("sockets", "pull:512", 64, 1e9, true)
	out.Reset()
	write(&out, Handoffs(s))
	require.Regexp(t, `sockets .* 1.00 GB/s +50.0% +50.0 to 50.0% `, out.String())
}
