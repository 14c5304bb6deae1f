package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// TemporaryFiles is the pattern of files that are being written. A writer that is killed leaves
// one.
const TemporaryFiles = ".result-*.tmp"

// readerInterval is the time after which a named pipe without a reader is tried again.
const readerInterval = 20 * time.Millisecond

// WriteError reports that a file could not be written. Its text is one line with the remedy, if
// there is a common one.
type WriteError struct {
	Path string // as the caller named it; never that of a temporary file
	Err  error
}

func (e *WriteError) Error() string {
	text := fmt.Sprintf("write %s: %v", e.Path, e.Err)
	if remedy := Remedy(e.Err); remedy != "" {
		text += "; " + remedy
	}
	return text
}

func (e *WriteError) Unwrap() error { return e.Err }

// Remedy returns what a user can do about the errno in err, or "".
func Remedy(err error) string {
	var errno unix.Errno
	errors.As(err, &errno)
	switch errno {
	case unix.ENOSPC, unix.EDQUOT:
		return "free some space"
	case unix.EACCES, unix.EPERM, unix.EROFS:
		return "make it writable"
	}
	return ""
}

// failed returns err as a [*WriteError] of path, without the name that err itself has.
func failed(path string, err error) error {
	var done *WriteError
	if err == nil || errors.As(err, &done) {
		return err
	}
	var of *fs.PathError
	var move *os.LinkError
	var call *os.SyscallError
	switch {
	case errors.As(err, &of):
		err = of.Err
	case errors.As(err, &move):
		err = move.Err
	case errors.As(err, &call):
		err = call.Err
	}
	return &WriteError{path, err}
}

// Write stores what write writes in the file at path. Errors of the file are a [*WriteError];
// others are those of write.
//
// Write follows symbolic links. It refuses links and files of other users in a directory such as
// /tmp, to which everybody may add them.
//
// A regular file appears complete and durable or not at all: Write makes a temporary file beside it
// and renames that. The file keeps its mode and owner; a new one has the mode of the umask. Where a
// rename would break hard links or change the owner, or is not permitted, Write copies the complete
// temporary file over the old one instead. It reserves the space first, so that a full disk leaves
// the old text. A crash during the copy may leave a mixture.
//
// A pipe, a terminal, a device, or an open descriptor of this process, such as /dev/stdout, gets
// the bytes directly, so it keeps those that were written before an error. Write waits until a
// named pipe has a reader. When ctx ends, it gives up waiting; a regular file is written all the
// same.
func Write(ctx context.Context, path string, write func(io.Writer) error) error {
	t, err := find(path)
	switch {
	case err != nil:
		return failed(path, err)
	case t.regular():
		return t.replace(os.Rename, write)
	}
	return t.direct(ctx, write)
}

// Replace is [Write] for a file that is read again later: it refuses all but regular files.
func Replace(path string, write func(io.Writer) error) error {
	t, err := findRegular(path)
	if err != nil {
		return failed(path, err)
	}
	return t.replace(os.Rename, write)
}

// CheckDir returns an error if [Write] would refuse every file in a directory, because a link on the
// way to it may be a trap. The directory need not exist.
func CheckDir(dir string) error {
	_, err := find(dir + "/" + strings.Replace(TemporaryFiles, "*", "x", 1))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return failed(dir, err)
}

// Create is [Replace] for a file that must not exist. It fails with an error that is [fs.ErrExist]
// if it does.
func Create(path string, write func(io.Writer) error) error {
	if err := CheckDir(filepath.Dir(path)); err != nil {
		return err
	}
	t := &target{asked: path, path: path, descriptor: -1}
	return t.replace(moveWithoutReplacing, write)
}

// Append opens a regular file for writing at its end.
func Append(path string) (*os.File, error) {
	t, err := findRegular(path)
	if err != nil {
		return nil, failed(path, err)
	}
	f, err := t.open(os.O_APPEND | unix.O_NONBLOCK)
	return f, failed(path, err)
}

// Try returns an error if a file of size bytes cannot be written in dir. It leaves no file behind.
func Try(dir string, size int) error {
	f, err := temporary(dir, 0o600)
	if err == nil {
		defer os.Remove(f.Name())
		_, err = f.Write(make([]byte, size))
		err = errors.Join(err, syncFile(f), f.Close())
	}
	return failed(dir, err)
}

