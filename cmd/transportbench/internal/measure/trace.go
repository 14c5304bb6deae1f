package measure

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/core/base/files"
	"transportbench/core/base/record"
	"transportbench/core/lab/doc/export"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/store/format"
)

const traceHelp = "write the steps of the first window's transfers to this file, in Chrome's " +
	"trace format (ui.perfetto.dev); of transports with the capability traces"

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
		return nil, app.Usagef("--trace: %s is a directory; name a file", path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, app.Usagef("--trace: there is no directory %s", filepath.Dir(path))
	}
	return &traceFile{path: path}, nil
}

// record takes the traces of jobs. It refuses transports that record no steps: any that the user
// named, or all. It does nothing without a file.
func (t *traceFile) record(jobs []experiment.Run, named bool) error {
	if t == nil {
		return nil
	}
	var without []string
	for i := range jobs {
		name := jobs[i].Config.Transport
		if !jobs[i].Plugin.Info.Capabilities.Traces {
			without = append(without, name)
		}
		jobs[i].Trace = func(threads []record.ThreadTrace) {
			t.traces = slices.DeleteFunc(t.traces,
				func(one export.Trace) bool { return one.Transport == name })
			t.traces = append(t.traces, export.Trace{Transport: name, Threads: threads})
		}
	}
	if len(without) == 0 || len(without) < len(jobs) && !named {
		return nil
	}
	return app.Usagef("--trace: %s does not record the steps of its transfers: it lacks the "+
		"capability traces (plugins show NAME)",
		strings.Join(without, ", "))
}

// write writes what was taken, and says so.
func (t *traceFile) write(ctx context.Context, a *app.App) error {
	if t == nil || len(t.traces) == 0 {
		return nil
	}
	transfers := 0
	err := files.Write(ctx, t.path, func(w io.Writer) (err error) {
		transfers, err = export.ChromeTrace(w, t.traces)
		return err
	})
	if err != nil {
		return app.BadOutput("--trace", err)
	}
	a.Note("%s: the steps of %s", t.path, format.Count(transfers, "transfer"))
	return nil
}
