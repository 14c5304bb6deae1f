package set

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"transportbench/core/base/files"
	"transportbench/core/base/parallel"
)

// IsIndex reports whether a path is that of an index, which may be compressed.
func IsIndex(path string) bool {
	return strings.TrimSuffix(filepath.Base(path), ".gz") == IndexName
}

// loadIndexed reads a directory that has an index.
func (l *Loader) loadIndexed(dir string) (*Set, error) {
	path := files.Packed(filepath.Join(dir, IndexName))
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	s, err := l.file(path, files.Read)
	if err != nil {
		return nil, err
	}
	for i := range s.Cells {
		for _, f := range s.Cells[i].Files {
			file := f.path(dir)
			info, err := os.Stat(file)
			switch {
			case err != nil:
				return nil, fmt.Errorf("reading %s: cells[%d]: %w", path, i, err)
			case info.Size() != f.Bytes && filepath.Base(file) == filepath.Base(f.Name):
				return nil, fmt.Errorf("reading %s: cells[%d]: %s has another length now; "+
					"without the index, the files are read", path, i, file)
			}
		}
	}
	return s, s.renewOld(dir)
}

// loadLoose reads every result file in and below a directory without an index. Sets below it are
// read by their indexes.
func (l *Loader) loadLoose(dir string) (*Set, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != dir && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.Type().IsRegular() && isResult(path) &&
			!strings.HasPrefix(entry.Name(), ".") && entry.Name() != BlessedName:
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	indexed := map[string]bool{} // directories
	for _, path := range files {
		if IsIndex(path) {
			indexed[filepath.Dir(path)] = true
		}
	}
	files = slices.DeleteFunc(files, func(path string) bool {
		return !IsIndex(path) && below(filepath.Dir(path), indexed)
	})
	if len(files) == 0 {
		return nil, fmt.Errorf("reading results: %s has no result files", dir)
	}
	return l.loadAll(dir, files)
}

// below reports whether dir is, or lies in, an indexed directory.
func below(dir string, indexed map[string]bool) bool {
	for ; ; dir = filepath.Dir(dir) {
		if indexed[dir] {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// loadAll reads files in parallel and merges them in order.
func (l *Loader) loadAll(dir string, paths []string) (*Set, error) {
	read, skipped := make([]*Set, len(paths)), make([]*otherError, len(paths))
	err := parallel.Each(len(paths), func(i int) (err error) {
		if path := paths[i]; IsIndex(path) {
			read[i], err = l.loadIndexed(filepath.Dir(path))
		} else {
			read[i], err = l.file(path, files.Read)
		}
		switch {
		case errors.As(err, &skipped[i]):
			return nil
		case err != nil:
			return err
		}
		prefix, err := filepath.Rel(dir, filepath.Dir(paths[i]))
		read[i].move(prefix)
		return err
	})
	if err != nil {
		return nil, err
	}
	read = slices.DeleteFunc(read, func(s *Set) bool { return s == nil })
	skipped = slices.DeleteFunc(skipped, func(e *otherError) bool { return e == nil })
	if len(read) == 0 {
		return nil, fmt.Errorf("reading results: %s has no result files: %w", dir, skipped[0])
	}
	whole := read[0]
	whole.Include(read[1:]...)
	for _, other := range skipped {
		if !other.known {
			whole.Skipped = append(whole.Skipped, other.Error())
		}
	}
	return whole, nil
}

// move prepends prefix to the names of the cells' files.
func (s *Set) move(prefix string) {
	for i := range s.Cells {
		for f := range s.Cells[i].Files {
			s.Cells[i].Files[f].Name = filepath.Join(prefix, s.Cells[i].Files[f].Name)
		}
	}
}
