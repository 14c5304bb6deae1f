package stack

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/study/micro"
)

// Sweep is the name of the built-in sweep of the layers.
const Sweep = "stack"

// Runs returns the directory of the sweep in that of the stack.
func Runs(dir string) string { return filepath.Join(dir, "runs") }

// The microbenchmark of the rings that are the bottom layer, of the transport that has it.
const (
	ring        = "spsc"
	ringTime    = 30 * time.Millisecond
	ringRepeats = 6
)

// Rings measures the rings under the transports of a plan that have some. It does nothing on other
// hosts.
func Rings(ctx context.Context, e *experiment.Engine, plan *experiment.Plan) error {
	if e.Place != nil {
		return nil
	}
	asked := map[string]bool{}
	for _, cell := range plan.Cells {
		name := cell.Config.Transport
		if asked[name] {
			continue
		}
		asked[name] = true
		p, err := e.Find(ctx, name)
		if err != nil {
			return err
		}
		if slices.Contains(p.Microbenchmarks, ring) {
			return micro.Store(ctx, e, name, record.MicroRequest{Names: []string{ring},
				Duration: ringTime}, ringRepeats, "micro-"+ring)
		}
	}
	return nil
}
