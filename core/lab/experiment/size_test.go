package experiment

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/runner"
)

// A sweep takes the room of all its repeats, and at last of a result beside them.
func TestSize(t *testing.T) {
	c := config.Default()
	one, merged := runner.ResultSize(&c, 1), runner.ResultSize(&c, 3)
	p := &Plan{Repeats: 3, Cells: []Cell{{ID: "a", Config: c}, {ID: "b", Config: c},
		{ID: "stub", Config: c, Unavailable: "no such device"}}}
	dir := t.TempDir()
	require.InDelta(t, 6*one+merged, p.Size(dir), float64(one))
	p.Order = Sequential
	require.InDelta(t, 3*one+2*merged, p.Size(dir), float64(one))

	p.Order = Interleaved
	s := &store{dir: dir, plan: p}
	for _, path := range []string{s.repeatPath(0, 0), s.repeatPath(0, 2), s.cellPath(1)} {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	require.InDelta(t, one+merged, p.Size(dir), float64(one), "the rest")

	p.Repeats = 1
	closed := p.Size(t.TempDir())
	p.Cells[0].Share = 0.5
	require.Greater(t, p.Size(t.TempDir()), closed+20<<10, "an open loop has more histograms")
}
