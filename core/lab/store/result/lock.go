package result

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// LockName is the name of the file by which a process locks a directory of results. A process that
// is killed leaves it, unlocked.
const LockName = ".transportbench.lock"

// Lock keeps other processes that call [LockDir] out of a directory.
type Lock struct{ file *os.File }

// LockDir locks a directory until the lock is closed or this process ends. The kernel lets
// everybody lock what they may open, so the lock is on a file that only this user may open, and not
// on the directory.
func LockDir(dir string) (*Lock, error) {
	path := filepath.Join(dir, LockName)
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err == nil {
			err = checkLock(file)
		} else if _, there := os.Lstat(path); there == nil {
			err = fmt.Errorf(
				"%w: this user did not make it; remove it if no command uses the directory", err)
		}
		if err != nil {
			file.Close()
			return nil, err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			file.Close()
			return nil, fmt.Errorf("%s: another process uses this directory: %w", dir, err)
		}
		l := &Lock{file}
		if l.isNamed() {
			return l, nil
		}
		file.Close() // its owner removed it between the two calls
	}
}

// checkLock returns an error if other users may open the file, and so lock it.
func checkLock(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.Mode().IsRegular() || int(stat.Uid) != os.Geteuid() ||
		info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s belongs to another user or is open to others, who could hold the "+
			"lock; remove it if no command uses the directory", file.Name())
	}
	return nil
}

// isNamed reports whether the locked file still has its name.
func (l *Lock) isNamed() bool {
	opened, err := l.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(l.file.Name())
	return err == nil && os.SameFile(opened, named)
}

// Close unlocks the directory and removes the file.
func (l *Lock) Close() {
	if l.isNamed() {
		_ = os.Remove(l.file.Name())
	}
	_ = l.file.Close()
}
