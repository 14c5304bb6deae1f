package docs_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/analyze"
	"transportbench/core/result"
	"transportbench/core/result/format"
	"transportbench/core/result/set"
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
			from, to := cellOf(t, s, transport, way[0]), cellOf(t, s, transport, way[1])
			results, err := s.Results(from)
			require.NoError(t, err)
			a, err := analyze.Results(results)
			require.NoError(t, err)
			p, err := a.Model.Predict("in_flight=" + way[1])
			require.NoError(t, err)
			line := fmt.Sprintf("| %s | %s | %s | %s | %s |", transport, way[0], way[1], format.Rate(p.Throughput),
				format.Value(result.Summarize(result.Throughput, to.Samples[result.Throughput])))
			require.Contains(t, string(text), line)
		}
	}
}

func cellOf(t *testing.T, s *set.Set, transport, inFlight string) *set.Cell {
	t.Helper()
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Transport() == transport && c.Config["in_flight"] == inFlight {
			return c
		}
	}
	t.Fatalf("the set has no cell of %s with %s in flight", transport, inFlight)
	return nil
}
