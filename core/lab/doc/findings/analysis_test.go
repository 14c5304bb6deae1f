package findings

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

const committed = "../../../../results/v0.2.0/amd-epyc-2core-vm"

// analysis analyzes some cells of the committed set.
func analysis(t *testing.T, cells string) *Analysis {
	t.Helper()
	s, err := set.Load(committed)
	require.NoError(t, err)
	a := &Analysis{Kind: "analysis", Source: committed}
	labels := set.LabelsOf(s.Cells)
	for i := range s.Cells {
		c := &s.Cells[i]
		if !set.Match(cells, c.Config) {
			continue
		}
		results, err := s.Results(c)
		require.NoError(t, err)
		of, err := analyze.Results(results)
		require.NoError(t, err)
		p, err := of.Model.Predict("burn=1us")
		require.NoError(t, err)
		a.Cells = append(a.Cells, AnalyzedCell{Cell: labels.Of(c.Config), Status: c.Status,
			Analysis: of, Predictions: []analyze.Prediction{p}})
	}
	a.AddWarnings(s)
	a.Capacity, err = analyze.CapacityOf(s,
		analyze.CapacityOptions{Target: 1e9, Headroom: new(0.3)})
	require.NoError(t, err)
	return a
}

func TestAnalyzeFitsATerminal(t *testing.T) {
	for _, cells := range []string{"", "shm,in_flight=1", "ucxam,in_flight=32"} {
		var b strings.Builder
		write(&b, Analyze(analysis(t, cells), true))
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 112, line)
			require.NotContains(t, line, "NaN")
			require.NotContains(t, line, "Inf")
		}
	}
}

func TestAnalyzeOne(t *testing.T) {
	var b strings.Builder
	a := analysis(t, "shm,in_flight=32")
	write(&b, Analyze(a, false))
	text := b.String()
	for _, want := range []string{
		strings.ToUpper(string(a.Cells[0].Analysis.Verdict.Bound)) + ": ", "- Little's law",
		analyze.Unexplained, "the limit: ", "the model: ",
		"overheads", "what if", "with burn=1us the model expects", "warning: drift: ", "servers",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "voluntary/s", "a detail")
	b.Reset()
	write(&b, Analyze(a, true))
	require.Contains(t, b.String(), "voluntary/s")
	require.Contains(t, b.String(), "no hardware counters: ")
}

func TestAnalyzeShowsCounters(t *testing.T) {
	a := analysis(t, "shm,in_flight=1")
	threads := a.Cells[0].Analysis.Threads
	threads[0].IPC = new(1.91)
	threads[0].PerOp = map[string]float64{"cycles": 1234, "llc_load_misses": 0.25}
	var b strings.Builder
	write(&b, Analyze(a, false))
	require.Regexp(t, `rank 0 daemon 0 +1\.91 +1234 .* 0\.250`, b.String())
	require.Regexp(t, `rank 1 client 0 +- +- `, b.String())
}

func TestEventsOfARun(t *testing.T) {
	var b strings.Builder
	write(&b, Events(&result.Result{}))
	require.Empty(t, b.String(), "nothing is counted without a window")
	s, err := set.Load(committed)
	require.NoError(t, err)
	results, err := s.Results(&s.Cells[0])
	require.NoError(t, err)
	write(&b, Events(results[0]))
	require.Contains(t, b.String(), "rank 1 client 0")
	require.Contains(t, b.String(), "no hardware counters: ")
}
