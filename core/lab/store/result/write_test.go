package result

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/files"
)

func TestWriteNamesAndKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	r := sample(t)
	path, err := Write(dir, r)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "shm-kv-20260304T040607Z-"+r.ID[:8]+".json"), path)

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	schemaFile.Follows(t, text)
	require.Equal(t, encoded(t, r), text)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&^0o644)

	// A second write of the same result must not change the first.
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	_, err = Write(dir, r)
	require.ErrorIs(t, err, os.ErrExist)
	kept, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "precious", string(kept))
	requireOnly(t, dir, filepath.Base(path))
}

// requireOnly fails if dir has other entries than names.
func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, names, got)
}

func TestWriteRefusesWhatJSONCannotHold(t *testing.T) {
	r := sample(t)
	r.Repeats[0].Samples[Floor] = math.Inf(1)
	dir := filepath.Join(t.TempDir(), "none")
	_, err := Write(dir, r)
	require.ErrorContains(t, err, "encoding result")
	require.NoDirExists(t, dir)
}

func TestFileNameIsNoPath(t *testing.T) {
	r := sample(t)
	r.Config.Transport, r.Config.Profile = "../../etc", strings.Repeat("x/", 100)
	name := FileName(r)
	require.Equal(t, filepath.Base(name), name)
	require.Less(t, len(name), 200)
	require.True(t, strings.HasPrefix(name, "______etc-"), name)
}

func TestCheckWritableLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, CheckWritable(dir))
	require.NoError(t, CheckWritable(filepath.Join(dir, "to", "be", "made")))
	requireOnly(t, dir)
}

func TestUnwritablePlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	long := filepath.Join(t.TempDir(), strings.Repeat("n", 300))
	// No user may create files in /proc, root included.
	for _, dir := range []string{file, filepath.Join(file, "below"), long, "/proc/1"} {
		for name, err := range map[string]error{
			"check": CheckWritable(dir),
			"write": func() error { _, err := Write(dir, sample(t)); return err }(),
		} {
			var ioErr *IOError
			require.ErrorAs(t, err, &ioErr, "%s %s", name, dir)
			require.ErrorContains(t, err, dir)
			require.ErrorContains(t, err, "--out")
			require.NotContains(t, err.Error(), "\n")
		}
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write to a read-only directory")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	require.ErrorContains(t, CheckWritable(dir),
		dir+": permission denied; make it writable or choose")
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=4096"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })

	const want = "no space left on device; free some space or choose another directory with --out"
	require.ErrorContains(t, CheckWritable(dir), want)
	_, err := Write(dir, sample(t))
	require.ErrorContains(t, err, want)
	require.ErrorIs(t, err, unix.ENOSPC)
	requireOnly(t, dir)
}

func TestIOErrorRemedies(t *testing.T) {
	for errno, remedy := range map[unix.Errno]string{
		unix.ENOSPC: "free some space", unix.EDQUOT: "free some space",
		unix.EACCES: "make it writable", unix.EROFS: "make it writable",
		unix.EIO: "input/output error; choose another directory",
	} {
		err := &IOError{"writing the result", "/r/x.json",
			errors.Join(&os.PathError{Op: "write", Path: "/r/.tmp", Err: errno},
				errors.New("also"))}
		require.ErrorContains(t, err, remedy)
		require.NotContains(t, err.Error(), ".tmp")
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	err := &IOError{"writing the result", pipe,
		files.Replace(pipe, func(io.Writer) error { return nil })}
	require.EqualError(t, err, "writing the result: "+pipe+
		": not a regular file; remove it; choose another directory with --out")
}

func TestEncodeReportsTheWriter(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	require.ErrorIs(t, Encode(full, sample(t)), unix.ENOSPC)
}
