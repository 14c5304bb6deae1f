package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links a path may have, as in Linux (MAXSYMLINKS).
const maxLinks = 40

// node is a directory, a file or a symbolic link, held open for its identity only (O_PATH in
// open(2)).
type node struct {
	file *os.File // its name is the path without symbolic links, for messages
	info fs.FileInfo
}

// open opens an entry of the directory n. It takes O_NOFOLLOW to open a link itself.
func (n *node) open(name string, flags int, mode fs.FileMode) (*os.File, error) {
	return openAt(int(n.file.Fd()), n.path(name), name, flags, mode)
}

func openAt(dir int, path, name string, flags int, mode fs.FileMode) (*os.File, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, uint32(mode.Perm()))
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case err != unix.EINTR:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

func newNode(file *os.File, err error) (*node, error) {
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &node{file, info}, nil
}

// child opens an entry of the directory n.
func (n *node) child(name string) (*node, error) {
	// With O_DIRECTORY, the kernel mounts what autofs has promised; O_PATH alone leaves it
	// unmounted and empty.
	file, err := n.open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOTDIR) {
		file, err = n.open(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	}
	return newNode(file, err)
}

func (n *node) path(name string) string { return filepath.Join(n.file.Name(), name) }

func stat(n *node) *syscall.Stat_t { return n.info.Sys().(*syscall.Stat_t) }

func (n *node) isLink() bool { return n.info.Mode()&fs.ModeSymlink != 0 }

// link returns the path in the symbolic link n.
func (n *node) link() (string, error) {
	var text [unix.PathMax]byte
	length, err := unix.Readlinkat(int(n.file.Fd()), "", text[:])
	return string(text[:max(length, 0)]), err
}

// remove removes an entry of the directory n that is no directory.
func (n *node) remove(name string) error { return unix.Unlinkat(int(n.file.Fd()), name, 0) }

// rename renames an entry of the directory n. With RENAME_NOREPLACE, it fails with EEXIST if the
// new name exists.
func (n *node) rename(from, to string, flags uint) error {
	dir := int(n.file.Fd())
	err := unix.Renameat2(dir, from, dir, to, flags)
	if flags == unix.RENAME_NOREPLACE &&
		(errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)) {
		// Some network file systems lack the flag but have hard links.
		if err = unix.Linkat(dir, from, dir, to, 0); err == nil {
			return n.remove(from)
		}
	}
	return err
}

func (n *node) close() {
	if n != nil {
		n.file.Close()
	}
}

// target is where a path leads: to entry, which is name in dir.
type target struct {
	dir   *node // nil if the path ends with a slash, or is that of the root
	name  string
	entry *node // nil if dir has no such entry
	more  bool  // the path goes on after the entry that is missing
}

func (t *target) close() {
	t.dir.close()
	t.entry.close()
}

// walk follows a path from one directory to the next, by descriptor: what visit has seen, and no
// other file that takes its place, is where the path goes on. visit is called for each entry on the
// way and the last one. A link at the end is followed unless keep, which may be nil, reports that
// it is to be kept.
func walk(path string, visit func(dir, entry *node) error, keep func(dir *node, name string) bool) (
	_ *target, err error) {
	fail := func(err error) (*target, error) {
		return nil,
			&fs.PathError{Op: "open", Path: path, Err: err}
	}
	if path == "" {
		return fail(unix.ENOENT)
	}
	at, err := start(path)
	if err != nil {
		return nil, err
	}
	var next *node
	defer func() {
		if err != nil {
			at.close()
			next.close()
		}
	}()
	links := 0
	for rest := path; ; {
		name, after, more := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		if name == "" {
			if !at.info.IsDir() {
				return fail(unix.ENOTDIR)
			}
			return &target{entry: at}, nil
		}
		next, err = at.child(name)
		if errors.Is(err, fs.ErrNotExist) {
			return &target{at, name, nil, more}, nil
		}
		if err != nil {
			return nil, err
		}
		if err := visit(at, next); err != nil {
			return nil, err
		}
		switch {
		case next.isLink() && (more || keep == nil || !keep(at, name)):
			if links++; links > maxLinks {
				return fail(unix.ELOOP)
			}
			if rest, err = next.link(); err != nil {
				return fail(err)
			}
			if filepath.IsAbs(rest) {
				root, err := start(rest)
				if err != nil {
					return nil, err
				}
				at.close()
				at = root
			}
			if more {
				rest += "/" + after
			}
			next.close()
			next = nil
		case more:
			at.close()
			at, next, rest = next, nil, after
		default:
			return &target{at, name, next, false}, nil
		}
	}
}

// start returns the directory from which a path is followed.
func start(path string) (*node, error) {
	from := "."
	if filepath.IsAbs(path) {
		from = "/"
	}
	return newNode(openAt(unix.AT_FDCWD, from, from, unix.O_PATH|unix.O_DIRECTORY, 0))
}
