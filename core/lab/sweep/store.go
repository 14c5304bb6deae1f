package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"transportbench/core/lab/result"
	"transportbench/core/lab/result/set"
	"transportbench/core/lab/runner"
)

// The files of a sweep's directory. A repeat is a result of its own until all
// of its cell are there, which then become one.
const (
	planName   = "sweep.plan"
	cellsDir   = "cells"
	repeatsDir = "repeats"
)

// Origin is what a sweep is made with. It may not change while it goes on.
type Origin struct {
	// Plugins has the SHA-256 of each transport's binary.
	Plugins map[string]string `json:"plugins"`
	// Machine is its identity, as text.
	Machine map[string]string `json:"machine"`
}

// entry is the file that begins a sweep.
type entry struct {
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	Origin Origin `json:"origin"`
	Plan   *Plan  `json:"plan"`
}

// ChangedError says that a sweep cannot go on since something is not what it
// was.
type ChangedError struct{ Dir, What string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s: %s; use another --out for a new sweep", e.Dir, e.What)
}

// ErrExists is wrapped by the error for a directory that has a sweep already.
var ErrExists = errors.New("there is a sweep already")

// store keeps what a sweep has measured. It is used by one goroutine, and by
// one process at a time.
type store struct {
	dir   string
	lock  *os.File
	plan  *Plan
	cells []progress
	index *set.Set // the machines; its cells come last
}

// progress is how far a cell is.
type progress struct {
	done     map[int]bool
	complete bool     // the cell's file is there
	cell     set.Cell // of what is done
}

// Exists says whether a directory has a sweep.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, planName))
	return err == nil
}

