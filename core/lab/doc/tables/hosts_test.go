package tables

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

func TestHosts(t *testing.T) {
	r := &result.Result{}
	require.Empty(t, hostsOf(r))
	r.Hosts = []result.Host{{Name: "h0", Ranks: []int{0, 2}},
		{Name: "h1", Ranks: []int{1}, Device: &result.Device{Name: "mlx5_0", Node: 1}}}
	require.Equal(t, "hosts: h0 (ranks 0, 2), h1 (rank 1, near mlx5_0 on NUMA node 1)", hostsOf(r))
	r.Summary = map[string]result.Metric{}
	for i, kind := range []string{result.WithinMachine, result.BetweenMachines} {
		for _, name := range result.OfKinds {
			r.Summary[name+kind] = result.Summarize(name+kind, []float64{float64(1000 * (i + 1))})
		}
	}
	var out bytes.Buffer
	write(&out, Result(r))
	require.Contains(t, out.String(),
		"hosts: h0 (ranks 0, 2), h1 (rank 1, near mlx5_0 on NUMA node 1)\n")
	require.Regexp(t, `latency_p50_within_machine +1\.00 us .*calls between ranks on one machine`,
		out.String())
	require.Regexp(t, `floor_between_machines +2\.00 us .*calls between machines: round trip`,
		out.String())
	all := &set.Set{
		Cells: []set.Cell{{Status: set.Measured, Config: map[string]string{"transport": "tcpx"},
			Samples: map[string][]float64{result.Throughput: {7}}}}}
	for name, m := range r.Summary {
		all.Cells[0].Samples[name] = []float64{m.Median}
	}
	out.Reset()
	write(&out, Tables(all))
	require.Regexp(t,
		`op/s within +p50 within +floor within +op/s between +p50 between +floor between`,
		out.String())
}
