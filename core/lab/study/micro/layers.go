package micro

import (
	"context"
	"time"

	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
)

// The readings of a microbenchmark that measures a layer.
const (
	layerTime    = 30 * time.Millisecond
	layerRepeats = 6
)

// StoreLayers measures the layers that transports of a plan have microbenchmarks for. It does
// nothing on other hosts.
func StoreLayers(ctx context.Context, e *experiment.Engine, plan *experiment.Plan) error {
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
		request := record.MicroRequest{Names: []string{layer}, Duration: layerTime}
		if err := Store(ctx, e, name, request, layerRepeats, "micro-"+layer); err != nil {
			return err
		}
	}
	return nil
}
