package docs_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The page's predictions are those of the committed set, and so are the
// measurements beside them.
func TestDocumentedPredictions(t *testing.T) {
	text, err := os.ReadFile("analyze.md")
	require.NoError(t, err)
	s, err := set.Load("../results/v0.2.0/amd-epyc-2core-vm")
	require.NoError(t, err)
	for _, transport := range []string{"shm", "copyrpc", "ucxam"} {
		for _, way := range [][2]string{{"1", "32"}, {"32", "1"}} {
			from, to := cellOf(t, s, transport, "in_flight", way[0]),
				cellOf(t, s, transport, "in_flight", way[1])
			line := fmt.Sprintf("| %s | %s | %s | %s | %s |", transport, way[0], way[1],
				predicted(t, s, from, "in_flight="+way[1]), format.Value(throughput(to)))
			require.Contains(t, string(text), line)
		}
	}
}

func predicted(t *testing.T, s *set.Set, from *set.Cell, change string) string {
	t.Helper()
	results, err := s.Results(from)
	require.NoError(t, err)
	a, err := analyze.Results(results)
	require.NoError(t, err)
	p, err := a.Model.Predict(change)
	require.NoError(t, err)
	return format.Rate(p.Throughput)
}

func throughput(c *set.Cell) result.Metric {
	return result.Summarize(result.Throughput, c.Samples[result.Throughput])
}

func cellOf(t *testing.T, s *set.Set, transport, option, value string) *set.Cell {
	t.Helper()
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Transport() == transport && c.Config[option] == value {
			return c
		}
	}
	t.Fatalf("the set has no cell of %s with %s=%s", transport, option, value)
	return nil
}
