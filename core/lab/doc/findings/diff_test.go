package findings

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
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
