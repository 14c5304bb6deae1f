package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"transportbench/core/base/files"
	"transportbench/core/base/record"
	"transportbench/core/lab/doc/export"
	"transportbench/core/lab/store/format"
)

const traceHelp = "write the steps of the first window's transfers to this file, in Chrome's " +
	"trace format (ui.perfetto.dev); of transports that record them, such as tcpx"

// traceFile is the file of --trace. It is nil without one.
type traceFile struct {
	path   string
	traces []export.Trace
}

func newTraceFile(path string) (*traceFile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, usagef("--trace: %s is a directory; name a file", path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, usagef("--trace: there is no directory %s", filepath.Dir(path))
	}
	return &traceFile{path: path}, nil
}

// check refuses transports that record no steps: any that the user named, or all.
func (t *traceFile) check(entries []*entry, named bool) error {
	if t == nil {
		return nil
	}
	var without []string
	for _, e := range entries {
		if !e.description.Info.Capabilities.Traces {
			without = append(without, e.Name)
		}
	}
	if len(without) == 0 || len(without) < len(entries) && !named {
		return nil
	}
	return usagef("--trace: %s does not record the steps of its transfers; tcpx does",
		strings.Join(without, ", "))
}

// of returns what takes the traces of a transport, or nil without a file.
func (t *traceFile) of(transport string) func([]record.ThreadTrace) {
	if t == nil {
		return nil
	}
	return func(threads []record.ThreadTrace) {
		t.traces = slices.DeleteFunc(t.traces,
			func(one export.Trace) bool { return one.Transport == transport })
		t.traces = append(t.traces, export.Trace{Transport: transport, Threads: threads})
	}
}

// write writes what was taken, and says so.
func (t *traceFile) write(ctx context.Context, a *app) error {
	if t == nil || len(t.traces) == 0 {
		return nil
	}
	transfers := 0
	err := files.Write(ctx, t.path, func(w io.Writer) (err error) {
		transfers, err = export.ChromeTrace(w, t.traces)
		return err
	})
	if err != nil {
		return badOutput("--trace", err)
	}
	a.note("%s: the steps of %s", t.path, format.Count(transfers, "transfer"))
	return nil
}