// SyncDir makes a directory's entries durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil // a directory that may be written and not read
	case err != nil:
		return err
	}
	return errors.Join(syncFile(d), d.Close())
}

// syncFile makes f durable, if it is of a kind that can be.
func syncFile(f *os.File) error {
	if err := f.Sync(); !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// target is the file at the end of a path.
type target struct {
	asked string      // the path as the caller named it
	path  string      // without symbolic links
	info  fs.FileInfo // nil if there is no file yet
	// descriptor is the one of this process that the path stands for, or -1.
	descriptor int
}

// regular reports whether t is a regular file, or will be one.
func (t *target) regular() bool {
	return t.descriptor < 0 && (t.info == nil || t.info.Mode().IsRegular())
}

// find follows the symbolic links of a path, and checks each of them and the file. It takes each
// step itself, because the kernel checks them only if it is told to.
func find(path string) (*target, error) {
	const maxLinks = 40 // as in Linux
	if path == "" {
		return nil, unix.ENOENT
	}
	at, rest := root(path, "."), path
	for links := 0; links <= maxLinks; {
		name, after, more := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		if name == "" { // the path ends with a slash
			return nil, notFile(at)
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case !more && errors.Is(err, fs.ErrNotExist):
			return &target{path, next, nil, -1}, nil
		case err != nil:
			return nil, err
		case info.IsDir(), more && info.Mode()&fs.ModeSymlink == 0:
			at, rest = next, after
			continue
		}
		if err := check(at, next, info); err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return &target{path, next, info, -1}, nil
		}
		if n, err := strconv.Atoi(name); err == nil && !more && at == ownDescriptors() {
			return &target{path, next, nil, n}, nil
		}
		if rest, err = os.Readlink(next); err != nil {
			return nil, err
		}
		at = root(rest, at)
		if more {
			rest += "/" + after
		}
		links++
	}
	return nil, unix.ELOOP
}

// findRegular is find for files that must be regular.
func findRegular(path string) (*target, error) {
	t, err := find(path)
	if err == nil && !t.regular() {
		err = errors.New("not a regular file; remove it")
	}
	return t, err
}

// root returns the directory from which a path is followed: the root or at.
func root(path, at string) string {
	if filepath.IsAbs(path) {
		return "/"
	}
	return at
}

// notFile returns why a path that ends with a directory's name is not that of a file.
func notFile(dir string) error {
	if info, err := os.Lstat(dir); err != nil || info.IsDir() {
		return unix.EISDIR
	}
	return unix.ENOTDIR
}

// check returns an error if the link or file at path, in the directory dir, may be a trap: a link of a
// user who is not [Trusted], or in a directory to which such users may add entries, a file of theirs
// or a hard link, whose file may be any. Linux has similar rules for sticky directories, as
// fs.protected_symlinks, _fifos, _regular and _hardlinks, which may be off.
func check(dir, path string, entry fs.FileInfo) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	has, in := entry.Sys().(*syscall.Stat_t), info.Sys().(*syscall.Stat_t)
	everybody := info.Mode().Perm()&0o002 != 0
	problem := ""
	switch {
	case entry.Mode()&fs.ModeSymlink != 0 && !Trusted(has.Uid):
		problem = fmt.Sprintf("is a symbolic link of user %d", has.Uid)
	case everybody && !Trusted(has.Uid) && has.Uid != in.Uid:
		problem = fmt.Sprintf("belongs to user %d and is in a directory that everybody may write", has.Uid)
	case (everybody || !Trusted(in.Uid)) && has.Nlink > 1:
		problem = fmt.Sprintf("has %d hard links and is in a directory that others may write", has.Nlink)
	default:
		return nil
	}
	return fmt.Errorf("%s %s; name another file", path, problem)
}

// ownDescriptors returns the directory with a link for each descriptor of this process. Its links
// have no path to follow if they are of pipes, sockets or deleted files.
func ownDescriptors() string {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return ""
	}
	return filepath.Join("/proc", self, "fd")
}

