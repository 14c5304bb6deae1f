package set

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"transportbench/core/base/files"
	"transportbench/core/base/printable"
	"transportbench/core/lab/store/jsondoc"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
)

// Load reads a set from a file or directory. Errors name the file, and the line and column of text
// that is wrong.
//
// If a directory has an index, Load reads that, and the result files must have the lengths that it
// gives. Otherwise it reads all JSON files in and below the directory, except calibrations and what
// is listed in Set.Skipped. All these files may be compressed by gzip, which adds .gz to their
// names.
func Load(path string) (*Set, error) { return (*Loader)(nil).Load(path) }

// Load is [Load] but does not read a file again that has not changed.
func (l *Loader) Load(path string) (*Set, error) {
	defer l.forget()
	path = files.Packed(path)
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		s, err := l.file(path, files.ReadArgument)
		if err == nil {
			err = s.renewOld(filepath.Dir(path))
		}
		if err != nil {
			return nil, err
		}
		s.Source, s.dir = printable.Text(path), filepath.Dir(path)
		s.SetReferenceAside()
		return s, nil
	}
	s, err := l.loadIndexed(path)
	if errors.Is(err, fs.ErrNotExist) {
		s, err = l.loadLoose(path)
	}
	if err != nil {
		return nil, err
	}
	s.Source, s.dir = printable.Text(path), path
	s.SetReferenceAside()
	return s, nil
}

// unreadable returns the error for a path that cannot be opened.
func unreadable(path string, err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		err = perr.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w; name a directory of results, its index, or a result file",
			path, err)
	}
	return fmt.Errorf("reading results: %s: %w", path, err)
}

// Loader reads sets that grow. It caches files until a load does not need them. The zero value is
// ready to use; a nil Loader caches nothing.
type Loader struct {
	mu    sync.Mutex
	known map[string]*cachedFile
}

type cachedFile struct {
	size    int64
	changed time.Time
	set     *Set
	other   *otherError // instead of a set
	used    bool        // by the current load
}

// reader is [files.Read] or [files.ReadArgument].
type reader func(path string, limit int64) ([]byte, error)

// file returns a file's set from the cache if the file has not changed, else from the file.
func (l *Loader) file(path string, read reader) (*Set, error) {
	if l == nil {
		return loadFile(path, read)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	l.mu.Lock()
	k := l.known[path]
	l.mu.Unlock()
	if k == nil || k.size != info.Size() || !k.changed.Equal(info.ModTime()) {
		s, err := loadFile(path, read)
		other := (*otherError)(nil)
		if err != nil && !errors.As(err, &other) {
			return nil, err
		}
		k = &cachedFile{size: info.Size(), changed: info.ModTime(), set: s, other: other}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]*cachedFile{}
	}
	l.known[path], k.used = k, true
	if k.other != nil {
		return nil, k.other
	}
	return k.set.clone(), nil
}

// forget drops the files that the last load did not use.
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

// clone copies everything that merging and moving cells changes.
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
		cell.Warnings, cell.Files, cell.Results = slices.Clone(cell.Warnings),
			slices.Clone(cell.Files), slices.Clone(cell.Results)
		cell.Windows = slices.Clone(cell.Windows)
	}
	return &c
}

// isResult reports whether a file may be a result by its name.
func isResult(path string) bool {
	return strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".json")
}

