package history_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/history"
	"transportbench/core/lab/judge/history/historytest"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// nights are throughputs with 1% of noise, of the levels for so many nights each.
func nights(levels ...float64) (list []float64) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < len(levels); i += 2 {
		for range int(levels[i]) {
			list = append(list, levels[i+1]*(1+0.01*r.NormFloat64()))
		}
	}
	return list
}

func load(t *testing.T, dir string) (*history.History, []history.Series) {
	t.Helper()
	h, err := history.Load([]string{dir})
	require.NoError(t, err)
	return h, h.Series(history.Options{Metrics: []string{result.Throughput, result.LatencyP50},
		Floor: 0.02})
}

func TestSeries(t *testing.T) {
	h, list := load(t, historytest.Write(t, t.TempDir(), 2, 3, nights(12, 1e6, 8, 0.9e6)...))
	require.Len(t, h.Sets, 20)
	require.Equal(t, "night0001", h.Sets[0].Label)
	require.Equal(t, "0.19.0", h.Sets[19].Version)
	require.Len(t, list, 4, "two metrics of two cells")
	for _, s := range list {
		require.Len(t, s.Points, 20)
		require.Equal(t, 3, s.Points[0].N)
		require.Len(t, s.Changes, 1, s.Metric)
		c := s.Changes[0]
		require.Equal(t, 12, c.Set)
		require.Equal(t, 11, c.Before)
		require.True(t, c.Worse)
		require.Nil(t, c.Blessed)
		want := -0.1
		if s.Metric == result.LatencyP50 {
			want = 1/0.9 - 1
		}
		require.InDelta(t, want, c.Share, 0.02)
		require.InDelta(t, c.New, s.Baseline(), 1e-9)
	}
	require.Equal(t, 4, history.Unaccepted(list))
}

// What is accepted moves the baseline, for the sets of its level and what it names.
func TestBless(t *testing.T) {
	dir := historytest.Write(t, t.TempDir(), 2, 3, nights(12, 1e6, 8, 0.9e6, 8, 0.8e6)...)
	h, list := load(t, dir)
	require.Equal(t, 8, history.Unaccepted(list))
	cell, label, err := h.Cell("shm in_flight=1")
	require.NoError(t, err)
	require.Equal(t, "shm in_flight=1", label)
	_, _, err = h.Cell("shm in_flight=3")
	require.ErrorContains(t, err, `there is no cell "shm in_flight=3"; did you mean`)

	night := func(n string) string { return filepath.Join(dir, "night00"+n) }
	b := history.Blessing{Who: "ada", Why: "checksums", At: time.Unix(1, 0).UTC(), Cell: cell,
		Metric: result.Throughput}
	require.NoError(t, history.Bless(night("15"), b)) // within the second level
	_, list = load(t, dir)
	require.Equal(t, 7, history.Unaccepted(list))
	b.Cell, b.Metric = "", ""
	require.NoError(t, history.Bless(night("15"), b))
	_, list = load(t, dir)
	require.Equal(t, 4, history.Unaccepted(list), "the changes of the third level are left")
	require.Equal(t, "checksums", list[0].Changes[0].Blessed.Why)
	require.NoError(t, history.Bless(night("21"), b))
	_, list = load(t, dir)
	require.Zero(t, history.Unaccepted(list))

	// A directory of results without an index stays readable.
	unindexed := t.TempDir()
	text, err := os.ReadFile(filepath.Join(night("01"), "index.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(unindexed, "set.json"), text, 0o600))
	require.NoError(t, history.Bless(unindexed, b))
	again, err := history.Load([]string{unindexed})
	require.NoError(t, err)
	require.Equal(t, "ada", again.Sets[0].Blessed[0].Who)

	require.ErrorContains(t, history.Bless(filepath.Join(dir, "none"), b), "no set of results")
	for text, says := range map[string]string{
		"{": "EOF", `{"kind":"blessings","schema_version":"2.0.0"}`: "not blessings of 1.0.0",
		`{"kinds":1}`: "unknown field",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(night("15"), history.BlessedName),
			[]byte(text), 0o600))
		_, err = history.Load([]string{dir})
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "night0015")
	}
}

// A series names the sets between which the bytes took another path; a set that does not know its
// path is passed over.
func TestPathChanges(t *testing.T) {
	dir := historytest.Write(t, t.TempDir(), 2, 3, nights(6, 1e6)...)
	var sets []*set.Set
	for i, path := range []string{"tcp over eth0", "tcp over eth0", "", "tcp over bond0",
		"tcp over bond0", "tcp over eth0"} {
		s, err := set.Load(filepath.Join(dir, fmt.Sprintf("night%04d", i+1)))
		require.NoError(t, err)
		if path != "" {
			s.Cells[1].Plugin.Path = []string{path}
		}
		sets = append(sets, s)
	}
	h, err := history.Of(sets...)
	require.NoError(t, err)
	metrics := []string{result.Throughput, result.LatencyP50}
	for _, s := range h.Series(history.Options{Metrics: metrics}) {
		if s.Load == "in_flight=1" {
			require.Empty(t, s.Paths)
			continue
		}
		require.Equal(t, []history.PathChange{
			{Set: 3, Before: 1, Old: []string{"tcp over eth0"}, New: []string{"tcp over bond0"}},
			{Set: 5, Before: 4, Old: []string{"tcp over bond0"}, New: []string{"tcp over eth0"}},
		}, s.Paths)
	}
}

func TestLoadFailures(t *testing.T) {
	for path, says := range map[string]string{"/nonexistent": "no such file", t.TempDir(): "no"} {
		_, err := history.Load([]string{path})
		require.ErrorContains(t, err, says)
	}
	dir := historytest.Write(t, t.TempDir(), 1, 1, 1e6)
	h, list := load(t, dir)
	require.Equal(t, "night0001", h.Sets[0].Label)
	require.Empty(t, list, "one set is no series")
}

// BenchmarkHistory reads 1,000 sets of 50 cells and finds their changes.
func BenchmarkHistory(b *testing.B) {
	dir := historytest.Write(b, b.TempDir(), 50, 10, nights(600, 1e6, 400, 0.95e6)...)
	for b.Loop() {
		h, err := history.Load([]string{dir})
		require.NoError(b, err)
		require.NotEmpty(b,
			h.Series(history.Options{Metrics: []string{result.Throughput, result.LatencyP50,
				result.LatencyP99}, Floor: 0.02}))
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/history")
}
