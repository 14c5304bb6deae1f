package set

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"transportbench/core/lab/consistency"
	"transportbench/core/lab/result"
	"transportbench/core/lab/result/published"
)

// Load reads a set from a file or directory. Errors name the file and, where
// it is the text that is wrong, line and column.
//
// A directory with an index is read through it; a result file whose length is
// not the index's is read anew. A directory without one is searched for result
// files, also below it, and what is no JSON file is passed over.
func Load(path string) (*Set, error) { return (*Loader)(nil).Load(path) }

// Load is [Load]; what was read before and has not changed is not read again.
func (l *Loader) Load(path string) (*Set, error) {
	defer l.forget()
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	if !info.IsDir() {
		s, err := l.file(path)
		if err != nil {
			return nil, err
		}
		s.Source, s.dir = path, filepath.Dir(path)
		return s, nil
	}
	s, err := l.loadIndexed(path)
	if errors.Is(err, fs.ErrNotExist) {
		s, err = l.loadLoose(path)
	}
	if err != nil {
		return nil, err
	}
	s.Source, s.dir = path, path
	return s, nil
}

// LoadBoth is [Load] of two sets at once.
func LoadBoth(a, b string) (*Set, *Set, error) {
	var (
		sets    [2]*Set
		errs    [2]error
		reading sync.WaitGroup
	)
	for i, path := range []string{a, b} {
		reading.Go(func() { sets[i], errs[i] = Load(path) })
	}
	reading.Wait()
	return sets[0], sets[1], cmp.Or(errs[0], errs[1])
}

func loadFile(path string) (*Set, error) {
	text, err := result.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading results: %s: %w", path, err)
	}
	s, err := Parse(text, filepath.Base(path))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return s, nil
}

// Parse reads a document of any kind. name is the file's, for the cells.
func Parse(text []byte, name string) (*Set, error) {
	d, err := result.NewDocument(text)
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
	}
	r, err := d.Result()
	if err != nil {
		return nil, err
	}
	s := New()
	return s, s.Add(r, File{name, int64(len(text))})
}

func parseSet(d *result.Document) (*Set, error) {
	major, _, _ := strings.Cut(d.SchemaVersion, ".")
	if want, _, _ := strings.Cut(SchemaVersion, "."); major != want {
		return nil, fmt.Errorf("%w: its schema is %q, and this transportbench reads sets of %s.x",
			result.ErrNewer, d.SchemaVersion, want)
	}
	s := new(Set)
	if err := d.Decode(s); err != nil {
		return nil, err
	}
	return s, s.check()
}

// check refuses what the types alone would let pass.
func (s *Set) check() error {
	statuses := []Status{Measured, Failed, Unavailable, Published}
	for i := range s.Cells {
		c := &s.Cells[i]
		wrong := func(format string, args ...any) error {
			return fmt.Errorf("cells[%d]: %s", i, fmt.Sprintf(format, args...))
		}
		switch {
		case c.Transport() == "":
			return wrong("config has no transport")
		case !slices.Contains(statuses, c.Status):
			return wrong("status %q is not one of %v", c.Status, statuses)
		case c.Environment < -1 || c.Environment >= len(s.Environments):
			return wrong("environment %d is none of the set's %d", c.Environment, len(s.Environments))
		case c.Status == Measured && len(c.Samples) == 0:
			return wrong("it is measured and has no samples")
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
				return wrong("file %q lies outside of the set", f.Name)
			}
		}
		if c.Samples == nil {
			c.Samples = map[string][]float64{}
		}
		if c.Status == Measured {
			c.addWarnings(consistency.OfText(c.Config, c.Samples))
		}
	}
	return nil
}

// Include adds the cells of another set. Those of a configuration, provider,
// runtime and machine that are here already become more repeats.
func (s *Set) Include(other *Set) {
	type place struct {
		key              string
		provider, digest string
		environment      int
		status           Status
		reason           string
	}
	at := func(c *Cell) place {
		return place{c.Key(), c.Plugin.Provider, c.Plugin.RuntimeDigest, c.Environment, c.Status, c.Reason}
	}
	known := map[place]int{}
	for i := range s.Cells {
		known[at(&s.Cells[i])] = i
	}
	for _, c := range other.Cells {
		if c.Environment >= 0 {
			c.Environment = s.environment(other.Machine(&c))
		}
		here := at(&c)
		if i, found := known[here]; found && c.Status == Measured {
			s.Cells[i].Merge(c)
			continue
		}
		known[here] = len(s.Cells)
		s.Cells = append(s.Cells, c)
	}
}

func fromPublished(document *published.Document) *Set {
	s := New()
	s.CreatedAt = document.Date
	for _, row := range document.Rows {
		c := Cell{
			Config: map[string]string{}, Status: Published, Environment: -1,
			Reason:    document.Source,
			Samples:   map[string][]float64{},
			StartedAt: document.Date,
			Plugin:    Plugin{Name: row.Config["transport"]},
		}
		for name, value := range row.Config {
			c.Config[name] = value
		}
		for name, figure := range row.Metrics {
			c.Samples[name] = []float64{figure.Value}
		}
		found := row.Findings()
		for i := range found {
			found[i].Message = row.Name + ": " + found[i].Message
		}
		c.addWarnings(found)
		c.addWarnings(document.Findings())
		if row.Contradiction != "" && !slices.ContainsFunc(c.Warnings, func(d Warning) bool { return d.Severity == result.Error }) {
			c.Warnings = append(c.Warnings, Warning{"published", result.Error, row.Contradiction})
		}
		s.Cells = append(s.Cells, c)
	}
	return s
}

// Results are the results behind a cell, read from the set's directory where
// the set does not have them itself. An index that was taken away from its
// directory has none, which is an error.
func (s *Set) Results(c *Cell) ([]*result.Result, error) {
	if len(c.Results) > 0 || len(c.Files) == 0 {
		return c.Results, nil
	}
	var list []*result.Result
	for _, f := range c.Files {
		r, err := result.Read(filepath.Join(s.dir, f.Name))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// EncodeWhole is [Set.Encode] with the results of every cell in it, and no names
// of files. It reads the results of one cell at a time.
func (s *Set) EncodeWhole(w io.Writer) error {
	return s.encode(w, func(c Cell) (Cell, error) {
		var err error
		c.Results, err = s.Results(&c)
		c.Files = nil
		return c, err
	})
}
