package result

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	first, err := LockDir(dir)
	require.NoError(t, err)
	_, err = LockDir(dir)
	require.ErrorContains(t, err, "another process uses this directory")
	first.Close()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	// What a killed process leaves.
	require.NoError(t, os.WriteFile(filepath.Join(dir, LockName), nil, 0o600))
	again, err := LockDir(dir)
	require.NoError(t, err)
	again.Close()

	path := filepath.Join(dir, LockName)
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	_, err = LockDir(dir)
	require.ErrorContains(t, err, path+" belongs to another user or is open to others",
		"others may open it")
	require.NoError(t, os.Chmod(path, 0o600))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(path, 65534, 65534))
		_, err = LockDir(dir)
		require.ErrorContains(t, err, path+" belongs to another user or is open to others",
			"of another user")
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink("elsewhere", path))
	_, err = LockDir(dir)
	require.ErrorIs(t, err, syscall.ELOOP)
	require.ErrorContains(t, err, "remove it")
	_, err = LockDir(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Several at a time take and give up the lock: never do two have it.
func TestLockDirExcludes(t *testing.T) {
	dir := t.TempDir()
	var holders, taken atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 300 {
				if lock, err := LockDir(dir); err == nil {
					if holders.Add(1) != 1 {
						t.Error("two have the lock")
					}
					taken.Add(1)
					holders.Add(-1)
					lock.Close()
				}
			}
		})
	}
	all.Wait()
	require.NotZero(t, taken.Load())
}

// A user who can read the directory cannot keep its owner out.
func TestStrangerCannotLock(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	dir, err := os.MkdirTemp("/tmp", "tb") // others may enter /tmp
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	stranger := exec.Command("/bin/sh", "-c", `
		exec 3<"$0" && flock -n -x 3 || echo "cannot lock the directory"
		(flock -n -x 4 && echo "locked the file") 2>/dev/null 4<"$0/`+LockName+`"
		echo ready; read end`, dir)
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534,
		Gid: 65534}}
	in, err := stranger.StdinPipe()
	require.NoError(t, err)
	out, err := stranger.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, LockName), nil, 0o600))
	require.NoError(t, stranger.Start())
	defer func() { _ = in.Close(); _ = stranger.Wait() }()
	text := make([]byte, 64)
	n, err := out.Read(text)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(text[:n]))
	lock, err := LockDir(dir)
	require.NoError(t, err)
	lock.Close()
}
