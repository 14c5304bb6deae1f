package set

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Loader reads sets that grow. It keeps what files held, until a load does not
// come across them. Its zero value is ready for use; nil keeps nothing.
type Loader struct {
	mu    sync.Mutex
	known map[string]*kept
}

type kept struct {
	size    int64
	changed time.Time
	set     *Set
	used    bool // by the load that is going on
}

// file is loadFile of a file that may be known.
func (l *Loader) file(path string) (*Set, error) {
	if l == nil {
		return loadFile(path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	l.mu.Lock()
	k := l.known[path]
	l.mu.Unlock()
	if k == nil || k.size != info.Size() || !k.changed.Equal(info.ModTime()) {
		s, err := loadFile(path)
		if err != nil {
			return nil, err
		}
		k = &kept{size: info.Size(), changed: info.ModTime(), set: s}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]*kept{}
	}
	l.known[path], k.used = k, true
	return k.set.clone(), nil
}

// forget drops what the last load did not use.
func (l *Loader) forget() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for path, k := range l.known {
		if !k.used {
			delete(l.known, path)
		}
		k.used = false
	}
}

// clone copies what merging and moving cells changes.
func (s *Set) clone() *Set {
	c := *s
	c.Environments = slices.Clone(s.Environments)
	c.Cells = slices.Clone(s.Cells)
	for i := range c.Cells {
		cell := &c.Cells[i]
		cell.Samples = maps.Clone(cell.Samples)
		for name, values := range cell.Samples {
			cell.Samples[name] = slices.Clone(values)
		}
		cell.Warnings, cell.Files, cell.Results = slices.Clone(cell.Warnings), slices.Clone(cell.Files), slices.Clone(cell.Results)
	}
	return &c
}

// Fingerprint changes when files of results at path are added, changed or
// removed. It looks at names, sizes and times alone.
func Fingerprint(path string) (string, error) {
	h := fnv.New128a()
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a sweep moves its files
		}
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".json" || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("looking at results: %w", err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
