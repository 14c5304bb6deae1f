package experiment

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
	"time"

	"transportbench/core/base/files"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/lab/judge/check"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/jsondoc"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The files of a sweep's directory. Each repeat is a result of its own until all repeats of its
// cell exist; then they are merged into one.
const (
	planName   = "sweep.plan"
	cellsDir   = "cells"
	repeatsDir = "repeats"
	logsDir    = "logs" // of runs that failed
)

// origin identifies the plugins and the machine of a sweep. A resumed sweep must have the same.
type origin struct {
	// Plugins has the SHA-256 of each transport's binary.
	Plugins map[string]string `json:"plugins"`
	// Machine is the machine's identity, as text.
	Machine map[string]string `json:"machine"`
}

// planFile is the contents of the file that marks a directory as a sweep.
type planFile struct {
	Kind   string `json:"kind"`
	Digest string `json:"digest"`
	Origin origin `json:"origin"`
	Plan   *Plan  `json:"plan"`
}

// ChangedError reports that a sweep cannot be resumed because something has changed.
type ChangedError struct{ Dir, What string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s: %s; choose another --out for a new sweep", e.Dir, e.What)
}

// ErrExists is wrapped by the error for a directory that already has a sweep.
var ErrExists = errors.New("there is a sweep already")

// store keeps the results of a sweep on disk. One goroutine uses it, and a lock on the directory
// keeps other processes out.
type store struct {
	dir   string
	root  *os.Root // of dir: no link in it leads a removal elsewhere
	lock  *result.Lock
	plan  *Plan
	cells []progress
	index *set.Set // finish fills in its cells
}

// progress is the state of one cell.
type progress struct {
	done     map[int]bool // by repeat
	complete bool         // the cell's file exists
	cell     set.Cell     // has the samples of the repeats that are done
}

// HasSweep reports whether a directory has a sweep.
func HasSweep(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, planName))
	return err == nil
}

