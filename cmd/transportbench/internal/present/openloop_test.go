package present

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
)

// capacityOf returns a capacity of windows with these bounces, of which the first is in the state.
func capacityOf(share, value float64, in string, bounces ...float64) *result.Capacity {
	c := &result.Capacity{Share: share, Rate: share * value, Value: value, State: in}
	for _, bounce := range bounces {
		c.Windows = append(c.Windows, result.Window{Throughput: value, BounceBefore: bounce, BounceAfter: bounce})
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
			// The last windows of shm are far, where it does not serve the highest rate.
			far := one.transport == "shm" && i >= 8
			bounce, served := 50.0, one.rate
			if far {
				bounce = 300
			}
			if far && one.capacity != nil {
				served /= 2
			}
			h := record.NewHistogram()
			for j := range 10_000 {
				switch {
				case i == 0 && j < one.stalled:
					h.Record(1e6)
				case served < one.rate:
					h.Record(80e6)
				case far:
					h.Record(2000)
				default:
					h.Record(uint64(1000 + j%100))
				}
			}
			readings := result.Readings{Bounce: bounce}
			r.Repeats = append(r.Repeats, result.Repeat{Launch: i, Response: h.Encode(), Before: readings, After: readings, Samples: map[string]float64{
				result.Throughput: served, result.OfferedLoad: one.rate, result.ProcessCPUPerOp: 2e9 / one.rate,
				result.KernelPerOp: 12, result.Stalled: 0.021, result.BusyPerOp: 80, result.LatencyP99: 5555,
			}})
		}
		require.NoError(t, s.Add(r))
	}
	var out bytes.Buffer
	Comparison(&out, s)
	golden(t, "openloop.txt", out.String())
	require.NotContains(t, out.String(), "5.5", "a service time is no tail")
}