// Fingerprint returns a text that changes when result files at path are added, changed or removed.
// It depends on names, sizes and times only.
func Fingerprint(path string) (string, error) {
	h := fnv.New128a()
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a sweep renames its files
		}
		if err != nil || entry.IsDir() || !isResult(path) ||
			strings.HasPrefix(entry.Name(), ".") {
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
		return "", fmt.Errorf("listing results: %w", err)
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// maxSize is the size in bytes of the largest file of a set.
const maxSize = 2 << 30

func loadFile(path string, read reader) (*Set, error) {
	text, err := read(path, maxSize)
	if err != nil {
		return nil, fmt.Errorf("reading results: %s: %w", path, err)
	}
	s, err := Parse(text, filepath.Base(path))
	if other := (*otherError)(nil); errors.As(err, &other) {
		other.path = path
		return nil, other
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return s, nil
}

// otherError is for a document without results. Directories of results may contain some.
type otherError struct {
	path, what, remedy string
	known              bool // comparisons find it by themselves
}

func (e *otherError) Error() string {
	return fmt.Sprintf("%s is %s, which has no results; %s", e.path, e.what,
		strings.ReplaceAll(e.remedy, "PATH", e.path))
}

// Parse parses a document of any kind that has results. Cells refer to it as the file name.
func Parse(text []byte, name string) (*Set, error) {
	d, err := jsondoc.New(text)
	if err != nil {
		return nil, err
	}
	switch d.Kind {
	case Kind:
		return parseSet(d)
	case published.Kind:
		document, err := published.Parse(d)
		if err != nil {
			return nil, err
		}
		return fromPublished(document), nil
	case result.KindCalibration:
		return nil, &otherError{what: "a calibration of a machine", known: true,
			remedy: "transportbench calibrate show PATH shows it"}
	case result.KindReproduction:
		return nil, &otherError{what: "a comparison with a document",
			remedy: "name the directory that reproduce wrote its runs to"}
	case result.KindProfile:
		var profile struct{ Readings Set }
		if err := d.Decode(&profile); err != nil {
			return nil, err
		}
		if result.Major(profile.Readings.SchemaVersion) != result.Major(SchemaVersion) {
			return nil, errors.New("the profile has no readings of this version; run c2c again")
		}
		return &profile.Readings, profile.Readings.Check()
	}
	r, err := result.Of(d)
	if err != nil {
		return nil, err
	}
	s := New()
	return s, s.Add(r, File{name, int64(len(text))})
}

func parseSet(d *jsondoc.Document) (*Set, error) {
	written := result.Major(d.SchemaVersion)
	if !slices.Contains([]string{"1", "2", result.Major(SchemaVersion)}, written) {
		return nil,
			fmt.Errorf("%w: its schema is %q, and this transportbench reads sets of 1.x to %s.x",
				result.ErrNewer, d.SchemaVersion, result.Major(SchemaVersion))
	}
	s := new(Set)
	if err := d.Decode(s); err != nil {
		return nil, err
	}
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Run != nil {
			c.Config = nil // what Run says counts
		}
	}
	if written < "3" {
		if err := s.nameWarnings(d); err != nil {
			return nil, err
		}
	}
	if written == "1" {
		if err := s.migrateFrom1(d); err != nil {
			return nil, err
		}
	}
	s.SchemaVersion = SchemaVersion
	return s, s.Check()
}

// Check returns an error for what the types allow but a set must not have, and completes its cells:
// their options as text.
func (s *Set) Check() error {
	statuses := []Status{Measured, Failed, Unavailable, Published}
	for i := range s.Cells {
		c := &s.Cells[i]
		wrong := func(format string, args ...any) error {
			return fmt.Errorf("cells[%d]: %s", i, fmt.Sprintf(format, args...))
		}
		if err := c.flatten(); err != nil {
			return wrong("%v", err)
		}
		switch {
		case c.Transport() == "":
			return wrong("config has no transport")
		case !slices.Contains(statuses, c.Status):
			return wrong("status %q is not one of %v", c.Status, statuses)
		case c.Environment < -1 || c.Environment >= len(s.Environments):
			return wrong("environment %d is out of range: the set has %d", c.Environment,
				len(s.Environments))
		case slices.ContainsFunc(c.Windows, Window.invalid):
			return wrong("windows[%d] has a negative distance, launch or share",
				slices.IndexFunc(c.Windows, Window.invalid))
		case c.Status == Measured && len(c.Samples) == 0:
			return wrong("status is measured, but samples is empty")
		}
		for name, values := range c.Samples {
			if len(values) == 0 {
				return wrong("metric %q has no samples", name)
			}
			for _, v := range values {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					return wrong("metric %q is not finite", name)
				}
			}
		}
		for _, f := range c.Files {
			if !filepath.IsLocal(f.Name) {
				return wrong("file %q is outside the directory of the set", f.Name)
			}
		}
		if c.Samples == nil {
			c.Samples = map[string][]float64{}
		}
		c.Warnings = result.Stands(c.Warnings)
		if c.Status == Measured {
			c.dropRatios()
		}
	}
	return nil
}

// fromPublished returns published figures as a set.
func fromPublished(document *published.Document) *Set {
	s := New()
	s.CreatedAt = document.Date
	for i := range document.Rows {
		row := &document.Rows[i]
		c := Cell{
			Row:    row,
			Config: maps.Clone(row.Config), Status: Published, Environment: -1,
			Reason:    document.Source,
			Samples:   map[string][]float64{},
			StartedAt: document.Date,
			Plugin:    Plugin{Name: row.Config["transport"]},
		}

		for name, figure := range row.Metrics {
			c.Samples[name] = []float64{figure.Value}
		}
		s.Cells = append(s.Cells, c)
	}
	return s
}

// Results returns the results of a cell. If the set does not hold them, Results reads their files
// in the set's directory, and fails if they are not there.
func (s *Set) Results(c *Cell) ([]*result.Result, error) {
	if len(c.Results) > 0 || len(c.Files) == 0 {
		return c.Results, nil
	}
	var list []*result.Result
	for _, f := range c.Files {
		r, err := result.Read(f.path(s.dir))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Tools returns the versions that measured the set, each once. Indexes of version 0.6 and before do
// not have them: then it is the version of the first result that can be read, and none if there is
// no such result.
func (s *Set) Tools() []result.Tool {
	var tools []result.Tool
	for i := range s.Cells {
		if tool := s.Cells[i].Tool; tool != nil && !slices.Contains(tools, *tool) {
			tools = append(tools, *tool)
		}
	}
	for i := 0; len(tools) == 0 && i < len(s.Cells); i++ {
		if results := s.Cells[i].Results; len(results) > 0 {
			return []result.Tool{results[0].Tool}
		}
		for _, f := range s.Cells[i].Files {
			text, err := files.Read(f.path(s.dir), maxSize)
			var document struct {
				Tool result.Tool `json:"tool"`
			}
			if err == nil && jsondoc.Decode(text, &document) == nil {
				return []result.Tool{document.Tool}
			}
		}
	}
	return tools
}

// Directories returns the directories of the set's files, with those between them and the set's own
// directory, and the one above that. It is empty if the set was not read from a file.
func (s *Set) Directories() []string {
	if s.dir == "" {
		return nil
	}
	list := []string{s.dir, filepath.Join(s.dir, "..")}
	for i := range s.Cells {
		for _, f := range s.Cells[i].Files {
			for dir := filepath.Dir(f.Name); dir != "."; dir = filepath.Dir(dir) {
				if path := filepath.Join(s.dir, dir); !slices.Contains(list, path) {
					list = append(list, path)
				}
			}
		}
	}
	return list
}

// Responses returns the response times of each window of a cell that has some. If the set does not
// hold them, Responses reads the cell's results, as [Set.Results].
func (s *Set) Responses(c *Cell) ([]result.Responses, error) {
	if len(c.responses) > 0 {
		return c.responses, nil
	}
	results, err := s.Results(c)
	if err != nil {
		return nil, err
	}
	var windows []result.Responses
	for _, r := range results {
		windows = append(windows, result.ResponsesOf(r.Repeats)...)
	}
	return windows, nil
}
