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
		{"shm", 9e6, "spin", &result.Capacity{Share: 0.9, Rate: 9e6, Value: 10e6}, 0},
		{"tcpx", float64(config.RateMax), "spin", nil, 0},
		{"tcpx", 450e3, "spin", &result.Capacity{Share: 0.9, Rate: 450e3, Value: 500e3}, 0},
		{"tcpx", 20e3, "spin", nil, 0},
		{"shm", 20e3, "spin", nil, 200},
		{"shm", 20e3, "park", nil, 0},
	} {
		r := sample(one.transport, "kv", one.rate)
		r.Config.Rate, r.Config.Idle, r.Capacity = config.Rate(one.rate), one.idle, one.capacity
		r.Repeats = nil
		for i := range 10 {
			h := record.NewHistogram()
			for j := range 10_000 {
				if i == 0 && j < one.stalled {
					h.Record(1e6)
				} else {
					h.Record(uint64(1000 + j%100))
				}
			}
			r.Repeats = append(r.Repeats, result.Repeat{Launch: i, Response: h.Encode(), Samples: map[string]float64{
				result.Throughput: one.rate, result.OfferedLoad: one.rate, result.ProcessCPUPerOp: 2e9 / one.rate,
				result.KernelPerOp: 12, result.BusyPerOp: 80, result.LatencyP99: 5555,
			}})
		}
		require.NoError(t, s.Add(r))
	}
	var out bytes.Buffer
	Comparison(&out, s)
	golden(t, "openloop.txt", out.String())
	require.NotContains(t, out.String(), "5.5", "a service time is no tail")
}
