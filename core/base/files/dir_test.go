package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTryLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"", "/", "/missing", "/missing/more"} {
		require.NoError(t, Try(dir+path, 1))
	}
	requireOnly(t, dir)
	file := put(t, filepath.Join(dir, "file"), "", 0o600)
	for _, path := range []string{file, file + "/more"} {
		require.EqualError(t, Try(path, 1), "write "+path+": not a directory")
		require.EqualError(t, MakeDir(path), "write "+path+": not a directory")
	}
	require.ErrorIs(t, MakeDir(""), fs.ErrNotExist)
}

func TestMakeDir(t *testing.T) {
	dir := t.TempDir()
	old := syscall.Umask(0o027)
	err := MakeDir(dir + "/one//two/../three/")
	syscall.Umask(old)
	require.NoError(t, err)
	for _, path := range []string{"one", "one/two", "one/three"} {
		info, err := os.Lstat(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, fs.ModeDir|0o750, info.Mode())
	}
	require.NoError(t, MakeDir(dir), "it exists")

	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("one/four", link))
	require.NoError(t, MakeDir(filepath.Join(link, "five")))
	require.DirExists(t, filepath.Join(dir, "one", "four", "five"))
	t.Chdir(dir)
	require.NoError(t, MakeDir("six/seven"))
	require.NoError(t, MakeDir("six/seven/.."))
	require.DirExists(t, filepath.Join(dir, "six", "seven"))

	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := MakeDir("all/at/once"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.NoFileExists(t, TemporaryFiles)
}
