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
	"transportbench/core/lab/store/result"
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
	var stale []string
	for i := range s.Cells {
		for _, f := range s.Cells[i].Files {
			file := f.path(dir)
			info, err := os.Stat(file)
			switch {
			case err != nil:
				return nil, fmt.Errorf("reading %s: cells[%d]: %w", path, i, err)
			case info.Size() != f.Bytes && filepath.Base(file) == filepath.Base(f.Name):
				stale = append(stale, f.Name)
			}
		}
	}
	if len(stale) > 0 {
		if s, err = s.renewed(dir, stale); err != nil {
			return nil, err
		}
	}
	return s, s.renewOld(dir)
}

// renewed replaces the cells whose files have changed since the index was written.
func (s *Set) renewed(dir string, stale []string) (*Set, error) {
	var kept []Cell
	again := map[string]bool{}
	for _, c := range s.Cells {
		if !slices.ContainsFunc(c.Files,
			func(f File) bool { return slices.Contains(stale, f.Name) }) {
			kept = append(kept, c)
			continue
		}
		for _, f := range c.Files {
			again[f.Name] = true
		}
	}
	s.Cells = kept
	for _, name := range stale {
		if !again[name] {
			continue
		}
		if err := s.addFile(dir, name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Set) addFile(dir, name string) error {
	path := filepath.Join(dir, name)
	r, err := result.Read(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return s.Add(r, File{name, info.Size()})
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
	read := make([]*Set, len(paths))
	err := parallel.Each(len(paths), func(i int) (err error) {
		if path := paths[i]; IsIndex(path) {
			read[i], err = l.loadIndexed(filepath.Dir(path))
		} else {
			read[i], err = l.file(path, files.Read)
		}
		switch {
		case errors.Is(err, errCalibration):
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
	if read = slices.DeleteFunc(read, func(s *Set) bool { return s == nil }); len(read) == 0 {
		return nil, fmt.Errorf("reading results: %s has no result files, only a calibration; "+
			"transportbench calibrate show %s shows it", dir, paths[0])
	}
	whole := read[0]
	whole.Include(read[1:]...)
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
