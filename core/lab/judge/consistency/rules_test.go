package consistency

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
)

// good returns consistent figures of two clients with 4 calls in flight each.
func good() figures {
	return figures{
		load: load{InFlight: 8, Clients: 2, Threads: 3, MaxValue: 32, RemoteShare: -1},
		values: map[string]float64{
			result.Throughput: 1e6, result.Goodput: 16e6, result.LatencyP50: 7000,
			result.LatencyP90: 9000, result.LatencyP99: 20000,
			result.LatencyP999: 40000, result.LatencyMax: 90000, result.Floor: 1000,
			result.FloorRatio: 7, result.OpTimeRatio: 1,
			result.CPUPerOp: 3000, result.EmptyLoops: 0.5,
		},
	}
}

func TestRules(t *testing.T) {
	require.Empty(t, good().check())
	for _, test := range []struct {
		name     string
		severity result.Severity
		edit     func(f *figures)
		says     string
	}{
		{"range", result.Error, func(f *figures) { f.values[result.EmptyLoops] = 1.5 },
			"a share is at most 1"},
		{"range", result.Error, func(f *figures) { f.values[result.CPUPerOp] = -1 },
			"which is impossible"},
		{"percentiles", result.Error, func(f *figures) {
			f.values[result.LatencyP90] = 21000
		}, "latency_p99 is 20.0 us but latency_p90 is 21.0 us"},
		{"response", result.Error, func(f *figures) {
			f.values[result.ResponseP99] = 18900
		}, "never below the service time"},
		{"goodput", result.Error, func(f *figures) { f.values[result.Goodput] = 68e6 },
			"more than 1.00 M op/s with values of 32 bytes"},
		{"floor_ratio", result.Error, func(f *figures) {
			f.values[result.FloorRatio] = 7.5
		}, "7.00 us over 1.00 us, 7.00, not 7.50"},
		{"cpu_per_op", result.Warning, func(f *figures) {
			f.values[result.CPUPerOp] = 3200
		}, "3.20 processors, but there were 3"},
		{"offered_load", result.Warning,
			func(f *figures) { f.values[result.OfferedLoad] = 0.9e6 },
			"only 900 K op/s were due"},
		// The mean is at least 0.4 x 7 + 0.09 x 9 + 0.009 x 20 + 0.001 x 40 = 3.83 us.
		{"littles_law", result.Warning, func(f *figures) { f.load.InFlight = 3 },
			"no mean latency below 3.83 us"},
		// And at most 3.5 + 3.6 + 1.8 + 0.36 + 0.09 = 9.35 us.
		{"littles_law", result.Warning, func(f *figures) { f.load.InFlight = 10 },
			"no mean latency above 9.35 us"},
		{"littles_law", result.Error, func(f *figures) {
			f.values[result.LatencyMean] = 7000
		},
			"7.00 calls in flight, but 8.00 are claimed: by Little's law the mean is 8.00 us, or " +
				"the rate 1.14 M op/s"},
		{"tokens", result.Error, func(f *figures) {
			f.load.TokensPerBlock, f.load.Pattern = 128,
				config.Pattern{{Op: "lookup", Count: 7}, {Op: "read", Count: 6},
					{Op: "write", Count: 3}}
			f.values[result.IterationRate], f.values[result.TokenRate] = 10, 10000
		}, "11520 tokens a second, not 10000"},
		{"sum", result.Error, func(f *figures) {
			f.load.InFlight, f.load.Pattern = 1,
				config.Pattern{{Op: "read", Count: 2}}
			f.values = map[string]float64{result.IterationRate: 1000, "read_p50": 1e6}
		}, "more than the whole"},
		{"queueing_model", result.Error, func(f *figures) {
			f.load.RemoteShare = 0.25
			// a mean of 2 us, but a request took 8 us
			f.values[result.LocalMean], f.values[result.RemoteMean] = 1000, 5000
		}, "6.00 us of the 8.00 us"},
	} {
		f := good()
		test.edit(&f)
		found := f.check()
		require.Len(t, found, 1, test.says)
		require.Equal(t, test.name, found[0].Name)
		require.Equal(t, test.severity, found[0].Severity)
		require.False(t, found[0].OK)
		require.Contains(t, found[0].Message, test.says)
	}
}

// claim judges a row that has only claims.
func claim(r published.Row) []result.Finding { return Row(&r) }

