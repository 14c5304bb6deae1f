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

// TestDocuments checks that a set with the figures of a document and others has its tables and
// charts.
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
	require.Contains(t, both, "read p50 over tokens")
	require.Regexp(t, `<polyline class="ours" points="([0-9.]+,[0-9.]+ ?){3}">`, both)
	require.Regexp(t, `<polyline class="theirs" points="([0-9.]+,[0-9.]+ ?){9}">`, both)
	require.Contains(t, both, "averages over 8 processes")
}

// TestDocumentRows checks the places of the marks of a chart with a row for each line.
func TestDocumentRows(t *testing.T) {
	figure := func(value, to float64) []*reproduce.Figure {
		return []*reproduce.Figure{{Value: value, To: to, Unit: "ns"}}
	}
	drawn := tableOf(&reproduce.ComparedTable{Columns: []string{"time"}, Lines: []reproduce.Line{
		{Name: "a", Cell: 3, Ours: reproduce.Side{Figures: figure(10, 0)},
			Theirs: reproduce.Side{Figures: figure(100, 1000)}},
		{Name: "b", Cell: -1, Ours: reproduce.Side{Figures: []*reproduce.Figure{nil}},
			Theirs: reproduce.Side{Figures: figure(1000, 0)}},
	}}, 20)
	rows := drawn.Charts[0].Rows
	require.Equal(t, 23, rows[0].Cell)
	require.Equal(t, &documentMark{X: 0}, rows[0].Ours)
	require.InDelta(t, 50, rows[0].Theirs.X, 1e-9)
	require.InDelta(t, 50, rows[0].Theirs.W, 1e-9)
	require.Nil(t, rows[1].Ours)
	require.InDelta(t, 100, rows[1].Theirs.X, 1e-9)
	require.Equal(t, 5, strings.Count(string(drawn.HTML), "<tr>"),
		"two rows of each line, and the head")
}
