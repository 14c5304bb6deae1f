package tables

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

func metric(name string, median float64, bounds ...float64) result.Metric {
	d := result.Define(name)
	m := result.Metric{Unit: d.Unit, Better: d.Better, Median: median, N: 10}
	if len(bounds) == 2 {
		m.Low, m.High = &bounds[0], &bounds[1]
	}
	return m
}

func sample(name, profile string, throughput float64) *result.Result {
	c := config.Default()
	c.Transport, c.Profile = name, profile
	return &result.Result{
		Plugin: result.Plugin{Name: name, Version: "0.1.0", Provider: "memfd"},
		Config: c,
		Summary: map[string]result.Metric{
			result.Throughput: metric(result.Throughput, throughput, throughput*0.99,
				throughput*1.02),
			result.LatencyP50:  metric(result.LatencyP50, 131, 129, 133),
			result.LatencyP99:  metric(result.LatencyP99, 1412, 1390, 1500),
			result.LatencyP999: metric(result.LatencyP999, 999_960, 900_000, 1_100_000),
			result.Floor:       metric(result.Floor, 120.4, 119, 121),
			result.FloorRatio:  metric(result.FloorRatio, 1.088, 1.07, 1.1),
			result.OpTimeRatio: metric(result.OpTimeRatio, 0.318, 0.31, 0.32),
			result.CPUPerOp:    metric(result.CPUPerOp, 78.4, 78, 79),
			result.Goodput: metric(result.Goodput, throughput*32, throughput*31,
				throughput*33),
			result.HarnessOverhead: {Unit: "ns/op", Better: result.Lower, Median: 12.31, N: 1},
		},
		Repeats: []result.Repeat{
			{Before: result.Readings{Medium: &transport.Floor{Name: "cache-line bounce",
				RoundTrip: 120}}}},
		Checks: []result.Finding{
			{Name: "verified", OK: true, Severity: result.Error},
			{Name: "oversubscription", OK: true, Severity: result.Warning},
		},
	}
}

func TestResult(t *testing.T) {
	var out bytes.Buffer
	r := sample("shm", "kv", 26.4e6)
	write(&out, Result(r))
	doctest.Golden(t, "result.txt", out.String())

	out.Reset()
	r.Summary[result.Throughput] = metric(result.Throughput, 26.4e6)
	r.Checks = append(r.Checks,
		result.Finding{Name: "littles_law", Severity: result.Warning,
			Message: "the residual is 7%, over 5%"},
		result.Finding{Name: "verified", Severity: result.Error, Message: "3 responses were wrong"})
	r.Incomplete, r.IncompleteReason = true, "interrupted after 1 of 10 repeats"
	write(&out, Result(r))
	doctest.Golden(t, "result_failed.txt", out.String())

	for _, c := range []result.Finding{
		{Name: "oversubscribed", Severity: result.Warning,
			Message: "2 polling threads have 1 processor"},
		{Name: "preempted", Severity: result.Warning, Value: 0.4,
			Message: "the polling threads were off their processors"},
	} {
		out.Reset()
		r.Checks = []result.Finding{c}
		write(&out, Result(r))
		require.Contains(t, out.String(), "\n\nOVERSUBSCRIBED: "+c.Message)
	}
	out.Reset()
	r.Checks[0].Value = 0.05
	write(&out, Result(r))
	require.NotContains(t, out.String(), "OVERSUBSCRIBED")
}

func TestComparison(t *testing.T) {
	s := set.New()
	for _, one := range []struct {
		transport, profile string
		inFlight           int
		throughput         float64
	}{{"shm", "pingpong", 1, 7.1e6}, {"tcpx", "kv", 32, 0.8e6}, {"shm", "kv", 32, 26.4e6}} {
		r := sample(one.transport, one.profile, one.throughput)
		r.Config.InFlight = one.inFlight
		r.Repeats = nil
		for i := range 10 {
			spread := 1 + float64(i-5)/1000
			r.Repeats = append(r.Repeats, result.Repeat{Launch: i, Samples: map[string]float64{
				result.Throughput: one.throughput * spread, result.LatencyP50: 131 * spread,
				result.FloorRatio:  1.09 * spread,
				result.OpTimeRatio: 1.4, result.Bare: 119, result.BareRatio: 1.1,
				result.BusyPerOp: 78,
			}})
		}
		if one.transport == "tcpx" {
			r.Plugin.Provider = "host"
			r.Checks[0].OK, r.Checks[1].OK = false, false
			for i := range r.Repeats {
				delete(r.Repeats[i].Samples, result.OpTimeRatio)
			}
		}
		require.NoError(t, s.Add(r))
	}
	s.Cells = append(s.Cells, set.Cell{Config: map[string]string{"transport": "ucxam"},
		Status: set.Unavailable,
		Reason: "built without libucx: install libucx-dev", Environment: -1})
	var out bytes.Buffer
	write(&out, Comparison(s))
	out.WriteString("\n")
	write(&out, Warnings(s))
	doctest.Golden(t, "comparison.txt", out.String())
}

// write writes a document for a plain stream.
func write(w io.Writer, d *doc.Doc) { _ = doc.WriteText(w, d, doc.Screen{}) }

func TestUnits(t *testing.T) {
	for want, got := range map[string]string{
		"0 ns": format.Time(0), "1.50 ns": format.Time(1.5), "99.9 ns": format.Time(99.94),
		"100 ns": format.Time(99.96), "1.00 us": format.Time(999.6),
		"12.3 us": format.Time(12_345), "1.00 ms": format.Time(999_960),
		"2.50 s": format.Time(2.5e9), "0.0012 ns": format.Time(0.0012),
		"812 op/s": format.Rate(812), "25.3 M op/s": format.Rate(25.34e6),
		"1.00 G op/s": format.Rate(1e9),
	} {
		require.Equal(t, want, got)
	}
	once := result.Metric{Unit: "ns", Median: 3, N: 1}
	require.Equal(t, "measured once", format.Interval(once))
	few := result.Metric{Unit: "ns", Median: 3, N: 5}
	require.Equal(t, "no interval from 5 repeats", format.Interval(few))
	require.Equal(t, "1.32", format.Value(result.Metric{Unit: "ratio", Median: 1.321}))
	require.Equal(t, "7.00 widgets", format.Value(result.Metric{Unit: "widgets", Median: 7}))
	require.Equal(t, "1.2s", format.Left(1234*time.Millisecond))
	require.Equal(t, "12s", format.Left(12345*time.Millisecond))
}
