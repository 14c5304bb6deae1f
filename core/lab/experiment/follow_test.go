package experiment

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
)

func TestFollow(t *testing.T) {
	dir := t.TempDir()
	f, err := Follow(dir)
	require.NoError(t, err)
	require.Nil(t, f, "there is no sweep yet")

	var seen []Progress
	measure := func(ctx context.Context, c config.Config, o runner.Observer) (
		*result.Result, error) {
		if f == nil {
			f, err = Follow(dir)
			require.NoError(t, err)
		}
		seen = append(seen, f.Progress(f.began.Add(time.Minute)))
		return good(ctx, c, o)
	}
	_, err = runSweep(t.Context(), plan(t, matrix),
		options{Dir: dir, Measure: measure, Watcher: new(watcher)})
	require.NoError(t, err)
	require.Len(t, seen, 12)
	for i, p := range seen {
		require.Equal(t, i, p.Done)
		require.Equal(t, 12, p.Planned)
		require.False(t, p.Ended)
	}
	require.Zero(t, seen[0].LeftS)
	require.InDelta(t, 180, seen[3].LeftS, 1, "three of twelve took a minute")
	ended := Progress{Done: 12, Planned: 12, Ended: true}
	require.Equal(t, ended, f.Progress(time.Now()))
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		return os.Rename(path, path+".gz") // as results are committed
	}))
	require.Equal(t, ended, f.Progress(time.Now()))

	require.NoError(t, os.WriteFile(filepath.Join(dir, planName), []byte(`{"kind":"sweep"}`),
		0o600))
	_, err = Follow(dir)
	require.ErrorContains(t, err, "is no plan")
}