func TestClaimsThatHold(t *testing.T) {
	require.Empty(t,
		claim(
			published.Row{Work: []published.Work{{Amount: 100, Unit: "op", Seconds: 10,
				PerSecond: 10.4}}}))
	require.Empty(t,
		claim(
			published.Row{Loops: []published.Loop{
				{Loops: 1e6, LoopNS: 1000, Seconds: 1, PerLoop: map[string]float64{"requests": 2},
					PerSecond: map[string]float64{"requests": 2e6, "others": 1}}}}))
	require.Empty(t,
		claim(
			published.Row{Sums: []published.Sum{
				{Whole: 10, Unit: "ns", Parts: []published.SumPart{{Name: "a", Count: 2, Each: 4},
					{Name: "b", Count: 1, Each: 1.5}}}}}))
	require.Empty(t,
		claim(
			published.Row{Sums: []published.Sum{
				{Whole: 10, Unit: "ns", Parts: []published.SumPart{{Name: "a", Count: 2}}}}}),
		"nothing is known")
	require.Empty(t, claim(published.Row{Limits: []published.Limit{{Value: 10.4, Limit: 10}}}))
	require.Empty(t,
		claim(
			published.Row{Ratios: []published.Ratio{{From: []float64{10, 20}, To: []float64{2},
				Claimed: []float64{5, 10}}}}))
	require.Empty(t, claim(published.Row{Ratios: []published.Ratio{{}}}))
	require.Empty(t, Document(
		&published.Document{Percentiles: &published.Percentiles{Combined: "merged", Over: 8}}))
	require.Empty(t, Document(
		&published.Document{Percentiles: &published.Percentiles{Combined: published.Averaged,
			Over: 1}}))
}

// Of 100 lookups, 40 find something, so they do not all find nothing.
func TestLookups(t *testing.T) {
	found := claim(
		published.Row{Lookups: []published.Lookups{{What: "an index", Count: 100, Space: 10,
			Covered: 4}}})
	require.Len(t, found, 1)
	require.Contains(t, found[0].Message,
		"the lookups of an index mostly find nothing: 40.0% of the addresses")
	require.Contains(t, found[0].Message, "about 40.0 of 100 lookups find it")
	require.Empty(t,
		claim(published.Row{Lookups: []published.Lookups{{Count: 100, Space: 10, Covered: 5}}}))

	require.NoError(t, published.Lookups{Space: 10, Covered: 10}.Valid())
	require.NoError(t, published.Lookups{Space: 10}.Valid())
	for _, l := range []published.Lookups{{}, {Space: -1, Covered: -2}, {Space: 10, Covered: -1},
		{Space: 10, Covered: 11}} {
		require.ErrorContains(t, l.Valid(), "space must be above 0, and covered from 0 to space")
	}
}

func TestSlips(t *testing.T) {
	message := func(w published.Work) string {
		return claim(published.Row{Work: []published.Work{w}})[0].Message
	}
	require.Contains(t, message(published.Work{Amount: 1, Unit: "B", Seconds: 1, PerSecond: 0.125}),
		"bytes taken for bits")
	require.Contains(t, message(published.Work{Amount: 1, Unit: "op", Seconds: 1, PerSecond: 3}),
		"for each of 3?")
	require.Contains(t, message(published.Work{Amount: 1, Unit: "op", Seconds: 1, PerSecond: 0.25}),
		"for one of 4")
	require.NotContains(t, message(published.Work{Amount: 1, Unit: "op", Seconds: 1,
		PerSecond: 1.3}), "?")
}

// The load of published figures comes from the options that they have.
func TestLoadOfPublishedOptions(t *testing.T) {
	row := func(value float64, options map[string]string) published.Row {
		return published.Row{Config: options, Metrics: map[string]published.Figure{
			result.Throughput:  {Value: 1e6, Unit: "op/s"},
			result.LatencyMean: {Value: value, Unit: "ns"},
		}}
	}
	mesh := map[string]string{"topology": "mesh-proxied", "ranks": "3", "daemons": "2",
		"clients": "4", "in_flight": "8", "value_size": "uniform:64-4096", "remote_share": "0.5"}
	require.Empty(t, claim(row(96_000, mesh)), "96 calls are in flight")
	require.Len(t, claim(row(90_000, mesh)), 1)
	require.Len(t, claim(row(1000, map[string]string{"in_flight": "4"})), 1)
	require.Empty(t, claim(row(1000, map[string]string{"in_flight": "4", "rate": "1e6"})))
	require.Empty(t, claim(row(1000, nil)))
	require.Contains(t, claim(row(1000, map[string]string{"in_flight": "many"}))[0].Message,
		`in_flight: "many"`)
}
