package tables

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// capacityOf returns a capacity of windows with these core distances, of which the first is in the
// state.
func capacityOf(share, value float64, in string, distances ...float64) *result.Capacity {
	c := &result.Capacity{Share: share, Rate: share * value, Value: value, State: in}
	for _, distance := range distances {
		c.Windows = append(c.Windows, result.Window{Throughput: value, DistanceBefore: distance,
			DistanceAfter: distance})
	}
	of := c.Windows
	if in != "" {
		of = of[:1]
	}
	c.Throughput = result.Metric{Median: value, N: len(of)}
	return c
}

// Open loops have a table of their own, with percentiles of all windows together. Closed loops have
// no p99.
func TestOpenLoops(t *testing.T) {
	s := set.New()
	require.NoError(t, s.Add(sample("shm", "kv", 20e6)))
	for _, one := range []struct {
		transport string
		rate      float64
		idle      string
		capacity  *result.Capacity
		stalled   int
	}{
		{"shm", 9e6, "spin", capacityOf(0.9, 10e6, "", 50, 50, 50), 0},
		{"tcpx", float64(config.RateMax), "spin", nil, 0},
		{"tcpx", 450e3, "spin", capacityOf(0.9, 500e3, "far", 300, 50, 50), 0},
		{"tcpx", 20e3, "spin", nil, 0},
		{"shm", 20e3, "spin", nil, 200},
		{"shm", 20e3, "park", nil, 0},
	} {
		r := sample(one.transport, "kv", one.rate)
		r.Config.Rate, r.Config.Idle, r.Capacity = config.Rate(one.rate), one.idle, one.capacity
		r.Repeats = nil
		for i := range 10 {
			// The last windows of shm, and of the capacity, are far. There shm does not serve the
			// highest rate.
			closed := !r.Config.Rate.Offers()
			far := (one.transport == "shm" || closed) && i >= 8
			distance, served := 50.0, one.rate
			if closed {
				served = 1e6
			}
			if far {
				distance = 300
			}
			if far && (one.capacity != nil || closed) {
				served /= 2
			}
			h := record.NewHistogram()
			for j := range 10_000 {
				switch {
				case i == 0 && j < one.stalled:
					h.Record(1e6)
				case served < one.rate && !closed:
					h.Record(80e6)
				case far:
					h.Record(2000)
				default:
					h.Record(uint64(1000 + j%100))
				}
			}
			readings := result.Readings{CoreDistance: distance}
			r.Repeats = append(r.Repeats, result.Repeat{Launch: i, Response: h.Encode(),
				Before: readings, After: readings, Samples: map[string]float64{
					result.Throughput: served, result.OfferedLoad: one.rate,
					result.ProcessCPUPerOp: 2e9 / one.rate,
					result.KernelPerOp:     12, result.Stalled: 0.021, result.GapLimit: 20e3,
					result.BusyPerOp: 80, result.LatencyP99: 5555,
				}})
		}
		require.NoError(t, s.Add(r))
	}
	var out bytes.Buffer
	write(&out, Comparison(s))
	doctest.Golden(t, "openloop.txt", out.String())
	require.NotContains(t, out.String(), "5.5", "a service time is no tail")
}

// Open loops are in the order of p50 in the common state of the machine: not of p99, which a stall
// of the machine decides, and not of the median over both states.
func TestOpenLoopsByMedianInCommonState(t *testing.T) {
	s := set.New()
	for _, one := range []struct {
		transport      string
		near, far      int // windows
		nearNS, farNS  uint64
		stalledWindows int
	}{{"lucky", 10, 0, 1500, 0, 0}, {"quick", 4, 6, 1000, 3000, 2}} {
		r := sample(one.transport, "kv", 20e3)
		r.Config.Rate, r.Repeats = 20e3, nil
		for i := range one.near + one.far {
			distance, took := 50.0, one.nearNS
			if i >= one.near {
				distance, took = 300, one.farNS
			}
			h := record.NewHistogram()
			for j := range 1000 {
				if i < one.stalledWindows && j < 200 {
					h.Record(5e6)
				} else {
					h.Record(took)
				}
			}
			readings := result.Readings{CoreDistance: distance}
			r.Repeats = append(r.Repeats, result.Repeat{Launch: i, Response: h.Encode(),
				Before: readings, After: readings,
				Samples: map[string]float64{result.Throughput: 20e3, result.OfferedLoad: 20e3}})
		}
		require.NoError(t, s.Add(r))
	}
	var out bytes.Buffer
	write(&out, Comparison(s))
	require.Regexp(t,
		`(?s)quick +memfd +20\.0 K op/s +3\.00 us +5\.00 ms.*lucky +memfd +20\.0 K op/s +1\.50 us +1\.50 us`, out.String())
}

// A row that did not reach its rate shows what it reached, and is last however low its p50.
func TestMissedRate(t *testing.T) {
	s := set.New()
	for transport, took := range map[string]uint64{"grpc": 1000, "shm": 2000} {
		r := sample(transport, "kv", 20e3)
		r.Config.Rate = 20e3
		h := record.NewHistogram()
		h.Record(took)
		for i := range r.Repeats {
			r.Repeats[i].Response = h.Encode()
			r.Repeats[i].Samples = map[string]float64{result.Throughput: 1140,
				result.OfferedLoad: 20e3}
		}
		if transport == "grpc" {
			r.Checks = append(r.Checks, result.Finding{Name: "rate", Severity: result.Error})
		}
		require.NoError(t, s.Add(r))
	}
	var out bytes.Buffer
	write(&out, Comparison(s))
	require.Contains(t, out.String(), "rows that did not reach their rate are last")
	require.Regexp(t, `(?s)shm +memfd +20\.0 K op/s.*grpc +memfd +1\.14 of 20\.0 K op/s`,
		out.String())
}

// TestStalledLegend: only a p99 beyond the limit of gaps can be a time of stalls.
func TestStalledLegend(t *testing.T) {
	for _, c := range []struct {
		stalled, limit, p99 float64
		says, doesNotSay    string
	}{
		{0.02, 20e3, 500e3, "above 1%, a p99 of over 20.0 us is a time of such stalls",
			"made no progress"},
		{0.02, 600e3, 500e3, "share of the time", "p99"},
		{0.02, 0, 500e3, "share of the time", "p99"}, // of an older version
		{0.005, 20e3, 500e3, "", "stalled"},
	} {
		s := set.New()
		r := sample("shm", "kv", 20e3)
		r.Config.Rate = 20e3
		h := record.NewHistogram()
		for range 10_000 {
			h.Record(uint64(c.p99))
		}
		for i := range r.Repeats {
			r.Repeats[i].Response = h.Encode()
			r.Repeats[i].Samples = map[string]float64{result.Stalled: c.stalled,
				result.GapLimit: c.limit}
		}
		require.NoError(t, s.Add(r))
		var out bytes.Buffer
		rows := make([]*set.Cell, len(s.Cells))
		for i := range s.Cells {
			rows[i] = &s.Cells[i]
		}
		d := new(doc.Doc)
		writeStalled(d, rows)
		write(&out, d)
		require.Contains(t, out.String(), c.says)
		require.NotContains(t, out.String(), c.doesNotSay)
	}
}
