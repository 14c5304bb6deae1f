package history

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
	"time"

	"transportbench/core/base/files"
	"transportbench/core/base/printable"
	"transportbench/core/lab/store/set"
)

// BlessedName is the name of the file, next to a set's index, with the changes that were accepted.
const BlessedName = set.BlessedName

// Blessing says that the level of a metric since a set is right.
type Blessing struct {
	// Cell and Metric are those of a series; empty for all.
	Cell   string    `json:"cell,omitempty"`
	Metric string    `json:"metric,omitempty"`
	Who    string    `json:"who"`
	Why    string    `json:"why"`
	At     time.Time `json:"at"`
}

type blessings struct {
	SchemaVersion string     `json:"schema_version"`
	Kind          string     `json:"kind"`
	Blessed       []Blessing `json:"blessed"`
}

const (
	blessingsVersion = "1.0.0"
	blessingsKind    = "blessings"
)

// maxBlessings is the size in bytes of the largest file of blessings.
const maxBlessings = 1 << 20

func readBlessings(dir string) ([]Blessing, error) {
	path := filepath.Join(dir, BlessedName)
	text, err := files.Read(path, maxBlessings)
	switch {
	case errors.Is(err, fs.ErrNotExist), err != nil && !isDir(dir):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	var read blessings
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if read.Kind != blessingsKind || read.SchemaVersion != blessingsVersion {
		return nil, fmt.Errorf("reading %s: kind %q of version %q, not %s of %s",
			path, printable.Text(read.Kind), printable.Text(read.SchemaVersion), blessingsKind,
			blessingsVersion)
	}
	for i := range read.Blessed {
		b := &read.Blessed[i]
		for _, text := range []*string{&b.Cell, &b.Metric, &b.Who, &b.Why} {
			*text = printable.Text(*text)
		}
	}
	return read.Blessed, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Bless adds a blessing to the set in a directory. The file is complete or as it was.
func Bless(dir string, b Blessing) error {
	if !isDir(dir) {
		return fmt.Errorf("%s: %w; name its directory", dir, errNoSet)
	}
	list, err := readBlessings(dir)
	if err != nil {
		return err
	}
	return files.Replace(filepath.Join(dir, BlessedName), func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(blessings{blessingsVersion, blessingsKind, append(list, b)})
	})
}

// Beside returns the sets that lie next to the one in dir, and dir: the history that it is part of.
func Beside(dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	parent := filepath.Dir(dir)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("reading the sets next to %s: %w", dir, err)
	}
	dirs := []string{dir}
	for _, e := range entries {
		at := filepath.Join(parent, e.Name())
		if _, err := os.Stat(files.Packed(filepath.Join(at, set.IndexName))); err == nil {
			dirs = append(dirs, at)
		}
	}
	return dirs, nil
}

// blessing returns the last acceptance of a level of a series, which is that of any of its sets.
func (h *History) blessing(s *Series, level []Point) *Blessing {
	for _, p := range slices.Backward(level) {
		if b := lastFor(h.Sets[p.Set].Blessed, s.Cell, s.Metric); b != nil {
			return b
		}
	}
	return nil
}

// lastFor returns the last acceptance of a metric of a cell, or nil.
func lastFor(list []Blessing, cell, metric string) *Blessing {
	for _, b := range slices.Backward(list) {
		if (b.Cell == "" || b.Cell == cell) && (b.Metric == "" || b.Metric == metric) {
			return &b
		}
	}
	return nil
}
