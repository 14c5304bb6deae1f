package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"transportbench/core/base/files"
)

// runDir is a private directory of this process below a base that users share, such as /tmp.
//
// Its name is random, so that no other user can take it first. Everything in it is removed through
// root, never by path. The marker in it tells it from a directory that only has a similar name, and
// the lock, which the process holds as long as it lives, from one that a killed process left. A
// process number would not tell, because the process may have run in another container.
type runDir struct {
	path string
	root *os.Root
	// root itself; nil if the file system has no locks, and then nobody else removes it
	lock *os.File
}

// marker is the name of a file in each run directory.
const marker = ".transportbench"

// runDirPrefix begins the names of this user's run directories.
func runDirPrefix() string { return "transportbench-" + strconv.Itoa(os.Geteuid()) + "-" }

// longestBase is the length of the longest base under which a socket's path fits into the kernel's
// limit of 107 bytes. The path continues with the run directory, go-plugin's directory and the
// socket.
const longestBase = 107 -
	len("/transportbench-4294967295-4294967295/plugin-dir4294967295/plugin4294967295")

// fits reports whether run directories for sockets can be in base.
func fits(base string) bool { return filepath.IsAbs(base) && len(base) <= longestBase }

// tempDir returns the directory below which run directories for sockets are, if XDG_RUNTIME_DIR is
// not used.
func tempDir() string {
	if dir := os.TempDir(); fits(dir) {
		return dir
	}
	return "/tmp"
}

var staleOnce sync.Once

// newRunDir makes a run directory for sockets, in XDG_RUNTIME_DIR if that is this user's alone,
// else in TMPDIR. The first call in a process removes those that killed processes left.
func newRunDir() (*runDir, error) {
	session := os.Getenv("XDG_RUNTIME_DIR")
	if !fits(session) || !isPrivate(session) || files.CheckExposed(session) != nil {
		session = ""
	}
	staleOnce.Do(func() {
		removeStale(session)
		removeStale(tempDir())
	})
	if session != "" {
		if d, err := newRunDirIn(session); err == nil {
			return d, nil
		}
	}
	var d *runDir
	err := files.CheckExposed(tempDir()) // the sockets are opened by path
	if err == nil {
		d, err = newRunDirIn(tempDir())
	}
	if err != nil {
		return nil, &SetupError{fmt.Errorf("making a directory for a plugin's socket: %w; set "+
			"TMPDIR to another directory", err)}
	}
	return d, nil
}

// newRunDirIn makes a run directory in base.
func newRunDirIn(base string) (*runDir, error) {
	path, err := os.MkdirTemp(base, runDirPrefix())
	if err != nil {
		return nil, err
	}
	d, err := openRunDir(path)
	if err == nil {
		// Without the marker, no other process removes it.
		d.take()
		if err = d.root.WriteFile(marker, nil, 0o600); err != nil {
			d.close()
		}
	}
	if err != nil {
		_ = os.Remove(path)
		return nil, err
	}
	return d, nil
}

// CheckTemp returns an error if no plugin could be started, because its socket has no place.
func CheckTemp() error {
	dir, err := newRunDir()
	if err == nil {
		dir.remove()
	}
	return err
}

// isPrivate reports whether path is a directory, not a link to one, that only this user may enter.
func isPrivate(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && isPrivateDir(info)
}

func isPrivateDir(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o077 == 0
}

// openRunDir opens a private directory of this user. Whatever replaces it, root is what was
// checked.
func openRunDir(path string) (*runDir, error) {
	// Also before it is opened, because opening may block on a FIFO.
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !isPrivateDir(info) {
		return nil, fmt.Errorf("%s is not a private directory of this user: %w", path,
			fs.ErrPermission)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	d := &runDir{path: path, root: root}
	if !d.isNamed() {
		d.close()
		return nil, fmt.Errorf("%s was replaced: %w", path, fs.ErrNotExist)
	}
	return d, nil
}

// isNamed reports whether the directory that was opened is private and still has its path.
func (d *runDir) isNamed() bool {
	opened, err := d.root.Stat(".")
	if err != nil || !isPrivateDir(opened) {
		return false
	}
	named, err := os.Lstat(d.path)
	return err == nil && os.SameFile(opened, named)
}

// take locks the directory for this process. It closes d and reports false if another process holds
// the lock or has removed the directory.
func (d *runDir) take() bool {
	lock, err := d.root.Open(".")
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), err == nil && !d.isNamed():
		_ = lock.Close()
		d.close()
		return false
	case err == nil:
		d.lock = lock
	case lock != nil:
		_ = lock.Close()
	}
	return true
}

// remove removes the directory with its contents, the marker last, and closes d. What other
// processes have put in its place stays. It may be called more than once.
func (d *runDir) remove() {
	entries, _ := fs.ReadDir(d.root.FS(), ".")
	for _, e := range entries {
		if e.Name() != marker {
			_ = d.root.RemoveAll(e.Name())
		}
	}
	_ = d.root.Remove(marker)
	if d.isNamed() {
		_ = unix.Rmdir(d.path) // fails if it is not empty
	}
	d.close()
}

func (d *runDir) close() {
	_ = d.root.Close()
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// removeStale removes the run directories that killed processes of this user left in base. One that
// has no marker may be anyone's, and stays.
func removeStale(base string) {
	entries, _ := os.ReadDir(base)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), runDirPrefix()) {
			continue
		}
		d, err := openRunDir(filepath.Join(base, e.Name()))
		if err != nil {
			continue
		}
		if _, err := d.root.Lstat(marker); err != nil || !d.take() || d.lock == nil {
			d.close()
			continue
		}
		d.remove()
	}
}
