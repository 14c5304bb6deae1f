package result

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The file has the last result that was kept, and in the end that of the run, under one name and
// ID.
func TestGrowing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made")
	g := Growing{Dir: dir}
	only := func() *Result {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		r, err := Read(files[0])
		require.NoError(t, err)
		return r
	}
	var ids []string
	for n := 1; n <= 3; n++ {
		require.NoError(t, g.Keep(n, func() (*Result, error) {
			r := sample(t)
			r.ID, r.Incomplete, r.IncompleteReason = NewID(), true, "so far"
			return r, nil
		}))
		ids = append(ids, only().ID)
		require.True(t, only().Incomplete)
	}
	whole := sample(t)
	whole.ID = NewID()
	path, err := g.Store(whole)
	require.NoError(t, err)
	require.False(t, only().Incomplete)
	require.Equal(t, []string{whole.ID, whole.ID, whole.ID}, ids)
	require.Equal(t, FileName(whole), filepath.Base(path))

	require.ErrorContains(t,
		g.Keep(4, func() (*Result, error) { return nil, errors.New("no result") }), "no result")
	require.NoError(t, os.RemoveAll(dir))
	_, err = g.Store(whole)
	var wrong *IOError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, path, wrong.Path)
}

// Storing a run of many repeats takes a twentieth of its time, however long each takes.
func TestGrowingOfManyRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Growing{Dir: t.TempDir()}
		began, spent, kept := time.Now(), time.Duration(0), 0
		for n := 1; n <= 1000; n++ {
			time.Sleep(100 * time.Millisecond) // a repeat
			require.NoError(t, g.Keep(n, func() (*Result, error) {
				took := time.Duration(n) * time.Millisecond
				time.Sleep(took)
				if kept++; n > 100 {
					spent += took
				} else {
					require.Equal(t, n, kept, "each of the first repeats is kept")
				}
				return sample(t), nil
			}))
		}
		require.Less(t, spent, time.Since(began)/20)
		require.Greater(t, kept, 105)
	})
}
