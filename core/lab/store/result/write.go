package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"transportbench/core/base/files"
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
// written as null, times in UTC, and each count of a histogram once.
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
		c.Repeats[i] = c.Repeats[i].withoutSums()
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
	return WriteDocument(dir, FileName(r),
		func(w io.Writer) error { _, err := text.WriteTo(w); return err })
}

// WriteDocument is [Write] for what write writes, as a file with that name.
func WriteDocument(dir, name string, write func(io.Writer) error) (path string, err error) {
	if err := files.MakeDir(dir); err != nil {
		return "", &IOError{"making the results directory", dir, err}
	}
	path = filepath.Join(dir, name)
	if err := files.Create(path, write); err != nil {
		return "", &IOError{"writing the result", path, err}
	}
	return path, nil
}

// CheckWritable returns an [*IOError] if [Write] cannot store a result in dir. dir need not exist
// if it can be created. CheckWritable leaves no file behind.
func CheckWritable(dir string) error {
	const size = 64 << 10 // large enough to detect a full disk
	if err := files.Try(dir, size); err != nil {
		return &IOError{"checking the results directory", dir, err}
	}
	return nil
}

// IOError reports that a result could not be stored. Its text is one line that ends with the
// remedy.
type IOError struct {
	Op   string
	Path string // the file or directory
	Err  error
}

func (e *IOError) Error() string {
	cause, remedy := e.Err, "choose another directory with --out"
	var failed *files.WriteError
	var errno unix.Errno
	switch { // the path is said once
	case errors.As(e.Err, &errno):
		cause = errno
	case errors.As(e.Err, &failed):
		cause = failed.Err
	}
	if first := files.Remedy(e.Err); first != "" {
		remedy = first + " or " + remedy
	}
	return fmt.Sprintf("%s: %s: %v; %s", e.Op, e.Path, cause, remedy)
}

func (e *IOError) Unwrap() error { return e.Err }
