package perf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"transportbench/core/base/files"
	"transportbench/core/base/machine"
)

// The files that perf and Perf write into a directory.
const (
	RecordFile = "perf.data"
	ReportFile = "perf-c2c.txt"
	// ProfileFile is the [Profile] as JSON, which Keep writes.
	ProfileFile = "c2c.json"
)

// patience is how long perf may take to end after it was told to.
const patience = 10 * time.Second

// Perf is the program perf.
type Perf struct {
	Program string // its path
}

// Find returns perf if it is installed and this machine counts hardware events. The error is one
// line with the remedy.
func Find() (*Perf, error) {
	if err := machine.CheckCounters(); err != nil {
		return nil, err
	}
	program, err := exec.LookPath("perf")
	if err != nil {
		return nil, errors.New("perf is not installed: apt install linux-perf")
	}
	return &Perf{Program: program}, nil
}

// Record samples loads and stores of the processes for d into dir, which no other user may write:
// perf follows links.
func (p *Perf) Record(ctx context.Context, pids []int, d time.Duration, dir string) error {
	var list []string
	for _, pid := range pids {
		list = append(list, strconv.Itoa(pid))
	}
	return p.record(ctx, dir, "-p", strings.Join(list, ","), "--", "sleep",
		strconv.FormatFloat(d.Seconds(), 'f', 3, 64))
}

// record samples into dir what the arguments of perf record say.
func (p *Perf) record(ctx context.Context, dir string, what ...string) error {
	args := []string{"record", "--", "-o", filepath.Join(dir, RecordFile)}
	_, err := p.run(ctx, append(args, what...)...)
	return err
}

// Report reads what Record has sampled, and leaves what perf printed in dir.
func (p *Perf) Report(ctx context.Context, dir string) (*Sharing, error) {
	text, err := p.run(ctx, "report", "-i", filepath.Join(dir, RecordFile), "--stdio",
		"--full-symbols", "--no-source", "--coalesce", "tid,iaddr")
	if err != nil {
		return nil, err
	}
	if err := files.Replace(filepath.Join(dir, ReportFile),
		func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return nil, err
	}
	return ParseC2C(text)
}

// Keep copies what perf and Perf wrote in dir into another directory, which it creates if needed,
// and writes the profile there.
func (p *Profile) Keep(dir, to string) error {
	if err := files.MakeDir(to); err != nil {
		return err
	}
	for _, name := range []string{RecordFile, ReportFile} {
		from, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) { // perf failed
			continue
		}
		if err != nil {
			return err
		}
		err = files.Replace(filepath.Join(to, name),
			func(w io.Writer) error { _, err := io.Copy(w, from); return err })
		if err := errors.Join(err, from.Close()); err != nil {
			return err
		}
	}
	return files.Replace(filepath.Join(to, ProfileFile), func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(p)
	})
}

// run returns the standard output of perf c2c. When ctx ends, perf is interrupted.
func (p *Perf) run(ctx context.Context, args ...string) ([]byte, error) {
	name := "perf c2c " + args[0]
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, p.Program, append([]string{"c2c"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PAGER=cat") // numbers with points
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = patience
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if said := firstLine(stderr.String()); said != "" {
			return nil, fmt.Errorf("%s: %s (%w)", name, said, err)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return stdout.Bytes(), nil
}

// firstLine returns the first line with more than a title.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line != "Error:" &&
			!strings.HasPrefix(line, "[ perf record:") {
			return line
		}
	}
	return ""
}
