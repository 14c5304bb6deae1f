package calibration

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"transportbench/core/base/files"
	"transportbench/core/base/machine"
	"transportbench/core/lab/store/jsondoc"
	"transportbench/core/lab/store/result"
)

// maxSize is the size in bytes of the largest file of a calibration. A full one needs a few MB.
const maxSize = 256 << 20

// Read reads a calibration, which may be compressed by gzip under its name with .gz behind it.
// Errors name the file, and the line and column of text that is wrong.
func Read(path string) (*Document, error) { return read(path, files.Read) }

// ReadArgument is Read for a file that the user named, which may be a pipe.
func ReadArgument(path string) (*Document, error) { return read(path, files.ReadArgument) }

func read(path string, reader func(path string, limit int64) ([]byte, error)) (*Document, error) {
	text, err := reader(files.Packed(path), maxSize)
	if err != nil {
		return nil, fmt.Errorf("reading calibration %s: %w", path, err)
	}
	d, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading calibration %s: %w", path, err)
	}
	return d, nil
}

// Parse is [Read] of text.
func Parse(text []byte) (*Document, error) {
	document, err := jsondoc.New(text)
	if err != nil {
		return nil, fmt.Errorf("not a calibration: %w", err)
	}
	switch {
	case document.SchemaVersion == "" || document.Kind == "":
		return nil, errors.New("not a calibration: it has no schema_version or no kind")
	case document.Kind != Kind:
		return nil, fmt.Errorf("kind %q is not %q", document.Kind, Kind)
	case result.Major(document.SchemaVersion) != result.Major(SchemaVersion):
		return nil,
			fmt.Errorf("%w: its schema is %q, and this transportbench reads calibrations of %s.x",
				result.ErrNewer, document.SchemaVersion, result.Major(SchemaVersion))
	}
	d := new(Document)
	if err := document.Decode(d); err != nil {
		return nil, err
	}
	return d, d.check()
}

var validID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// check returns an error for what the types allow but a calibration must not have.
func (d *Document) check() error {
	switch {
	case !validID.MatchString(d.ID):
		return fmt.Errorf("id %.40q is not 32 hexadecimal digits", d.ID)
	case d.StartedAt.IsZero():
		return errors.New("started_at is missing")
	case !(d.TookS >= 0):
		return fmt.Errorf("took_s: %g is negative", d.TookS)
	case !(d.Alpha > 0 && d.Alpha < 1):
		return fmt.Errorf("alpha: %g is not between 0 and 1", d.Alpha)
	case d.Environment.Identity.Arch == "":
		return errors.New("environment: the machine's identity is missing")
	}
	seen := map[string]bool{}
	for i := range d.Experiments {
		e := &d.Experiments[i]
		if err := e.check(); err != nil {
			return fmt.Errorf("experiments[%d]: %w", i, err)
		}
		if seen[e.Name] {
			return fmt.Errorf("experiments[%d]: there are two of the name %q", i, e.Name)
		}
		seen[e.Name] = true
	}
	return nil
}

func (e *Experiment) check() error {
	if e.Name == "" {
		return errors.New("name is missing")
	}
	if e.Set == nil {
		return errors.New("set is missing")
	}
	if err := e.Set.Check(); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	cells := e.Set.Cells
	switch {
	case len(e.Known) != len(cells):
		return fmt.Errorf("known has %d values for %d cells", len(e.Known), len(cells))
	case len(e.Discarded) != 0 && len(e.Discarded) != len(cells):
		return fmt.Errorf("discarded has %d values for %d cells", len(e.Discarded), len(cells))
	case slices.ContainsFunc(e.Discarded, func(n int) bool { return n < 0 }):
		return fmt.Errorf("discarded: %d has a negative number", e.Discarded)
	}
	for i := range cells {
		rounds := len(cells[i].Windows)
		if rounds == 0 || rounds != len(cells[0].Windows) {
			return fmt.Errorf("set: cells[%d] has %d windows and cells[0] has %d", i, rounds,
				len(cells[0].Windows))
		}
		for name, values := range cells[i].Samples {
			if len(values) != rounds {
				return fmt.Errorf("set: cells[%d]: metric %q has %d samples for %d windows", i,
					name, len(values), rounds)
			}
		}
	}
	return nil
}

// Write stores d as the file at path, whose directory it creates if needed. The file appears
// complete and durable or not at all, and replaces an older one.
func Write(path string, d *Document) error {
	if err := files.MakeDir(filepath.Dir(path)); err != nil {
		return &result.IOError{Op: "making a directory for the calibration",
			Path: filepath.Dir(path), Err: err}
	}
	if err := files.Replace(path, d.Encode); err != nil {
		return &result.IOError{Op: "writing the calibration", Path: path, Err: err}
	}
	return nil
}

// Encode writes d as JSON with one cell per line.
func (d *Document) Encode(w io.Writer) error {
	// The field of the same name hides that of the document.
	head, err := json.MarshalIndent(struct {
		*Document
		Experiments any `json:"experiments,omitempty"`
	}{Document: d.normalized()}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the calibration: %w", err)
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s,\n  \"experiments\": [", strings.TrimSuffix(string(head), "\n}"))
	for i := range d.Experiments {
		e := &d.Experiments[i]
		fields, err := json.Marshal(struct {
			*Experiment
			Set any `json:"set,omitempty"`
		}{Experiment: e})
		if err != nil {
			return fmt.Errorf("encoding the calibration: %s: %w", e.Name, err)
		}
		separator := ","
		if i == 0 {
			separator = ""
		}
		fmt.Fprintf(b, "%s\n%s,\"set\":", separator, strings.TrimSuffix(string(fields), "}"))
		if err := e.Set.Encode(b); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		fmt.Fprint(b, "}")
	}
	fmt.Fprint(b, "]\n}\n")
	return b.Flush()
}

// normalized returns a copy that has empty lists instead of nil ones, which would be written as
// null, and times in UTC.
func (d *Document) normalized() *Document {
	c := *d
	c.StartedAt = c.StartedAt.UTC()
	c.Argv = append([]string{}, c.Argv...)
	c.Recovery = append([]Recovery{}, c.Recovery...)
	c.Observer = append([]Observer{}, c.Observer...)
	c.FalseVerdicts = append([]FalseVerdicts{}, c.FalseVerdicts...)
	c.Resolution.Trials = append([]Trials{}, c.Resolution.Trials...)
	c.Power = append([]Power{}, c.Power...)
	for i := range c.Power {
		c.Power[i].Trials = append([]Trials{}, c.Power[i].Trials...)
	}
	return &c
}

// StatePath returns the path of the last calibration of a machine, which need not exist. It is in
// $XDG_STATE_HOME, by default ~/.local/state.
func StatePath(identity machine.Identity) (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) { // which the specification of the variable tells to ignore
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the user's state directory: %w; set XDG_STATE_HOME", err)
		}
		dir = filepath.Join(home, ".local", "state")
	}
	text, err := json.Marshal(identity)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return filepath.Join(dir, "transportbench", "calibration", hex.EncodeToString(sum[:8])+".json"),
		nil
}
