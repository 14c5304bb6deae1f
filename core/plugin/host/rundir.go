package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// runDir is a private directory in which one plugin makes its socket. It exists from the start of a
// launch until the connection stands.
//
// The host holds a lock on the directory as long as it lives, so a directory without a lock belongs
// to a dead host. A process number would not tell, because the host may have run in another
// container.
type runDir struct {
	path string
	lock *os.File // nil if the file system has no locks; then nobody removes the directory
}

// longestBase is the length of the longest directory under which a socket's path fits into the
// kernel's limit of 107 bytes. The path continues with the run's directory, go-plugin's and the
// socket.
const longestBase = 107 - len("/transportbench-4294967295/plugin-dir4294967295/plugin4294967295")

// baseDir returns the directory in which run directories are made.
func baseDir() string {
	if dir := os.TempDir(); len(dir) <= longestBase && filepath.IsAbs(dir) {
		return dir
	}
	return "/tmp"
}

const runDirPrefix = "transportbench-"

var staleOnce sync.Once

// newRunDir makes a run directory. The first call in a process removes those of dead hosts.
func newRunDir() (*runDir, error) {
	base := baseDir()
	staleOnce.Do(func() { removeStale(base) })
	for range 100 {
		path, err := os.MkdirTemp(base, runDirPrefix) // private to the user
		if err != nil {
			return nil, fmt.Errorf("making a directory for a plugin's socket: %w; set TMPDIR to another directory", err)
		}
		lock, err := lockDir(path)
		// Another host may take the new directory for a stale one before it is locked.
		if !errors.Is(err, errTaken) {
			return &runDir{path: path, lock: lock}, nil
		}
	}
	return nil, fmt.Errorf("making a directory for a plugin's socket: other hosts keep removing it from %s", base)
}

// errTaken means that another process holds the lock or has removed the directory.
var errTaken = errors.New("taken")

// lockDir locks a directory as long as the returned file is open. Any error other than errTaken
// means that the file system has no such locks.
func lockDir(path string) (*os.File, error) {
	dir, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, errTaken
	}
	err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errTaken
	}
	if err == nil && !unchanged(dir, path) {
		err = errTaken
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// unchanged reports whether path still names the directory that was opened.
func unchanged(dir *os.File, path string) bool {
	opened, err := dir.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}

// remove removes the directory with its contents. It may be called more than once.
func (d *runDir) remove() {
	_ = os.RemoveAll(d.path)
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// removeStale removes this user's run directories of dead hosts in base.
func removeStale(base string) {
	paths, err := filepath.Glob(filepath.Join(base, runDirPrefix+"*"))
	if err != nil {
		return // base has the form of a bad pattern
	}
	for _, path := range paths {
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) != nil || int(stat.Uid) != os.Getuid() {
			continue
		}
		if lock, err := lockDir(path); err == nil {
			(&runDir{path: path, lock: lock}).remove()
		}
	}
}
