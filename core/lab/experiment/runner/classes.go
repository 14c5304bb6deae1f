package runner

import (
	"context"
	"time"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/sample"
	"transportbench/core/lab/store/result"
)

// minPair is the shortest window of a pair of ranks alone.
const minPair = 20 * time.Millisecond

// alone returns the windows of repeat i in which one part of the load calls alone: each class of
// traffic, then pairs of ranks of a matrix. Those of pairs are together as long as the repeat. If
// that is too short for all pairs, they take turns over the repeats.
func alone(cfg config.Config, i int) (windows []record.Window) {
	length := time.Duration(cfg.Duration)
	if len(cfg.Classes) > 1 {
		for class := range cfg.Classes {
			windows = append(windows, record.Window{Duration: length, Only: class + 1})
		}
	}
	pairs := cfg.Traffic.Matrix().Pairs()
	n := min(len(pairs), max(1, int(length/minPair)))
	for at := range n {
		p := pairs[(i*n+at)%len(pairs)]
		windows = append(windows, record.Window{
			Duration: length / time.Duration(n), Pair: &record.Pair{From: p[0], To: p[1]},
		})
	}
	return windows
}

// timeAlone is the time of the windows of alone, the same for each repeat.
func timeAlone(cfg config.Config) (sum time.Duration) {
	for _, w := range alone(cfg, 0) {
		sum += w.Duration
	}
	return sum
}

// repeatWithParts is repeat. If the load has parts, it measures on the same connections each part
// alone besides, to tell how much they slow each other: before the repeat and after it in turn, so
// that a drift of the machine favors neither.
func (b *bench) repeatWithParts(ctx context.Context, i int) (repeat result.Repeat, err error) {
	windows := alone(b.cfg, b.earlier+i)
	reports := make([][]record.Report, len(windows))
	measureAlone := func() error {
		for at, w := range windows {
			b.progress.enter(StepAlone, b.earlier+i+1, w.Duration)
			w.SampleEvery = b.sampleEvery
			if reports[at], err = b.runWindow(ctx, w); err != nil {
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
	return repeat, sample.Parts(&b.cfg, &repeat, windows, reports)
}
