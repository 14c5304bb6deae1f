package runner

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// launched requests five repeats of as many launches.
func launched(c *cluster, launches int) Request {
	req := request(c)
	req.Config.Repeats, req.Config.Launches = 5, launches
	return req
}

func TestLaunches(t *testing.T) {
	for launches, want := range map[int][]int{0: {0, 1, 2, 3, 4}, 1: {0, 0, 0, 0, 0},
		2: {0, 0, 0, 1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			req := launched(c, launches)
			r, err := Run(t.Context(), req, nil)
			require.NoError(t, err)
			c.requireAllKilled(t)
			requireValid(t, r)
			require.False(t, r.Incomplete)
			require.Equal(t, req.Config, r.Config)
			var got []int
			for i, repeat := range r.Repeats {
				require.Equal(t, i, repeat.Index)
				got = append(got, repeat.Launch)
			}
			require.Equal(t, want, got)
			starts := want[len(want)-1] + 1
			require.Len(t, r.Launches, starts)
			for op, each := range map[string]int{opLaunch: 1, opPrepare: 1, opClose: 1, opKill: 1} {
				require.Equal(t, starts*each, c.count[call{0, op, 0}], op)
			}
			require.Equal(t, 5+starts, c.count[call{0, opRun, 0}], "a warm-up for each launch")
		})
	}
}

// A window whose distances before and after it differ is measured again, twice at most.
func TestMixedWindows(t *testing.T) {
	for name, c := range map[string]struct {
		distances []float64 // of the readings, in order
		mixed     bool
		again     int
	}{
		"one state":               {[]float64{50, 74}, false, 0},
		"mixed once":              {[]float64{50, 380, 380, 381}, false, 1},
		"mixed twice":             {[]float64{50, 380, 380, 52, 51, 51}, false, 2},
		"mixed to the end":        {[]float64{50, 380, 380, 52, 51, 380}, true, 2},
		"no distance is measured": {nil, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var seen recorder
			fake := newCluster()
			// two distances a side, around that of the medium
			fake.others = map[transport.ProbeKind]transport.Floor{}
			probes := 0
			if c.distances != nil {
				fake.others[record.ProbeDistance] = transport.Floor{RoundTrip: 60}
			}
			fake.perPair = func(p record.Probe, f *transport.Floor) {
				if p.Kind == record.ProbeDistance && p.Near.Rank == 1 && p.Far.Rank == 0 {
					f.RoundTrip = c.distances[probes/2]
					probes++
				}
			}
			req := request(fake)
			req.Config.Ranks, req.Config.Repeats = 2, 1
			r, err := Run(t.Context(), req, &seen)
			require.NoError(t, err)
			requireValid(t, r)
			require.Len(t, r.Repeats, 1)
			repeat := r.Repeats[0]
			require.Equal(t, c.mixed, repeat.Mixed, name)
			require.Len(t, repeat.Remeasured, c.again, name)
			require.Equal(t, 2*len(c.distances), probes, name)
			for i, d := range repeat.Remeasured {
				require.Equal(t, c.distances[2*i], d.DistanceBefore)
				require.Equal(t, c.distances[2*i+1], d.DistanceAfter)
				require.InDelta(t, 1e6, d.Throughput, 1)
				require.True(t, d.StartedAt.Before(repeat.StartedAt))
			}
			for i, s := range seen.states {
				require.GreaterOrEqual(t, s.Left, time.Duration(0), i)
			}
		})
	}
}

// What a later launch does wrong keeps the repeats of the earlier ones.
func TestLaterLaunchFails(t *testing.T) {
	for _, s := range []struct {
		at     call
		name   string
		window bool // the failure is during or after a window
	}{
		{call{1, opLaunch, 3}, "launch", false},
		{call{0, opPrepare, 3}, "prepare", false},
		{call{2, opRun, 5}, "run", false}, // the warm-up
		{call{2, opRun, 6}, "run", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			c.fail = map[call]error{s.at: errBroken}
			r, err := Run(t.Context(), launched(c, 0), nil)
			require.ErrorIs(t, err, errBroken)
			requireRankError(t, err, s.at.rank, s.name)
			c.requireAllKilled(t)
			requireValid(t, r)
			require.Len(t, r.Repeats, 2)
			require.Contains(t, r.IncompleteReason, "failed after 2 of 5 repeats: rank")
			require.Equal(t, s.name, r.Failure.Operation)
			require.Equal(t, s.window, r.FailedRepeat != nil)
			if s.window {
				require.Equal(t, 2, r.FailedRepeat.Index)
				require.Equal(t, 2, r.FailedRepeat.Launch)
			}
			require.Equal(t, 5, r.Config.Repeats)
		})
	}
}

