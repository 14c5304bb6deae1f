package runner

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// launched requests five repeats of as many launches.
func launched(c *cluster, launches int) Request {
	req := request(c)
	req.Config.Repeats, req.Config.Launches = 5, launches
	return req
}

func TestLaunches(t *testing.T) {
	for launches, want := range map[int][]int{0: {0, 1, 2, 3, 4}, 1: {0, 0, 0, 0, 0}, 2: {0, 0, 0, 1, 1}} {
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
		require.ErrorContains(t, err, "launch 2: ")
		require.ErrorContains(t, err, "not the same plugin")
		require.Len(t, r.Repeats, 1, "what is complete is kept")
		require.Contains(t, r.IncompleteReason, "failed after 1 of 5")
		c.requireAllKilled(t)
	})
}
