package set

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"transportbench/core/base/files"
)

// Encode writes the set as JSON with one cell per line, so that versions can be compared line by
// line.
func (s *Set) Encode(w io.Writer) error {
	return s.encode(w, func(c Cell) (Cell, error) { return c, nil })
}

// EncodeWhole writes the set as one file with the results of every cell and without names of files.
// It holds the results of one cell in memory at a time.
func (s *Set) EncodeWhole(w io.Writer) error {
	return s.encode(w, func(c Cell) (Cell, error) {
		var err error
		c.Results, err = s.Results(&c)
		c.Files = nil
		return c, err
	})
}

func (s *Set) encode(w io.Writer, complete func(Cell) (Cell, error)) error {
	b := bufio.NewWriter(w)
	fields := []struct {
		name  string
		value any
	}{
		{"schema_version", s.SchemaVersion}, {"kind", s.Kind}, {"created_at", s.CreatedAt.UTC()},
		{"environments", s.Environments},
	}
	fmt.Fprint(b, "{\n")
	for _, f := range fields {
		text, err := json.Marshal(f.value)
		if err != nil {
			return fmt.Errorf("encoding the set: %w", err)
		}
		fmt.Fprintf(b, "%q: %s,\n", f.name, text)
	}
	fmt.Fprint(b, "\"cells\": [")
	for i, cell := range slices.Concat(s.Cells, s.Reference) {
		c, err := complete(cell)
		if err != nil {
			return err
		}
		if c.Run != nil {
			c.Config = nil
		}
		text, err := json.Marshal(&c)
		if err != nil {
			return fmt.Errorf("encoding the set: cells[%d]: %w", i, err)
		}
		if i > 0 {
			fmt.Fprint(b, ",")
		}
		fmt.Fprintf(b, "\n%s", text)
	}
	fmt.Fprint(b, "\n]}\n")
	return b.Flush()
}

// WriteIndex stores the set as a directory's index and replaces an old one. If it fails, the old
// one stays.
func (s *Set) WriteIndex(dir string) error {
	return files.Replace(filepath.Join(dir, IndexName), s.Encode)
}
