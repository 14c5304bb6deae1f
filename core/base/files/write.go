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
// /tmp, to which everybody may add them. What it has checked is what it writes, also if others
// rename a directory on the way meanwhile.
//
// A regular file appears complete and durable or not at all: Write makes a temporary file beside it
// and renames that. The file keeps its mode and owner; a new one has the mode of the umask. Where a
// rename would break hard links, change the owner or lose an access control list, or is not
// permitted, Write copies the complete temporary file over the old one instead. It reserves the
// space first, so that a full disk leaves the old text. A crash during the copy may leave a
// mixture.
//
// A pipe, a terminal, a device, or an open descriptor of this process, such as /dev/stdout, gets
// the bytes directly, so it keeps those that were written before an error. Write waits until a
// named pipe has a reader. When ctx ends, it gives up waiting; a regular file is written all the
// same.
func Write(ctx context.Context, path string, write func(io.Writer) error) error {
	f, err := find(path)
	if err != nil {
		return failed(path, err)
	}
	defer f.close()
	if f.regular() {
		return f.replace(0, write)
	}
	return f.direct(ctx, write)
}

// Replace is [Write] for a file that is read again later: it refuses all but regular files.
func Replace(path string, write func(io.Writer) error) error {
	f, err := findRegular(path)
	if err != nil {
		return failed(path, err)
	}
	defer f.close()
	return f.replace(0, write)
}

// Create is [Replace] for a file that must not exist. It fails with an error that is [fs.ErrExist]
// if it does.
func Create(path string, write func(io.Writer) error) error {
	keepLink := func(*node, string) bool { return true }
	f, err := newFound(path, keepLink)
	if err != nil {
		return failed(path, err)
	}
	defer f.close()
	if f.entry != nil {
		return failed(path, unix.EEXIST)
	}
	return f.replace(unix.RENAME_NOREPLACE, write)
}

// CreatePrivate is [Create] for a file that only its owner may read.
func CreatePrivate(path string, write func(io.Writer) error) error {
	return Create(path, func(w io.Writer) error {
		if err := w.(named).file.Chmod(0o600); err != nil {
			return failed(path, err)
		}
		return write(w)
	})
}

// syncFile makes f durable, if it is of a kind that can be.
func syncFile(f *os.File) error {
	if err := f.Sync(); !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}

// found is the file that a path names, or its place if there is none yet.
type found struct {
	*target
	asked string // the path as the caller named it
	// descriptor is the one of this process that the path stands for, or -1.
	descriptor int
}

// regular reports whether the file is regular, or will be one.
func (f *found) regular() bool {
	return f.descriptor < 0 && (f.entry == nil || f.entry.info.Mode().IsRegular())
}

// find follows the symbolic links of a path, and checks each of them and the file. It takes each
// step itself, because the kernel checks them only if it is told to.
func find(path string) (*found, error) {
	f, err := newFound(path, isOwnDescriptor)
	if err == nil && f.entry != nil && f.entry.isLink() {
		f.descriptor, err = strconv.Atoi(f.name)
	}
	return f, err
}

