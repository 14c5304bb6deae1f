package tables

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

func TestVerdicts(t *testing.T) {
	// The calibration in the directory of the set says that a lead of 2% does not count there.
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s, err := set.Load("../../../../results/v0.9.0/amd-epyc-2core-vm")
	require.NoError(t, err)
	var out bytes.Buffer
	write(&out, Verdicts(s))
	doctest.Golden(t, "verdicts.txt", out.String())

	// One load alone needs no name.
	s.Cells = slices.DeleteFunc(s.Cells, func(c set.Cell) bool {
		return c.Config["profile"] != "pingpong"
	})
	out.Reset()
	write(&out, Verdicts(s))
	require.Regexp(t, "^shm has the best throughput", out.String())
	require.NotContains(t, out.String(), "not safe")

	s.Cells[0].Warnings = []result.Finding{
		{Name: "preempted", Severity: result.Warning, Value: 0.4},
		{Name: "steal", Severity: result.Warning, Value: 0.2}}
	out.Reset()
	write(&out, Verdicts(s))
	require.Regexp(t, `not safe: threads ran for less than half\s+of the time\s+$`, out.String())

	lead := 0.2
	group := compare.Candidates{Metric: result.Throughput, Better: result.Higher,
		List: []compare.Candidate{
			{Value: "shm", Group: "a"},
			{Value: "erpc", Group: "ab", Lead: &lead, Floor: 0.126},
			{Value: "ofi", Group: "ac", Floor: 0.05}, {Value: "tcpx", Group: "b", Floor: 0.3}}}
	require.Equal(t,
		"undecided between shm, erpc and ofi; more repeats may show a 12.6% lead",
		outcomeOf(&group))
	group.StatesApart = true
	require.Equal(t, "shm is first in throughput, 1.20x better than erpc; too few windows in the "+
		"same states of the machine to be certain", outcomeOf(&group))
	group.TooLittle, group.StatesApart = true, false
	require.Equal(t,
		"shm is first in throughput, 1.20x better than erpc; too few repeats to be certain",
		outcomeOf(&group))
	group.Leader = "shm"
	require.Equal(t, "shm has the best throughput, 1.20x better than erpc",
		outcomeOf(&group))
}

// One direction serves rates and times.
func TestTimes(t *testing.T) {
	require.Equal(t, "4.00x", Times(3, result.Higher))
	require.Equal(t, "4.00x", Times(-0.75, result.Lower))
}
