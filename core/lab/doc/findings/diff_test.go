package findings

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/doc"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// TestMeans: the numbers of cells of all means of a transport share a column.
func TestMeans(t *testing.T) {
	var out bytes.Buffer
	writeMarkdown(&out, Diff(&compare.Report{Means: []compare.Mean{
		{Transport: "shm", Metric: "latency_p50", Cells: 5, Change: 0.1},
		{Transport: "shm", Metric: "throughput", Cells: 5, Change: 0.2},
		{Transport: "erpc", Metric: "latency_p50", Cells: 4, Change: 0.3},
		{Transport: "erpc", Metric: "throughput", Cells: 6, Change: 0.4},
	}}, true))
	require.Equal(t, 1, strings.Count(out.String(), "| cells |"), out.String())
	require.Regexp(t, `shm \|.*\| 5 \|`, out.String())
	require.Regexp(t, `erpc \|.*\| 4 to 6 \|`, out.String())
}

// Both tables of a controlled comparison have what changed first, and hide the rest if it is much.
func TestTransportsByVerdict(t *testing.T) {
	r := &compare.Report{Changes: []compare.Change{{Cell: "a cell", Verdict: compare.Ambiguous}}}
	for range rowsShown {
		r.Transports = append(r.Transports, compare.Change{Cell: "shm", Verdict: compare.Ambiguous})
	}
	r.Transports = append(r.Transports, compare.Change{Cell: "tcpx", Verdict: compare.Better},
		compare.Change{Cell: "erpc", Verdict: compare.Worse})
	var out bytes.Buffer
	write(&out, Diff(r, false))
	require.Regexp(t, `^cells: 1 AMBIGUOUS \(`, out.String())
	require.Contains(t, out.String(),
		"\ntransports over all loads: 1 WORSE, 1 BETTER, 12 AMBIGUOUS (half of alpha")
	require.Regexp(t, `\nerpc .*WORSE\ntcpx .*BETTER\n12 rows with the verdict AMBIGUOUS hidden; `+
		`--all shows them\n`, out.String())
	out.Reset()
	write(&out, Diff(r, true))
	require.Equal(t, rowsShown, strings.Count(out.String(), "\nshm "))
}

// A comment of GitHub has no medians of what all loads of a transport have in common.
func TestCommentOfAllLoads(t *testing.T) {
	r := &compare.Report{Transports: []compare.Change{{Cell: "shm, all 5 loads",
		Metric: "throughput", Verdict: compare.Better, Change: new(0.1)}}}
	text := GitHubComment(r)
	require.Contains(t, text, "shm, all 5 loads | throughput | - | ")
	require.NotContains(t, text, "- → -")
}

// A comment has each failed check once: the first unfolded, the others in the fold.
func TestCommentHasEachCheckOnce(t *testing.T) {
	r := &compare.Report{Changes: []compare.Change{{Verdict: compare.Worse}}}
	for _, check := range []string{"first", "second", "third", "fourth"} {
		r.Warnings = append(r.Warnings, set.GroupedWarning{Check: check,
			Severity: result.Warning, Message: "failed"})
	}
	above, folded, found := strings.Cut(GitHubComment(r), "Notes and failed checks")
	require.True(t, found)
	for _, check := range []string{"first", "second", "third"} {
		require.Contains(t, above, check)
		require.NotContains(t, folded, check)
	}
	require.NotContains(t, above, "fourth")
	require.Contains(t, folded, "fourth")
}

// A terminal of 80 columns shows the interval of every comparison.
func TestRankingFitsATerminal(t *testing.T) {
	lead, low, shift, high := 1.2, 1.3, 1.4, 1.5 // the lead is of the medians
	d := Ranking(&compare.Ranking{Axis: "transport", Groups: []compare.Candidates{{
		Cell: "echo in_flight=32", Metric: "latency_p99", Better: result.Higher, Leader: "copyrpc",
		List: []compare.Candidate{
			{Value: "copyrpc", Metric: result.Metric{Unit: "op/s", Median: 29.3e6}, State: "near"},
			{Value: "shm", Lead: &lead, Behind: &shift, Low: &low, High: &high}}}}})
	for _, width := range []int{80, 50} {
		var out bytes.Buffer
		require.NoError(t, doc.WriteText(&out, d, doc.Screen{Width: width}))
		require.Contains(t, out.String(), "2.30x to 2.50x", width)
	}
	var out bytes.Buffer
	write(&out, d)
	require.Regexp(t, `2\.40x +2\.30x to 2\.50x`, out.String(), "the interval is of the figure")
}

// If sets cannot tell what moved all transports, the summary names the command that can, once.
func TestMovedTogether(t *testing.T) {
	r := &compare.Report{Bridge: compare.Bridge}
	require.Contains(t, DiffSummary(r), "\nfairer, both versions in turns: transportbench "+
		compare.Bridge)
	r.Together = "the sets cannot tell"
	text := DiffSummary(r)
	require.Contains(t, text, "\nthe sets cannot tell; in turns, this can: "+
		"transportbench "+compare.Bridge)
	require.Equal(t, 1, strings.Count(text, compare.Bridge))
}

// If the clock is why there is no verdict, the summary says so, and which metrics are finer.
func TestBelowClock(t *testing.T) {
	require.Contains(t, DiffSummary(&compare.Report{Changes: []compare.Change{
		{Metric: result.LatencyP50, BelowClock: true}, {Metric: result.Throughput},
		{Metric: result.LatencyP50, BelowClock: true}}}),
		"\n2 changes of latency_p50 without a verdict, smaller than a step of the clock: "+
			"--metric throughput,latency_mean shows smaller ones")
	require.NotContains(t, DiffSummary(&compare.Report{}), "clock")
}

// Beside the smallest change that could have been found stands how many repeats find a smaller one.
func TestMoreRepeats(t *testing.T) {
	of := func(factor float64) *set.Set {
		values := make([]float64, 10)
		for i := range values {
			values[i] = factor * (1 + 0.03*float64(i))
		}
		s := set.New()
		s.Environments = []set.Environment{{}}
		s.Cells = []set.Cell{{Status: set.Measured, Config: map[string]string{"transport": "shm"},
			Samples: map[string][]float64{result.Throughput: values}}}
		return s
	}
	r, err := compare.Diff(of(1), of(1), compare.Defaults())
	require.NoError(t, err)
	require.Regexp(t, `\nsmallest change for the worse .* \(.*throughput\); `+
		`with --repeats 30 about [0-9.]+% in half$`, DiffSummary(r))
}

// Too few windows in the same states of the machine are no tie, and no lack of repeats.
func TestStatesApart(t *testing.T) {
	var out bytes.Buffer
	write(&out, Ranking(&compare.Ranking{Groups: []compare.Candidates{{Cell: "echo",
		Metric: result.Throughput, StatesApart: true,
		List: []compare.Candidate{{Value: "shm"}, {Value: "sockets"}}}}}))
	require.Contains(t, out.String(),
		"\n1 comparison with too few windows in the same states of the machine to be decided\n")
	require.Contains(t, out.String(), "echo throughput: shm ?, sockets ?\n")

	text := DiffSummary(&compare.Report{Changes: []compare.Change{{StatesApart: true}},
		Seen: compare.Seen{Tests: 1, None: 1, Why: compare.FewWindows}})
	require.Contains(t, text,
		"\n1 change with too few windows in the same states of the machine for a verdict\n")
	require.Contains(t, text, "found: too few windows in the same states of the machine")
}