// create makes the directory if necessary and begins a sweep in it.
func create(of *Sweep, begun origin) (*store, error) {
	if err := files.MakeDir(of.Dir); err != nil {
		return nil, err
	}
	s, err := newStore(of.Dir, of.Plan)
	if err != nil {
		return nil, err
	}
	if HasSweep(of.Dir) {
		s.close()
		return nil, fmt.Errorf("%s: %w; use --resume to continue it", of.Dir, ErrExists)
	}
	text, err := json.Marshal(planFile{"sweep", s.plan.Digest(), begun, s.plan})
	if err == nil {
		err = files.Replace(filepath.Join(s.dir, planName),
			func(w io.Writer) error { _, err := w.Write(text); return err })
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// open resumes a sweep.
func open(of *Sweep, now origin) (*store, error) {
	s, err := newStore(of.Dir, of.Plan)
	if err != nil {
		return nil, err
	}
	if err := s.resume(now); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func newStore(dir string, p *Plan) (*store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	lock, err := result.LockDir(dir)
	if err != nil {
		root.Close()
		return nil, err
	}
	s := &store{dir: dir, root: root, lock: lock, plan: p, cells: make([]progress, len(p.Cells)),
		index: set.New()}
	if err := s.checkDirs(); err != nil {
		s.close()
		return nil, err
	}
	for i := range s.cells {
		s.cells[i].done = map[int]bool{}
	}
	return s, nil
}

// checkDirs returns an error if a link takes the place of a directory: files would go elsewhere.
func (s *store) checkDirs() error {
	for _, name := range []string{cellsDir, repeatsDir, logsDir} {
		info, err := s.root.Lstat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil && !info.IsDir() {
			return &ChangedError{s.dir, name +
				" is a link or a file instead of a directory: remove it to go on"}
		}
	}
	return nil
}

func (s *store) close() {
	s.lock.Close()
	_ = s.root.Close()
}

// local returns the path of a file of the sweep below its directory.
func (s *store) local(path string) string {
	name, err := filepath.Rel(s.dir, path)
	if err != nil {
		return path // which root refuses
	}
	return name
}

func (s *store) resume(now origin) error {
	if err := s.check(now); err != nil {
		return err
	}
	// The index lists files of repeats, which complete is about to merge and remove.
	if err := s.root.Remove(set.IndexName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.removeTemporary(); err != nil {
		return err
	}
	for i := range s.cells {
		if err := s.recover(i); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if the plan or the origin differs from that of the sweep on disk.
func (s *store) check(now origin) error {
	path := filepath.Join(s.dir, planName)
	begun, err := readPlan(path)
	if err != nil {
		return &ChangedError{s.dir, err.Error()}
	}
	changed := func(format string, args ...any) error {
		return &ChangedError{s.dir, fmt.Sprintf(format, args...)}
	}
	if begun.Plan == nil || begun.Digest != s.plan.Digest() {
		return changed("the sweep differs from the one to resume: %s",
			planChange(begun.Plan, s.plan))
	}
	for name, sum := range now.Plugins {
		if was := begun.Origin.Plugins[name]; was != sum {
			return changed("the plugin of transport %s has changed since the sweep began "+
				"(SHA-256 %.12s, now %.12s)", name, was, sum)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now.Machine)) {
		if was, is := begun.Origin.Machine[key], now.Machine[key]; was != is {
			return changed("the machine's %s was %q and is now %q", key, was, is)
		}
	}
	return nil
}

// maxPlan is the size in bytes of the largest plan. One of 10,000 cells needs about 20 MB.
const maxPlan = 256 << 20

func readPlan(path string) (begun planFile, err error) {
	text, err := files.Read(path, maxPlan)
	if err == nil {
		err = jsondoc.Decode(text, &begun)
	}
	if err != nil {
		return planFile{}, fmt.Errorf("reading %s: %w", path, err)
	}
	return begun, nil
}

// planChange describes how the plan of a sweep differs from the one on disk.
func planChange(was, is *Plan) string {
	if was == nil {
		return "its plan is missing"
	}
	before := map[string]bool{}
	for _, c := range was.Cells {
		before[c.ID] = true
	}
	added, gone := 0, len(before)
	for _, c := range is.Cells {
		if before[c.ID] {
			gone--
		} else {
			added++
		}
	}
	switch {
	case added+gone > 0:
		return fmt.Sprintf("%d cells are new and %d are missing", added, gone)
	case was.Repeats != is.Repeats:
		return fmt.Sprintf("it had %d repeats and now has %d", was.Repeats, is.Repeats)
	default:
		return "its order changed, or options outside of the configurations"
	}
}

// removeTemporary removes files that an earlier process did not finish writing.
func (s *store) removeTemporary() error {
	for _, pattern := range []string{"", cellsDir, filepath.Join(repeatsDir, "*")} {
		leftovers, err := filepath.Glob(filepath.Join(s.dir, pattern, files.TemporaryFiles))
		if err != nil {
			return err
		}
		for _, path := range leftovers {
			if err := s.root.Remove(s.local(path)); err != nil {
				return err
			}
		}
	}
	return nil
}

// recover reads the state of a cell from its files.
func (s *store) recover(i int) error {
	p := &s.cells[i]
	if _, err := os.Stat(s.cellPath(i)); err == nil {
		if err := s.load(i, s.plan.Repeats, s.cellPath(i)); err != nil {
			return err
		}
		p.complete = true
		for r := range s.plan.Repeats {
			p.done[r] = true
		}
		// An earlier process may have ended just before this removal.
		return s.root.RemoveAll(s.local(s.repeatDir(i)))
	}
	entries, err := os.ReadDir(s.repeatDir(i))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, entry := range entries {
		repeat, err := strconv.Atoi(strings.TrimSuffix(entry.Name(), ".json"))
		if err != nil || repeat < 0 || repeat >= s.plan.Repeats ||
			entry.Name() != filepath.Base(s.repeatPath(i, repeat)) {
			continue // no file of a sweep
		}
		if err := s.load(i, 1, s.repeatPath(i, repeat)); err != nil {
			return err
		}
		p.done[repeat] = true
	}
	return nil
}

// load adds a result's file to its cell. The file must have as many repeats.
func (s *store) load(i, repeats int, path string) error {
	r, size, err := read(path)
	more := path == s.cellPath(i) // than the plan has, if the sweep topped it up
	if err == nil && (r.Kind != result.KindRun || len(r.Repeats) < repeats ||
		len(r.Repeats) > repeats && !more) {
		err = fmt.Errorf("%s is no result with %s", path, format.Count(repeats, "repeat"))
	}
	if err == nil {
		err = s.add(i, r, path, size)
	}
	if err != nil {
		return fmt.Errorf("%w; without the file, --resume measures that again", err)
	}
	return nil
}

// read reads a result that a sweep stored. It does not validate the schema, which takes as long as
// all else: the file is complete because it was renamed into place.
func read(path string) (r *result.Result, size int64, err error) {
	text, err := files.Read(path, result.MaxSize)
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", path, err)
	}
	r = new(result.Result)
	if err = jsondoc.Decode(text, r); err == nil {
		err = r.AddSums()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return r, int64(len(text)), nil
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

func (s *store) repeatDir(i int) string {
	return filepath.Join(s.dir, repeatsDir, s.plan.Cells[i].ID)
}

func (s *store) repeatPath(i, repeat int) string {
	return filepath.Join(s.repeatDir(i), fmt.Sprintf("%04d.json", repeat))
}

func (s *store) cellPath(i int) string {
	c := &s.plan.Cells[i]
	return filepath.Join(s.dir, cellsDir, fmt.Sprintf("%s-%s.json", c.Config.Transport, c.ID))
}

// save stores one repeat, and completes the cell if this was the last one. If the cell is complete,
// the repeat is one more.
func (s *store) save(i, repeat int, r *result.Result) error {
	if s.cells[i].complete {
		whole, _, err := read(s.cellPath(i))
		if err != nil {
			return &cellError{err}
		}
		return s.put(i, []*result.Result{whole, r})
	}
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

// cellError is an error that concerns one cell only.
type cellError struct{ error }

// parts reads the repeats of a cell that are done, in order.
func (s *store) parts(i int) (parts []*result.Result, err error) {
	for _, repeat := range slices.Sorted(maps.Keys(s.cells[i].done)) {
		part, _, err := read(s.repeatPath(i, repeat))
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// complete merges a cell's repeats into one result once all are done.
func (s *store) complete(i int) error {
	p := &s.cells[i]
	if p.complete || len(p.done) < s.plan.Repeats {
		return nil
	}
	parts, err := s.parts(i)
	if err != nil {
		return &cellError{err}
	}
	if err := s.put(i, parts); err != nil {
		return err
	}
	return s.root.RemoveAll(s.local(s.repeatDir(i)))
}

// put writes the result of a complete cell, joined of parts.
func (s *store) put(i int, parts []*result.Result) error {
	merged, err := check.Merge(parts)
	if err != nil {
		return &cellError{err}
	}
	size, err := s.write(s.cellPath(i), merged)
	if err != nil {
		return err
	}
	p := &s.cells[i]
	p.complete, p.cell = true, set.Cell{}
	return s.add(i, merged, s.cellPath(i), size)
}

func (s *store) write(path string, r *result.Result) (size int64, err error) {
	var text bytes.Buffer
	if err := result.Encode(&text, r); err != nil {
		return 0, err
	}
	dir := filepath.Dir(path)
	if err := files.MakeDir(dir); err != nil {
		return 0, &result.IOError{Op: "making a directory for the sweep", Path: dir, Err: err}
	}
	size = int64(text.Len())
	err = files.Replace(path, func(w io.Writer) error { _, err := text.WriteTo(w); return err })
	if err != nil {
		err = &result.IOError{Op: "writing a repeat", Path: path, Err: err}
	}
	return size, err
}

// log keeps what is known of a run that failed, and returns the file's name in the directory: the
// errors, the last output of a plugin that died, and what was recorded of the repeat.
func (s *store) log(r run, try int, failure error, measured *result.Result) (name string,
	err error) {
	c := &s.plan.Cells[r.cell]
	name = filepath.Join(logsDir, fmt.Sprintf("%s-%s-repeat-%d-try-%d.log", c.Config.Transport,
		c.ID, r.repeat+1, try))
	var file bytes.Buffer
	text := printable.NewWriter(&file)
	fmt.Fprintf(text, "%s\nrepeat %d, try %d\n%v\n", time.Now().UTC().Format(time.RFC3339),
		r.repeat+1, try, failure)
	var died *record.ExitError
	if errors.As(failure, &died) {
		fmt.Fprintf(text, "\nlast output of plugin %s (pid %d):\n%s\n", died.Plugin, died.PID,
			strings.Join(died.Output, "\n"))
	}
	if measured != nil && measured.FailedRepeat != nil {
		recorded, err := json.MarshalIndent(measured.FailedRepeat, "", "  ")
		if err != nil {
			return "", err
		}
		fmt.Fprintf(text, "\nrecorded of the repeat:\n%s\n", recorded)
	}
	path := filepath.Join(s.dir, name)
	if err = files.MakeDir(filepath.Dir(path)); err == nil {
		err = files.Replace(path, func(w io.Writer) error { _, err := file.WriteTo(w); return err })
	}
	if err != nil {
		err = &result.IOError{Op: "writing the log of a failed run", Path: path, Err: err}
	}
	return name, err
}

// finish writes the index of all cells that were begun. failures are by cell.
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
			continue // not begun
		case !p.complete:
			cell.Incomplete = true
			if parts, err := s.parts(i); err == nil {
				check.Again(&cell, parts)
			}
		}
		if cell.Config == nil {
			cell.Config, cell.Environment, cell.Plugin.Name = s.plan.Cells[i].Flat(), -1,
				s.plan.Cells[i].Config.Transport
			cell.Samples = map[string][]float64{}
		}
		s.index.Cells = append(s.index.Cells, cell)
	}
	s.index.Source = s.dir
	return s.index, s.index.WriteIndex(s.dir)
}
