package present

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/result"
)

func TestHosts(t *testing.T) {
	r := &result.Result{}
	require.Empty(t, hostsOf(r))
	r.Hosts = []result.Host{{Name: "h0", Ranks: []int{0, 2}}, {Name: "h1", Ranks: []int{1}}}
	r.Repeats = []result.Repeat{{Before: result.Readings{Pairs: []result.PairReadings{{Medium: 40_000, Crosses: true}, {Medium: 60_000, Crosses: true}}}}}
	require.Equal(t, []string{"hosts: h0 (ranks 0, 2), h1 (rank 1)"}, hostsOf(r))
	r.Repeats[0].After.Pairs = []result.PairReadings{{Medium: 100}, {}}
	var out bytes.Buffer
	Result(&out, r)
	require.Contains(t, out.String(), "hosts: h0 (ranks 0, 2), h1 (rank 1)\nfloor: 50.0 us between machines, 100 ns within one\n")
}
