package findings

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
)

// Programs that read the warnings of cells by the key check find their names there, too.
func TestWarningsHaveBothKeys(t *testing.T) {
	cell := AnalyzedCell{Cell: "shm kv", Warnings: []result.Finding{{
		Name: "drift", Severity: result.Warning, Message: "the rate falls"}}}
	text, err := json.Marshal(Analysis{Kind: "analysis", Cells: []AnalyzedCell{cell}})
	require.NoError(t, err)
	require.Contains(t, string(text), `"doubts":[{"name":"drift",`)
	require.Contains(t, string(text), `"check":"drift"`)
	require.Contains(t, string(text), `"cell":"shm kv"`)
	var again Analysis
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, cell, again.Cells[0])
}

// The median of one state of the machine stands beside a lead over all of them.
func TestRankingSaysWhichWindows(t *testing.T) {
	lead := 0.2
	group := compare.Candidates{Cell: "kv", Metric: result.Throughput, List: []compare.Candidate{
		{Value: "shm", Group: "a"}, {Value: "erpc", Group: "b", Lead: &lead}}}
	const note = "best: the median of the windows in the state that is named"
	var out bytes.Buffer
	write(&out, Ranking(&compare.Ranking{Axis: "transport", Groups: []compare.Candidates{group}}))
	require.NotContains(t, out.String(), note)
	group.List[0].State = "near"
	out.Reset()
	write(&out, Ranking(&compare.Ranking{Axis: "transport", Groups: []compare.Candidates{group}}))
	require.Contains(t, out.String(), note)
}