func TestInterruptedLaunches(t *testing.T) {
	for _, at := range []call{
		{0, opLaunch, 3}, {0, opKill, 2}, // within a launch, and between two
		{1, opRun, 6}, // within a window
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := newCluster()
			c.hook = func(this call) {
				if this == at {
					cancel()
				}
			}
			r, err := Run(ctx, launched(c, 0), nil)
			require.ErrorIs(t, err, context.Canceled)
			require.Len(t, r.Repeats, 2)
			require.Contains(t, r.IncompleteReason, "interrupted after 2 of 5")
			require.Nil(t, r.Failure)
			require.Nil(t, r.FailedRepeat)
			requireValid(t, r)
			c.requireAllKilled(t)
		})
	}
}

// The time left includes the setup of every launch.
func TestProgressOfLaunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		req := launched(newCluster(), 0)
		req.Config.Repeats = 2
		_, err := Run(t.Context(), req, &seen)
		require.NoError(t, err)
		var repeats []int
		for i, s := range seen.states {
			if i > 0 {
				require.LessOrEqual(t, s.Left, seen.states[i-1].Left)
			}
			if s.Step == StepRepeat {
				repeats = append(repeats, s.Repeat)
			}
		}
		require.Equal(t, []int{1, 2}, slices.Compact(repeats))
		require.Greater(t, seen.states[0].Left, 2*(time.Second+time.Duration(req.Config.Warmup)))
		require.Zero(t, seen.states[len(seen.states)-1].Left)
	})
}

// Launches that differ in what must be the same are an error.
func TestLaunchesOfDifferentProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.hook = func(this call) {
			if this == (call{0, opKill, 1}) {
				c.prepared.Properties.Provider = "udp"
			}
		}
		r, err := Run(t.Context(), launched(c, 0), nil)
		require.ErrorContains(t, err, "process start 2: ")
		require.ErrorContains(t, err, "not the same plugin")
		require.Len(t, r.Repeats, 1, "what is complete is kept")
		require.Contains(t, r.IncompleteReason, "failed after 1 of 5")
		c.requireAllKilled(t)
	})
}

// Each repeat but the last is kept once it is complete, as a valid result with those before it.
func TestRepeatsAreKept(t *testing.T) {
	for _, launches := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			req := launched(c, launches)
			var kept []int
			req.Keep = func(repeats int, soFar func() (*result.Result, error)) error {
				r, err := soFar()
				require.NoError(t, err)
				requireValid(t, r)
				require.Len(t, r.Repeats, repeats)
				require.Equal(t, req.Config, r.Config)
				require.True(t, r.Incomplete)
				require.Equal(t, fmt.Sprintf("the run had not ended after %d of 5 repeats",
					repeats), r.IncompleteReason)
				require.Equal(t, repeats, r.Summary[result.Throughput].N)
				require.Len(t, r.Launches, r.Repeats[repeats-1].Launch+1)
				kept = append(kept, repeats)
				return nil
			}
			r, err := Run(t.Context(), req, nil)
			require.NoError(t, err)
			require.False(t, r.Incomplete)
			require.Equal(t, []int{1, 2, 3, 4}, kept, "%d launches", launches)
		})
	}
}

// A repeat that cannot be kept, for lack of space, ends the run. Its result has all repeats.
func TestRepeatThatCannotBeKept(t *testing.T) {
	for launches, want := range map[int]int{0: 2, 1: 2} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			req := launched(c, launches)
			req.Keep = func(repeats int, _ func() (*result.Result, error)) error {
				if repeats < want {
					return nil
				}
				return errBroken
			}
			r, err := Run(t.Context(), req, nil)
			require.ErrorIs(t, err, errBroken)
			c.requireAllKilled(t)
			requireValid(t, r)
			require.Len(t, r.Repeats, want)
			require.Contains(t, r.IncompleteReason, "failed after 2 of 5 repeats: broken")
		})
	}
}
