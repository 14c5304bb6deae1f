package set

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
	"transportbench/core/transport"
)

// Readings of microbenchmarks are cells, and repeats of a reading are samples of its cell, in
// memory as in files.
func TestMicro(t *testing.T) {
	like := Cell{Config: map[string]string{"transport": "shm", "duration": "1ms"}}
	first := New()
	for i := range 3 {
		require.NoError(t, first.AddMicro(like, machine.Environment{},
			transport.Measurement{Name: "ring/a", Size: 32, Latency: 100 + float64(i),
				LatencyP99: 200, Floor: 50, WitnessLatency: 90}))
		require.NoError(t, first.AddMicro(like, machine.Environment{},
			transport.Measurement{Name: "ring/b", Size: 32, Rate: 1e6, Bandwidth: 32e6,
				RateFloor: 10, WitnessRate: 2e6, Counters: map[string]uint64{"cycles": 100,
					"instructions": 250, "llc_load_misses": 3}}))
		require.NoError(t, first.AddMicro(like, machine.Environment{},
			transport.Measurement{Name: "nothing"}))
	}
	require.Equal(t, map[string]string{"transport": "shm", "duration": "1ms"}, like.Config)
	dir := t.TempDir()
	path, err := first.WriteFile(dir, "micro-shm")
	require.NoError(t, err)
	_, err = first.WriteFile(dir, "micro-shm")
	require.Error(t, err, "it replaces no file")

	second := New()
	require.NoError(t, second.AddMicro(like, machine.Environment{},
		transport.Measurement{Name: "ring/a", Size: 32, Latency: 103}))
	_, err = second.WriteFile(dir, "micro-other")
	require.NoError(t, err)

	s, err := Load(path)
	require.NoError(t, err)
	require.Len(t, s.Cells, 2)
	require.Equal(t, map[string][]float64{"latency_p50": {100, 101, 102},
		"latency_p99": {200, 200, 200}, "floor": {50, 50, 50}, "witness": {90, 90, 90}},
		s.Cells[0].Samples)
	require.Equal(t, map[string][]float64{"throughput": {1e6, 1e6, 1e6},
		"goodput": {32e6, 32e6, 32e6}, "rate_floor": {10, 10, 10}, "witness_rate": {500, 500, 500},
		"counters.ipc": {2.5, 2.5, 2.5}},
		s.Cells[1].Samples)
	require.Equal(t, map[string]string{"transport": "shm", "duration": "1ms", "micro": "ring/a",
		"value_size": "32"}, s.Cells[0].Config)
	require.Equal(t, Measured, s.Cells[0].Status)

	both, err := Load(dir)
	require.NoError(t, err)
	require.Len(t, both.Cells, 2)
	require.Len(t, both.Cells[0].Samples["latency_p50"], 4)
}
