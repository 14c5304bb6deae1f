package stack

import (
	"context"
	"path/filepath"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/study/micro"
)

// Sweep is the name of the built-in sweep of the layers.
const Sweep = "stack"

// Runs returns the directory of the sweep in that of the stack.
func Runs(dir string) string { return filepath.Join(dir, "runs") }

// The readings of a microbenchmark that measures a layer.
const (
	readingTime = 30 * time.Millisecond
	repeats     = 6
)

// Parts measures the layers that transports of a plan have microbenchmarks for. It does nothing on
// other hosts.
func Parts(ctx context.Context, e *experiment.Engine, plan *experiment.Plan) error {
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
		layer := p.Info.Layer
		if layer == "" {
			continue
		}
		request := record.MicroRequest{Names: []string{layer}, Duration: readingTime}
		if err := micro.Store(ctx, e, name, request, repeats, "micro-"+layer); err != nil {
			return err
		}
	}
	return nil
}
