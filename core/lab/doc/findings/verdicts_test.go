package findings

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

func TestVerdicts(t *testing.T) {
	s, err := set.Load("../../../../results/v0.8.0/amd-epyc-2core-vm")
	require.NoError(t, err)
	o := compare.Defaults()
	o.Metrics = []string{result.Throughput}
	ranking, err := compare.Along(s, "transport", o)
	require.NoError(t, err)
	var out bytes.Buffer
	write(&out, Verdicts(ranking))
	doctest.Golden(t, "verdicts.txt", out.String())

	lead := 0.2
	group := compare.Candidates{Cell: "kv", Metric: result.Throughput, List: []compare.Candidate{
		{Value: "shm", Group: "a"}, {Value: "erpc", Group: "ab", Lead: &lead},
		{Value: "ofi", Group: "ac"}, {Value: "tcpx", Group: "b"}}}
	require.Equal(t,
		"kv: undecided in throughput between shm, erpc and ofi; more repeats may tell them apart",
		Verdict(&group))
	group.TooLittle = true
	require.Contains(t, Verdict(&group), "there are too few repeats")
	group.Leader = "shm"
	require.Equal(t, "kv: shm has the best throughput, +20.0% against erpc", Verdict(&group))
}
