package runner

import (
	"context"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/sample"
	"transportbench/core/lab/store/result"
)

// alone returns the number of windows of a repeat in which one class of traffic calls alone.
func alone(cfg config.Config) int {
	if len(cfg.Classes) < 2 {
		return 0
	}
	return len(cfg.Classes)
}

// repeatWithClasses is repeat. If there are several classes of traffic, it measures on the same
// connections a window of each class alone besides, to tell how much they slow each other: before
// the repeat and after it in turn, so that a drift of the machine favors neither.
func (b *bench) repeatWithClasses(ctx context.Context, i int) (repeat result.Repeat, err error) {
	windows := make([][]record.Report, alone(b.cfg))
	measureAlone := func() error {
		duration := time.Duration(b.cfg.Duration)
		for class := range windows {
			b.progress.enter(StepAlone, b.earlier+i+1, duration)
			windows[class], err = b.runWindow(ctx,
				record.Window{Duration: duration, SampleEvery: b.sampleEvery, Only: class + 1})
			if err != nil {
				return err
			}
		}
		return nil
	}
	before := (b.earlier+i)%2 == 1
	if before {
		if err := measureAlone(); err != nil {
			return repeat, err
		}
	}
	if repeat, err = b.repeat(ctx, i); err != nil {
		return repeat, err
	}
	if !before {
		if err := measureAlone(); err != nil {
			return repeat, err
		}
	}
	return repeat, sample.Classes(&b.cfg, &repeat, windows)
}
