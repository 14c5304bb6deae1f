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

// The microbenchmark of the rings, of the transport that has it.
const (
	ringTransport = "shm"
	ring          = "spsc"
	ringTime      = 30 * time.Millisecond
	ringRepeats   = 6
)

// Rings measures the rings under the transports of a plan that have some. It does nothing on other
// hosts.
func Rings(ctx context.Context, e *experiment.Engine, plan *experiment.Plan) error {
	has := slices.ContainsFunc(plan.Cells,
		func(c experiment.Cell) bool { return c.Config.Transport == ringTransport })
	if !has || e.Place != nil {
		return nil
	}
	return micro.Store(ctx, e, ringTransport, record.MicroRequest{Names: []string{ring},
		Duration: ringTime}, ringRepeats, "micro-"+ring)
}
