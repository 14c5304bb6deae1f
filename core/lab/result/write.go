package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Encode writes r as indented JSON and a newline.
func Encode(w io.Writer, r *Result) error {
	text, err := json.MarshalIndent(normalized(r), "", "  ")
	if err != nil {
		return fmt.Errorf("encoding result: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("writing result: %w", err)
	}
	return nil
}

// normalized returns a copy that has empty lists and maps instead of nil ones, which would be
// written as null, and times in UTC.
func normalized(r *Result) *Result {
	c := *r
	c.StartedAt = c.StartedAt.UTC()
	c.Argv = notNil(c.Argv)
	c.Placement = append([]Placement{}, c.Placement...)
	for i := range c.Placement {
		c.Placement[i].CPUs = notNil(c.Placement[i].CPUs)
		c.Placement[i].Affinity = notNil(c.Placement[i].Affinity)
	}
	c.Setup.Steps = notNil(c.Setup.Steps)
	c.Checks = notNil(c.Checks)
	c.Repeats = append([]Repeat{}, c.Repeats...)
	for i := range c.Repeats {
		repeat := &c.Repeats[i]
		repeat.StartedAt = repeat.StartedAt.UTC()
		repeat.Ranks = notNil(repeat.Ranks)
		if repeat.Samples == nil {
			repeat.Samples = map[string]float64{}
		}
	}
	c.Environment.Identity.RDMA = slices.Clone(c.Environment.Identity.RDMA)
	for i := range c.Environment.Identity.RDMA {
		device := &c.Environment.Identity.RDMA[i]
		device.Ports = notNil(device.Ports)
	}
	if c.Summary == nil {
		c.Summary = map[string]Metric{}
	}
	if c.Config.Options == nil {
		c.Config.Options = map[string]string{}
	}
	return &c
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// FileName returns the name of the file that [Write] makes for r:
// <transport>-<profile>-<UTC time>-<short id>.json.
func FileName(r *Result) string {
	return fmt.Sprintf("%s-%s-%s-%s.json", fileWord(r.Config.Transport), fileWord(r.Config.Profile),
		r.StartedAt.UTC().Format("20060102T150405Z"), ShortID(r.ID))
}

// fileWord replaces what could make a path of a name.
func fileWord(name string) string {
	word := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
			return c
		default:
			return '_'
		}
	}, name)
	return word[:min(len(word), 64)]
}

// Write stores r in dir, which it creates if needed, and returns the file's path. The file appears
// complete and durable or not at all, and never replaces another. Errors are an [*IOError].
func Write(dir string, r *Result) (path string, err error) {
	var text bytes.Buffer
	if err := Encode(&text, r); err != nil {
		return "", err
	}
	return WriteDocument(dir, FileName(r), func(w io.Writer) error { _, err := text.WriteTo(w); return err })
}

// WriteDocument is [Write] for what write writes, as a file with that name.
func WriteDocument(dir, name string, write func(io.Writer) error) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", &IOError{"making the results directory", dir, err}
	}
	path = filepath.Join(dir, name)
	if err := store(path, moveWithoutReplacing, write); err != nil {
		return "", &IOError{"writing the result", path, err}
	}
	return path, nil
}

// Replace stores what write writes as the file at path, complete and durable or not at all. Until
// then, the old file stays.
func Replace(path string, write func(io.Writer) error) error { return store(path, os.Rename, write) }

// writing replaces the name of the temporary file in err by path.
func writing(path string, err error) error {
	var open *fs.PathError
	var move *os.LinkError
	switch {
	case errors.As(err, &move):
		err = move.Err
	case errors.As(err, &open):
		err = open.Err
	}
	return &fs.PathError{Op: "write", Path: path, Err: err}
}

// store writes a temporary file beside path and moves it there.
func store(path string, move func(from, to string) error, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, TemporaryFiles)
	if err != nil {
		return writing(path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	err = write(f)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = move(f.Name(), path); err != nil {
		return writing(path, err)
	}
	return SyncDir(dir)
}

// TemporaryFiles is the pattern of files that are being written. A writer that is killed leaves
// one.
const TemporaryFiles = ".result-*.tmp"

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

// SyncDir makes a directory's entries durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// CheckWritable returns an [*IOError] if [Write] cannot store a result in dir. dir need not exist
// if it can be created. CheckWritable leaves no file behind.
func CheckWritable(dir string) error {
	const op = "checking the results directory"
	existing := filepath.Clean(dir)
	for {
		info, err := os.Stat(existing)
		switch {
		case err == nil && !info.IsDir():
			return &IOError{op, dir, &os.PathError{Op: "stat", Path: existing, Err: unix.ENOTDIR}}
		case err == nil:
			if err := tryFile(existing); err != nil {
				return &IOError{op, dir, err}
			}
			return nil
		case !errors.Is(err, os.ErrNotExist) || existing == filepath.Dir(existing):
			return &IOError{op, dir, err}
		}
		existing = filepath.Dir(existing)
	}
}

// CheckRoom returns an [*IOError] if the file system of dir, or of the directory in which dir will be
// made, has less than size bytes free.
func CheckRoom(dir string, size int64) error {
	existing := filepath.Clean(dir)
	for existing != filepath.Dir(existing) {
		if _, err := os.Stat(existing); err == nil {
			break
		}
		existing = filepath.Dir(existing)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(existing, &fs); err != nil || fs.Blocks == 0 {
		return nil // a file system that does not count its space
	}
	if free := fs.Bavail * uint64(fs.Bsize); uint64(size) > free {
		op := fmt.Sprintf("checking the results directory: the results take about %d KiB, and %d KiB are free", size>>10, free>>10)
		return &IOError{op, dir, unix.ENOSPC}
	}
	return nil
}

// tryFile writes a file in dir that is large enough to detect a full disk.
func tryFile(dir string) error {
	f, err := os.CreateTemp(dir, ".writable-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, 64<<10))
	return errors.Join(err, f.Sync(), f.Close())
}

// IOError reports that a result could not be stored. Its text is one line that ends with the
// remedy.
type IOError struct {
	Op   string
	Path string // the file or directory
	Err  error
}

func (e *IOError) Error() string {
	// e.Err may name a temporary file: only its errno is shown.
	cause, remedy := e.Err, "choose another directory with --out"
	var errno unix.Errno
	if errors.As(e.Err, &errno) {
		cause = errno
	}
	switch errno {
	case unix.ENOSPC, unix.EDQUOT:
		remedy = "free some space or " + remedy
	case unix.EACCES, unix.EPERM, unix.EROFS:
		remedy = "make it writable or " + remedy
	}
	return fmt.Sprintf("%s: %s: %v; %s", e.Op, e.Path, cause, remedy)
}

func (e *IOError) Unwrap() error { return e.Err }
