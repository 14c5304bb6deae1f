package files

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// MakeDir makes a directory and those above it that are missing, with the mode 0755 less the umask.
// It follows symbolic links as [Write] does, and refuses the same ones. Errors are a [*WriteError].
func MakeDir(path string) error {
	for {
		t, err := walk(path, refuseTrap, nil)
		if err != nil {
			return failed(path, err)
		}
		missing := t.entry == nil
		switch {
		case missing:
			if err = unix.Mkdirat(int(t.dir.file.Fd()), t.name, 0o755); err == nil {
				err = syncDir(t.dir)
			} else if errors.Is(err, fs.ErrExist) { // another process made it
				err = nil
			}
		case !t.entry.info.IsDir():
			err = unix.ENOTDIR
		}
		t.close()
		if err != nil || !missing {
			return failed(path, err)
		}
	}
}

// Try returns an error if a file of size bytes cannot be written in a directory. If that is
// missing, Try writes in the directory in which [MakeDir] would make it. It leaves no file behind.
func Try(dir string, size int) error {
	t, err := walk(dir, refuseTrap, nil)
	if err != nil {
		return failed(dir, err)
	}
	defer t.close()
	in := t.entry
	if in == nil {
		in = t.dir
	}
	if !in.info.IsDir() {
		return failed(dir, unix.ENOTDIR)
	}
	f, err := scratch(in)
	if err == nil {
		_, err = f.Write(make([]byte, size))
		err = errors.Join(err, syncFile(f), f.Close())
	}
	return failed(dir, err)
}

// syncDir makes a directory's entries durable.
func syncDir(dir *node) error {
	d, err := dir.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil // a directory that may be written and not read
	case err != nil:
		return err
	}
	return errors.Join(syncFile(d), d.Close())
}
