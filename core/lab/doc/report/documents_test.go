package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/reproduce"
	"transportbench/core/lab/store/set"
	"transportbench/results"
)

// TestDocuments checks that a set with the figures of a document and others has its tables.
func TestDocuments(t *testing.T) {
	d, err := reproduce.Load(results.Files, "kvstore")
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, d.WritePublished(&text))
	s, err := set.Parse(text.Bytes(), "published.json")
	require.NoError(t, err)
	page := func() string {
		p, err := Build(t.Context(), []*set.Set{s}, Options{Documents: []*reproduce.Document{d}})
		require.NoError(t, err)
		var b strings.Builder
		require.NoError(t, p.Render(&b))
		return b.String()
	}
	require.NotContains(t, page(), "Compared with the document")

	for i, inFlight := range []string{"1", "2", "10"} {
		s.Cells = append(s.Cells, set.Cell{
			Config: map[string]string{"transport": "grpc", "ranks": "2", "clients": "8",
				"in_flight": inFlight},
			Status: set.Measured, Environment: -1, Samples: map[string][]float64{
				"tokens": {10e3 * float64(i+1)}, "read_p50": {20e6},
				"lookup_p50": {50e3 + float64(i)},
			}})
	}
	both := page()
	require.Contains(t, both, "Compared with the document")
	require.Contains(t, both, "ours and published; x floor")
	require.Contains(t, both, "averages over 8 processes")
}
