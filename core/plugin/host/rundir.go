package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// runDir is a directory that only its owner can enter, where one plugin makes
// its socket. It exists from the start of a launch until the connection stands.
//
// Its maker holds a lock on the directory itself for as long as it lives. So a
// directory without a lock is one whose host is gone, also where that host had
// a process number of another container.
type runDir struct {
	path string
	lock *os.File // nil where the file system has no locks; nobody sweeps there
}

// longestBase is the longest directory under which a socket's path fits into
// the 107 bytes that the kernel takes: the user's directory, the run's,
// go-plugin's and the socket come behind it.
const longestBase = 107 - len("/transportbench-4294967295/4194304-4294967295/plugin-dir4294967295/plugin4294967295")

// baseDir is where run directories are made.
func baseDir() string {
	if dir := os.TempDir(); len(dir) <= longestBase && filepath.IsAbs(dir) {
		return dir
	}
	return "/tmp"
}

// userDir is the parent of this user's run directories.
func userDir() string {
	return filepath.Join(baseDir(), "transportbench-"+strconv.Itoa(os.Getuid()))
}

var sweepOnce sync.Once

// newRunDir makes a run directory. The first call of a process sweeps those of
// dead hosts.
func newRunDir() (*runDir, error) {
	parent := userDir()
	sweepOnce.Do(func() { sweep(parent) })
	// A host that ends at this moment may remove the parent, or take the new
	// directory, not locked yet, for a stale one: again.
	for range 100 {
		if err := makePrivate(parent); err != nil {
			return nil, err
		}
		path, err := os.MkdirTemp(parent, strconv.Itoa(os.Getpid())+"-")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("making a directory for a plugin's socket: %w; TMPDIR names another place", err)
		}
		lock, err := lockDir(path)
		if errors.Is(err, errTaken) {
			continue
		}
		return &runDir{path: path, lock: lock}, nil
	}
	return nil, fmt.Errorf("making a directory for a plugin's socket: %s vanishes again and again", parent)
}

// makePrivate makes the user's directory, or checks that what is there is the
// user's alone: in a shared /tmp anybody may have been first.
func makePrivate(path string) error {
	err := os.Mkdir(path, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making a directory for a plugin's socket: %w; TMPDIR names another place", err)
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed in between, which the caller notices
	}
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a private directory of this user: remove it, or set TMPDIR to another place", path)
	}
	return nil
}

// errTaken: somebody else has the lock, or has removed the directory.
var errTaken = errors.New("taken")

// lockDir locks a directory for as long as the file returned is open. Any error
// but errTaken means that the file system has no such locks.
func lockDir(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, errTaken
	}
	err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errTaken
	}
	if err == nil && !stillThere(dir, path) {
		err = errTaken
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// stillThere tells whether path is the directory that was opened.
func stillThere(dir *os.File, path string) bool {
	opened, err := dir.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}

// remove removes the directory with all in it, and the user's directory where
// that was the last. It may be called more than once.
func (d *runDir) remove() {
	_ = os.RemoveAll(d.path)
	if d.lock != nil {
		_ = d.lock.Close()
	}
	_ = unix.Rmdir(filepath.Dir(d.path)) // fails while there are others
}

// sweep removes the run directories of hosts that are gone.
func sweep(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		if lock, err := lockDir(path); err == nil {
			(&runDir{path: path, lock: lock}).remove()
		}
	}
	_ = unix.Rmdir(parent)
}