// direct writes a file that is not regular.
func (t *target) direct(ctx context.Context, write func(io.Writer) error) error {
	f, err := t.waitForReader(ctx)
	if err != nil {
		return failed(t.asked, err)
	}
	// A writer that waits for a slow reader of a pipe gives up.
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Now()) })
	defer stop()
	defer f.Close()
	if err := write(named{f, t.asked}); errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	} else if err != nil {
		return err
	}
	if err := syncFile(f); err != nil {
		return failed(t.asked, err)
	}
	return failed(t.asked, f.Close())
}

// waitForReader opens a file that is not regular.
func (t *target) waitForReader(ctx context.Context) (*os.File, error) {
	if t.descriptor >= 0 {
		// A copy, and not the path, has the position, also of what cannot be opened again.
		fd, err := unix.FcntlInt(uintptr(t.descriptor), unix.F_DUPFD_CLOEXEC, 0)
		return os.NewFile(uintptr(fd), t.asked), err
	}
	if t.info.Mode()&fs.ModeNamedPipe == 0 {
		return t.open(0)
	}
	for {
		f, err := t.open(unix.O_NONBLOCK)
		if !errors.Is(err, unix.ENXIO) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(readerInterval):
		}
	}
}

// open opens the file that find has found for writing, and no other that has taken its place.
func (t *target) open(flags int) (*os.File, error) {
	f, err := os.OpenFile(t.path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NOCTTY|flags, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !os.SameFile(info, t.info) {
		f.Close()
		return nil, errors.New("it was replaced meanwhile")
	}
	return f, nil
}

// replace writes a temporary file and makes it the target.
func (t *target) replace(move func(from, to string) error, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(t.path)
	mode := fs.FileMode(0o666) // less the umask
	if t.info != nil {
		mode = 0o600 // until it has that of the old file
	}
	f, err := temporary(dir, mode)
	elsewhere := t.info != nil && refused(err)
	if elsewhere {
		f, err = temporary(os.TempDir(), mode)
	}
	if err != nil {
		return failed(t.asked, err)
	}
	defer f.Close()
	moved := false
	defer func() {
		if !moved {
			os.Remove(f.Name())
		}
	}()
	if err := write(named{f, t.asked}); err != nil {
		return err
	}
	if elsewhere || t.info != nil && !alike(f, t.info) {
		return failed(t.asked, t.overwrite(f))
	}
	if err := syncFile(f); err != nil {
		return failed(t.asked, err)
	}
	err = move(f.Name(), t.path)
	if t.info != nil && refused(err) {
		return failed(t.asked, t.overwrite(f))
	}
	if moved = err == nil; !moved {
		return failed(t.asked, err)
	}
	return failed(t.asked, SyncDir(dir))
}

// refused reports whether err means that a directory may not be changed, or that the file in it is
// a mount point.
func refused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EBUSY)
}

// alike gives f the owner and the mode of the file that it is to replace. It reports whether f can
// take its place: not if that needs rights that this user lacks, or would break hard links.
func alike(f *os.File, old fs.FileInfo) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	has, needs := info.Sys().(*syscall.Stat_t), old.Sys().(*syscall.Stat_t)
	if needs.Nlink > 1 {
		return false
	}
	if has.Uid != needs.Uid || has.Gid != needs.Gid {
		if err := f.Chown(int(needs.Uid), int(needs.Gid)); err != nil {
			return false
		}
	}
	return f.Chmod(old.Mode().Perm()) == nil
}

// overwrite copies the complete file f over the target.
func (t *target) overwrite(f *os.File) (err error) {
	to, err := t.open(unix.O_NONBLOCK) // a pipe that has taken its place must not block
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size > 0 {
		err = unix.Fallocate(int(to.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(to, f); err != nil {
		return err
	}
	return errors.Join(to.Truncate(size), syncFile(to))
}

// temporary makes a file in dir.
func temporary(dir string, mode fs.FileMode) (*os.File, error) {
	for {
		name := strings.Replace(TemporaryFiles, "*", strconv.FormatUint(rand.Uint64(), 16), 1)
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// named writes to a file. Its errors have the path that was asked for.
type named struct {
	file *os.File
	path string
}

func (w named) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	return n, failed(w.path, err)
}

// moveWithoutReplacing renames a file. It fails with EEXIST if the new name exists.
func moveWithoutReplacing(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// Some network file systems lack the flag but have hard links.
		if err = os.Link(from, to); err == nil {
			return os.Remove(from)
		}
	}
	return err
}
