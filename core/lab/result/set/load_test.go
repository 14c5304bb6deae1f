package set

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/result"
)

// A loader returns the same as Load, each time a new set, and notices files that were added,
// changed or removed.
func TestLoaderFollowsADirectory(t *testing.T) {
	dir := t.TempDir()
	paths := write(t, dir, run(1, 1, 2), run(2, 3))
	var l Loader
	same := func() *Set {
		t.Helper()
		want, err := Load(dir)
		require.NoError(t, err)
		got, err := l.Load(dir)
		require.NoError(t, err)
		require.Equal(t, want.Cells, got.Cells)
		return got
	}
	before, err := Fingerprint(dir)
	require.NoError(t, err)
	first := same()
	first.Cells[0].Samples[result.Throughput][0] = 99 // it is the caller's
	first.Cells[0].Files[0].Name = "changed"
	same()
	require.Len(t, l.known, 2)

	write(t, dir, run(1, 7)) // more repeats of a known cell
	after, err := Fingerprint(dir)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	same()
	same()
	require.Len(t, l.known, 3)

	require.NoError(t, os.Remove(paths[1]))
	same()
	require.Len(t, l.known, 2)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.json"), []byte("{"), 0o600))
	_, err = l.Load(dir)
	require.ErrorContains(t, err, "x.json")
	_, err = Fingerprint(filepath.Join(dir, "none"))
	require.NoError(t, err)
}
