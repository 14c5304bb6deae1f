package micro

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/judge/reproduce"
)

// Readings says how the microbenchmarks of a document are read.
type Readings struct {
	// Full takes the document's own time of a reading. Duration, unless it is empty, takes the
	// place of both.
	Full     bool
	Duration string
	Repeats  int
}

// Of returns the time of a reading.
func (r Readings) Of(m *reproduce.Micro) string {
	switch {
	case r.Duration != "":
		return r.Duration
	case r.Full:
		return m.Full
	}
	return m.Duration
}

// StoreDocument measures the microbenchmarks of a document that the engine's directory does not
// have yet. It notes those that fail, goes on with the others, and returns the last error.
func StoreDocument(ctx context.Context, d *reproduce.Document, e *experiment.Engine,
	r Readings) error {
	if e.Place != nil && len(d.Micro) > 0 {
		e.Note("microbenchmarks measure one host, so they are left out")
		return nil
	}
	var failed error
	for i := range d.Micro {
		m := &d.Micro[i]
		file := "micro-" + m.Transport + "-" + strings.Join(m.Names, "-")
		if have, _ := filepath.Glob(filepath.Join(e.Dir, file+"-2*.json")); len(have) > 0 {
			continue
		}
		name := "micro " + m.Transport + " " + strings.Join(m.Names, " ")
		e.Note(name)
		duration, err := time.ParseDuration(r.Of(m))
		if err == nil {
			err = Store(ctx, e, m.Transport,
				record.MicroRequest{Options: m.Options, Names: m.Names, Duration: duration,
					Counters: m.Counters},
				r.Repeats, file)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			e.Note(fmt.Sprintf("micro %s: %v", m.Transport, err))
			failed = err
		}
	}
	return failed
}