// create begins a sweep in a directory that it makes.
func create(dir string, p *Plan, origin Origin) (*store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s, err := newStore(dir, p)
	if err != nil {
		return nil, err
	}
	if Exists(dir) {
		s.close()
		return nil, fmt.Errorf("%s: %w: --resume goes on with it", dir, ErrExists)
	}
	text, err := json.Marshal(entry{"sweep", p.Digest(), origin, p})
	if err == nil {
		err = result.Replace(filepath.Join(dir, planName), func(w io.Writer) error { _, err := w.Write(text); return err })
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// open goes on with a sweep.
func open(dir string, p *Plan, origin Origin) (*store, error) {
	s, err := newStore(dir, p)
	if err != nil {
		return nil, err
	}
	if err := s.resume(origin); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func newStore(dir string, p *Plan) (*store, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s: another sweep is at work here: %w", dir, err)
	}
	s := &store{dir: dir, lock: lock, plan: p, cells: make([]progress, len(p.Cells)), index: set.New()}
	for i := range s.cells {
		s.cells[i].done = map[int]bool{}
	}
	return s, nil
}

func (s *store) close() { s.lock.Close() }

func (s *store) resume(origin Origin) error {
	if err := s.check(origin); err != nil {
		return err
	}
	// The index tells of repeats that are about to become cells.
	if err := os.Remove(filepath.Join(s.dir, set.IndexName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.sweepUp(); err != nil {
		return err
	}
	for i := range s.cells {
		if err := s.recover(i); err != nil {
			return err
		}
	}
	return nil
}

// check compares the sweep that was begun with the one at hand.
func (s *store) check(origin Origin) error {
	path := filepath.Join(s.dir, planName)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var begun entry
	if err := result.Decode(text, &begun); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	changed := func(format string, args ...any) error {
		return &ChangedError{s.dir, fmt.Sprintf(format, args...)}
	}
	if begun.Plan == nil || begun.Digest != s.plan.Digest() {
		return changed("the sweep is another one than was begun: %s", planChange(begun.Plan, s.plan))
	}
	for name, sum := range origin.Plugins {
		if was := begun.Origin.Plugins[name]; was != sum {
			return changed("the plugin of transport %s is not the one that the sweep was begun with (%.12s, now %.12s)", name, was, sum)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(origin.Machine)) {
		if was, is := begun.Origin.Machine[key], origin.Machine[key]; was != is {
			return changed("the machine's %s was %q and is %q", key, was, is)
		}
	}
	return nil
}

func planChange(was, is *Plan) string {
	if was == nil {
		return "its plan is empty"
	}
	before, now := map[string]bool{}, map[string]bool{}
	for _, c := range was.Cells {
		before[c.ID] = true
	}
	added := 0
	for _, c := range is.Cells {
		now[c.ID] = true
		if !before[c.ID] {
			added++
		}
	}
	gone := 0
	for id := range before {
		if !now[id] {
			gone++
		}
	}
	switch {
	case added+gone > 0:
		return fmt.Sprintf("%d cells are new and %d are gone", added, gone)
	case was.Repeats != is.Repeats:
		return fmt.Sprintf("it had %d repeats and has %d", was.Repeats, is.Repeats)
	default:
		return "its order or options that are no part of a configuration changed"
	}
}

// sweepUp removes what was being written when the last process ended.
func (s *store) sweepUp() error {
	for _, pattern := range []string{"", cellsDir, filepath.Join(repeatsDir, "*")} {
		leftovers, err := filepath.Glob(filepath.Join(s.dir, pattern, result.TemporaryFiles))
		if err != nil {
			return err
		}
		for _, path := range leftovers {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// recover finds out how far a cell came.
func (s *store) recover(i int) error {
	p := &s.cells[i]
	if _, err := os.Stat(s.cellPath(i)); err == nil {
		p.complete = true
		for r := range s.plan.Repeats {
			p.done[r] = true
		}
		// The process may have ended before it came to this.
		if err := os.RemoveAll(s.repeatDir(i)); err != nil {
			return err
		}
		return s.count(i, s.cellPath(i))
	}
	entries, err := os.ReadDir(s.repeatDir(i))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, entry := range entries {
		name, isJSON := strings.CutSuffix(entry.Name(), ".json")
		repeat, err := strconv.Atoi(name)
		if !isJSON || err != nil || repeat >= s.plan.Repeats {
			continue
		}
		if err := s.count(i, s.repeatPath(i, repeat)); err != nil {
			return err
		}
		p.done[repeat] = true
	}
	return nil
}

// count adds a result's file to what is known of its cell. The schema is not
// checked: the file is whole, since it appeared by a rename.
func (s *store) count(i int, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r := new(result.Result)
	if err := result.Decode(text, r); err != nil {
		return fmt.Errorf("reading %s: %w; remove it to measure it again", path, err)
	}
	return s.add(i, r, path, int64(len(text)))
}

func (s *store) add(i int, r *result.Result, path string, size int64) error {
	name, err := filepath.Rel(s.dir, path)
	if err != nil {
		return err
	}
	cell, err := s.index.NewCell(r, set.File{Name: name, Bytes: size})
	if err != nil {
		return err
	}
	if known := &s.cells[i].cell; known.Status == "" {
		*known = cell
	} else {
		known.Merge(cell)
	}
	return nil
}

func (s *store) repeatDir(i int) string { return filepath.Join(s.dir, repeatsDir, s.plan.Cells[i].ID) }

func (s *store) repeatPath(i, repeat int) string {
	return filepath.Join(s.repeatDir(i), fmt.Sprintf("%04d.json", repeat))
}

func (s *store) cellPath(i int) string {
	c := &s.plan.Cells[i]
	return filepath.Join(s.dir, cellsDir, fmt.Sprintf("%s-%s.json", c.Config.Transport, c.ID))
}

// save stores one repeat, and the cell where it was the last one.
func (s *store) save(i, repeat int, r *result.Result) error {
	size, err := s.write(s.repeatPath(i, repeat), r)
	if err != nil {
		return err
	}
	if err := s.add(i, r, s.repeatPath(i, repeat), size); err != nil {
		return err
	}
	s.cells[i].done[repeat] = true
	return s.complete(i)
}

// cellError concerns one cell only.
type cellError struct{ error }

// complete makes one result of a cell's repeats once all are there.
func (s *store) complete(i int) error {
	p := &s.cells[i]
	if p.complete || len(p.done) < s.plan.Repeats {
		return nil
	}
	var parts []*result.Result
	for repeat := range s.plan.Repeats {
		part, err := result.Read(s.repeatPath(i, repeat))
		if err != nil {
			return &cellError{err}
		}
		parts = append(parts, part)
	}
	merged, err := runner.Merge(parts)
	if err != nil {
		return &cellError{err}
	}
	size, err := s.write(s.cellPath(i), merged)
	if err != nil {
		return err
	}
	p.complete, p.cell = true, set.Cell{}
	if err := s.add(i, merged, s.cellPath(i), size); err != nil {
		return err
	}
	return os.RemoveAll(s.repeatDir(i))
}

func (s *store) write(path string, r *result.Result) (size int64, err error) {
	var text bytes.Buffer
	if err := result.Encode(&text, r); err != nil {
		return 0, err
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return 0, &result.IOError{Op: "making a directory of the sweep", Path: dir, Err: err}
		}
		if err := result.SyncDir(filepath.Dir(dir)); err != nil {
			return 0, err
		}
	}
	size = int64(text.Len())
	err = result.Replace(path, func(w io.Writer) error { _, err := text.WriteTo(w); return err })
	if err != nil {
		err = &result.IOError{Op: "writing a repeat", Path: path, Err: err}
	}
	return size, err
}

// finish writes the index of everything so far. failures are by cell.
func (s *store) finish(failures map[int]Failure) (*set.Set, error) {
	s.index.Cells = nil
	for i := range s.cells {
		p := &s.cells[i]
		cell := p.cell
		failure, failed := failures[i]
		switch {
		case failed:
			cell.Status, cell.Reason = failure.Status, failure.Reason
		case cell.Status == "":
			continue // it was never begun
		default:
			cell.Incomplete = cell.Incomplete || !p.complete
		}
		if cell.Config == nil {
			cell.Config, cell.Environment, cell.Plugin.Name = s.plan.Cells[i].Flat(), -1, s.plan.Cells[i].Config.Transport
			cell.Samples = map[string][]float64{}
		}
		s.index.Cells = append(s.index.Cells, cell)
	}
	s.index.Source = s.dir
	return s.index, s.index.WriteIndex(s.dir)
}
