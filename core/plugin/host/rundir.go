package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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
// kernel's limit of 107 bytes. The path continues with the user's directory, the run's, go-plugin's
// and the socket.
const longestBase = 107 - len("/transportbench-4294967295/4194304-4294967295/plugin-dir4294967295/plugin4294967295")

// baseDir returns the directory in which the user's directory is made.
func baseDir() string {
	if dir := os.TempDir(); len(dir) <= longestBase && filepath.IsAbs(dir) {
		return dir
	}
	return "/tmp"
}

// userDir returns the parent of this user's run directories. Nothing else may be in it, because
// removeStale removes what it finds there.
func userDir() string {
	return filepath.Join(baseDir(), "transportbench-"+strconv.Itoa(os.Getuid()))
}

var staleOnce sync.Once

// newRunDir makes a run directory. The first call in a process removes those of dead hosts.
func newRunDir() (*runDir, error) {
	parent := userDir()
	staleOnce.Do(func() { removeStale(parent) })
	return newRunDirIn(parent)
}

func newRunDirIn(parent string) (*runDir, error) {
	// Another host that ends now may remove the parent, or take the new directory for a stale one
	// before it is locked.
	for range 100 {
		if err := makePrivate(parent); err != nil {
			return nil, err
		}
		path, err := os.MkdirTemp(parent, strconv.Itoa(os.Getpid())+"-")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("making a directory for a plugin's socket: %w; set TMPDIR to another directory", err)
		}
		lock, err := lockDir(path)
		if errors.Is(err, errTaken) {
			continue
		}
		return &runDir{path: path, lock: lock}, nil
	}
	return nil, fmt.Errorf("making a directory for a plugin's socket: other hosts keep removing %s", parent)
}

// CheckTemp returns an error if no plugin could be started, because its socket has no place.
func CheckTemp() error {
	dir, err := newRunDir()
	if err == nil {
		dir.remove()
	}
	return err
}

// makePrivate makes the user's directory, or checks that an existing one belongs to this user alone:
// in a shared /tmp another user may have made it first.
func makePrivate(path string) error {
	err := os.Mkdir(path, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making a directory for a plugin's socket: %w; set TMPDIR to another directory", err)
	}
	var stat unix.Stat_t
	err = unix.Lstat(path, &stat)
	if errors.Is(err, unix.ENOENT) {
		return nil // removed meanwhile; the caller tries again
	}
	if err != nil {
		return fmt.Errorf("checking %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Getuid() || stat.Mode&0o077 != 0 {
		return fmt.Errorf("%s is not a private directory of this user: remove it, or set TMPDIR to another directory", path)
	}
	return nil
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

// remove removes the directory with its contents, and the user's directory if that is empty then.
// It may be called more than once.
func (d *runDir) remove() {
	_ = os.RemoveAll(d.path)
	if d.lock != nil {
		_ = d.lock.Close()
	}
	_ = unix.Rmdir(filepath.Dir(d.path)) // fails while it has other directories
}

// removeStale removes the run directories of dead hosts in parent.
func removeStale(parent string) {
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