func newFound(path string, keep func(*node, string) bool) (*found, error) {
	t, err := walk(path, refuseTrap, keep)
	if err != nil {
		return nil, err
	}
	switch {
	case t.entry == nil && t.more:
		err = unix.ENOENT
	case t.entry != nil && t.entry.info.IsDir():
		err = unix.EISDIR
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return &found{t, path, -1}, nil
}

// findRegular is find for files that must be regular.
func findRegular(path string) (*found, error) {
	f, err := find(path)
	if err == nil && !f.regular() {
		f.close()
		err = errors.New("not a regular file; remove it")
	}
	return f, err
}

// refuseTrap returns an error if a link or file may be a trap: a link of a user who is not
// [Trusted], or in a directory to which such users may add entries, a file of theirs or a hard
// link, whose file may be any. Linux has similar rules for sticky directories, as
// fs.protected_symlinks, _fifos, _regular and _hardlinks, which may be off.
func refuseTrap(dir, entry *node) error {
	if entry.info.IsDir() {
		return nil
	}
	has, in := stat(entry), stat(dir)
	everybody := dir.info.Mode().Perm()&0o002 != 0
	problem := ""
	switch {
	case entry.isLink() && !Trusted(has.Uid):
		problem = fmt.Sprintf("is a symbolic link of user %d", has.Uid)
	case everybody && !Trusted(has.Uid) && has.Uid != in.Uid:
		problem = fmt.Sprintf("belongs to user %d and is in a directory that everybody may write",
			has.Uid)
	case has.Nlink > 1 && (!Trusted(in.Uid) || writers(dir) != ""):
		problem = fmt.Sprintf("has %d hard links and is in a directory that others may write",
			has.Nlink)
	default:
		return nil
	}
	return fmt.Errorf("%s %s; name another file", entry.file.Name(), problem)
}

// isOwnDescriptor reports whether an entry of dir stands for a descriptor of this process.
func isOwnDescriptor(dir *node, name string) bool {
	_, err := strconv.Atoi(name)
	return err == nil && dir.file.Name() == ownDescriptors()
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
func (f *found) direct(ctx context.Context, write func(io.Writer) error) error {
	to, err := f.waitForReader(ctx)
	if err != nil {
		return failed(f.asked, err)
	}
	// A writer that waits for a slow reader of a pipe gives up.
	stop := context.AfterFunc(ctx, func() { _ = to.SetWriteDeadline(time.Now()) })
	defer stop()
	defer to.Close()
	if err := write(named{to, f.asked}); errors.Is(err, os.ErrDeadlineExceeded) {
		return ctx.Err()
	} else if err != nil {
		return err
	}
	if err := syncFile(to); err != nil {
		return failed(f.asked, err)
	}
	return failed(f.asked, to.Close())
}

// waitForReader opens a file that is not regular.
func (f *found) waitForReader(ctx context.Context) (*os.File, error) {
	if f.descriptor >= 0 {
		// A duplicate keeps the file position, and works for files that cannot be reopened.
		fd, err := unix.FcntlInt(uintptr(f.descriptor), unix.F_DUPFD_CLOEXEC, 0)
		return os.NewFile(uintptr(fd), f.asked), err
	}
	for {
		to, err := f.openEntry()
		if f.entry.info.Mode()&fs.ModeNamedPipe == 0 || !errors.Is(err, unix.ENXIO) {
			return to, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(readerInterval):
		}
	}
}

// openEntry opens the file for writing, and no other that has taken its place. It does not wait, so
// that a pipe in its place cannot block it.
func (f *found) openEntry() (*os.File, error) {
	file, err := f.dir.open(f.name,
		unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !os.SameFile(info, f.entry.info) {
		file.Close()
		return nil, errors.New("it was replaced meanwhile")
	}
	return file, nil
}

// replace writes a temporary file and makes it the entry, by a rename with flags, which are those
// of renameat2(2).
func (f *found) replace(flags uint, write func(io.Writer) error) (err error) {
	mode := fs.FileMode(0o666) // less the umask
	if f.entry != nil {
		mode = 0o600 // until it has that of the old file
	}
	temp, name, err := temporary(f.dir, mode)
	elsewhere := f.entry != nil && refused(err)
	if elsewhere {
		temp, err = scratchElsewhere()
	}
	if err != nil {
		return failed(f.asked, err)
	}
	defer temp.Close()
	moved := elsewhere // there is no name to remove
	defer func() {
		if !moved {
			_ = f.dir.remove(name)
		}
	}()
	if err := write(named{temp, f.asked}); err != nil {
		return err
	}
	if elsewhere || f.entry != nil && !matchOwner(temp, f.entry) {
		return failed(f.asked, f.overwrite(temp))
	}
	if err := syncFile(temp); err != nil {
		return failed(f.asked, err)
	}
	err = f.dir.rename(name, f.name, flags)
	if f.entry != nil && refused(err) {
		return failed(f.asked, f.overwrite(temp))
	}
	if moved = err == nil; !moved {
		return failed(f.asked, err)
	}
	return failed(f.asked, syncDir(f.dir))
}

// refused reports whether err means that a directory may not be changed, or that the file in it is
// a mount point.
func refused(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) ||
		errors.Is(err, unix.EBUSY)
}

// matchOwner gives file the owner and the mode of the file that it is to replace. It reports
// whether file can take its place: not if that needs rights that this user lacks, or would break
// hard links or lose an access control list.
func matchOwner(file *os.File, old *node) bool {
	info, err := file.Stat()
	if err != nil {
		return false
	}
	has, needs := info.Sys().(*syscall.Stat_t), stat(old)
	if needs.Nlink > 1 || hasACL(old) {
		return false
	}
	if has.Uid != needs.Uid || has.Gid != needs.Gid {
		if err := file.Chown(int(needs.Uid), int(needs.Gid)); err != nil {
			return false
		}
	}
	return file.Chmod(old.info.Mode().Perm()) == nil
}

// overwrite copies the complete file from over the entry.
func (f *found) overwrite(from *os.File) (err error) {
	to, err := f.openEntry()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	size, err := from.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size > 0 {
		err = unix.Fallocate(int(to.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENOSYS) {
			return err
		}
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return errors.Join(to.Truncate(size), syncFile(to))
}

// temporary makes a file in dir.
func temporary(dir *node, mode fs.FileMode) (file *os.File, name string, err error) {
	for {
		name = strings.Replace(TemporaryFiles, "*", strconv.FormatUint(rand.Uint64(), 16), 1)
		file, err = dir.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return file, name, err
		}
	}
}

// scratch makes a file without a name in dir.
func scratch(dir *node) (*os.File, error) {
	file, name, err := temporary(dir, 0o600)
	if err != nil {
		return nil, err
	}
	if err := dir.remove(name); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// scratchElsewhere makes a file without a name in TMPDIR.
func scratchElsewhere() (*os.File, error) {
	t, err := walk(os.TempDir(), refuseTrap, nil)
	switch {
	case err != nil:
		return nil, err
	case t.entry == nil:
		err = unix.ENOENT
	}
	defer t.close()
	if err != nil {
		return nil, err
	}
	return scratch(t.entry)
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

// Temporary returns an empty file without a name, in dir or the nearest directory above it that
// exists. It is gone when it is closed everywhere. Other processes of this user open it by the path
// of [PathOf].
func Temporary(dir string) (*os.File, error) {
	for {
		file, err := os.OpenFile(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		switch parent := filepath.Dir(dir); {
		case errors.Is(err, unix.ENOENT) && parent != dir:
			dir = parent
			continue
		case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR):
			file, err = os.CreateTemp(dir, TemporaryFiles)
			if err == nil {
				err = os.Remove(file.Name())
			}
			return file, failed(dir, err)
		default:
			return file, failed(dir, err)
		}
	}
}

// PathOf returns the path by which processes of this user open a file that this process has open.
func PathOf(file *os.File) string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), file.Fd())
}
