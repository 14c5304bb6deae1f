package experiment

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

const far, near = 200.0, 50.0 // ns

// atDistance measures at the core distance that of returns for the n-th run of a transport, from 0.
func atDistance(of func(transport string, n int) float64) (Measure, map[string]int) {
	runs := map[string]int{}
	return func(_ context.Context, c config.Config, _ runner.Observer) (*result.Result, error) {
		r := measured(c, 1e6)
		distance := of(c.Transport, runs[c.Transport])
		runs[c.Transport]++
		r.Repeats[0].Before.CoreDistance, r.Repeats[0].After.CoreDistance = distance, distance
		time.Sleep(time.Second)
		return r, nil
	}, runs
}

// Cells with fewer than six windows in the state that is shown get more, until they have six.
func TestTopUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, w := t.TempDir(), new(watcher)
		p := plan(t, "repeats: 10\naxes: {transport: [shm, erpc]}\n")
		measure, runs := atDistance(func(transport string, n int) float64 {
			if transport == "erpc" && n < 5 || n < 2 {
				return far
			}
			return near
		})
		outcome, err := runSweep(t.Context(), p, options{Dir: dir, Measure: measure, Watcher: w})
		require.NoError(t, err)
		require.Equal(t, map[string]int{"shm": 10, "erpc": 11}, runs)
		require.Len(t, w.cells, 2, "each cell is complete once")
		last := w.begun[len(w.begun)-1]
		require.Equal(t, []int{11, 11, 21, 21},
			[]int{last.Repeat, last.Repeats, last.Run, last.Runs})
		shown := state.ShownOf(outcome.Set)
		for i := range outcome.Set.Cells {
			c := &outcome.Set.Cells[i]
			require.GreaterOrEqual(t, len(shown.Cell(c).Windows), fewestForInterval)
			require.Len(t, c.Files, 1)
		}
		read, err := set.Load(dir)
		require.NoError(t, err)
		require.NoError(t, read.Check())
		again, err := runSweep(t.Context(), p, options{Dir: dir, Measure: measure,
			Watcher: new(watcher), Resume: true})
		require.NoError(t, err)
		require.Equal(t, 2, again.Complete)
		require.Equal(t, map[string]int{"shm": 10, "erpc": 11}, runs, "nothing is left to measure")
	})
}

// Cells with fewer than six windows that others did not disturb get more, whatever their values.
func TestTopUpOfDisturbedWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p := plan(t, "repeats: 10\naxes: {transport: [shm, erpc]}\n")
		runs := map[string]int{}
		measure := func(_ context.Context, c config.Config, _ runner.Observer) (*result.Result,
			error) {
			r := measured(c, 1e6)
			repeat := &r.Repeats[0]
			if n := runs[c.Transport]; c.Transport == "erpc" && n < 5 {
				repeat.Machine.StealNS = uint64(result.MinSteal)
				repeat.Samples[result.Steal] = 0.5
			} else if c.Transport == "shm" {
				repeat.Samples[result.Throughput] /= float64(1 + n%2*20)
			}
			runs[c.Transport]++
			time.Sleep(time.Second)
			return r, nil
		}
		_, err := runSweep(t.Context(), p, options{Dir: dir, Measure: measure,
			Watcher: new(watcher)})
		require.NoError(t, err)
		require.Equal(t, map[string]int{"shm": 10, "erpc": 11}, runs)
		read, err := set.Load(dir)
		require.NoError(t, err)
		shown := state.ShownOf(read)
		for i := range read.Cells {
			if c := &read.Cells[i]; c.Transport() == "erpc" {
				require.Equal(t, "6 undisturbed", shown.Windows(c))
			}
		}
	})
}

// The time of a top-up is bounded, and a failure of one costs nothing.
func TestTopUpEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan(t, "repeats: 30\naxes: {transport: [shm, erpc]}\n")
		measure, runs := atDistance(func(transport string, n int) float64 {
			if transport == "erpc" && n >= 3 {
				return far
			}
			return near
		})
		began := time.Now()
		_, err := runSweep(t.Context(), p, options{Dir: t.TempDir(), Measure: measure,
			Watcher: new(watcher)})
		require.NoError(t, err)
		require.Equal(t, 30, runs["shm"])
		limit := p.TopUps(runner.Beside{})
		require.InDelta(t, topUpShare, limit.Seconds()/p.Expected(runner.Beside{}).Seconds(), 1e-6)
		require.Greater(t, runs["erpc"], 30)
		require.LessOrEqual(t, time.Since(began), 60*time.Second+limit)

		broken := func(ctx context.Context, c config.Config, o runner.Observer) (*result.Result,
			error) {
			r, err := measure(ctx, c, o)
			if runs["shm"]+runs["erpc"] > 60 {
				return nil, context.DeadlineExceeded
			}
			return r, err
		}
		clear(runs)
		outcome, err := runSweep(t.Context(), p, options{Dir: t.TempDir(), Measure: broken,
			Watcher: new(watcher)})
		require.NoError(t, err)
		require.Equal(t, 2, outcome.Complete)
		require.Zero(t, outcome.Failed)
	})
}
