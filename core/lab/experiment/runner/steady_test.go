package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
)

func TestSettled(t *testing.T) {
	for name, c := range map[string]struct {
		rates []float64
		want  bool
	}{
		"too few":            {[]float64{5, 5, 5, 5}, false},
		"even":               {[]float64{5, 5, 5, 5, 5}, true},
		"nothing at all":     {[]float64{0, 0, 0, 0, 0}, false},
		"within a tenth":     {[]float64{95, 105, 100, 91, 109}, true},
		"one is off":         {[]float64{100, 100, 100, 100, 115}, false},
		"growing":            {[]float64{50, 60, 70, 80, 90}, false},
		"after a slow start": {[]float64{1, 3, 50, 100, 101, 99, 100, 100}, true},
	} {
		var rounds []round
		for _, rate := range c.rates {
			rounds = append(rounds, round{rate: rate})
		}
		require.Equal(t, c.want, settled(rounds), name)
	}
	few := []round{{100, 20}, {100, 20}, {100, 20}, {100, 20}, {125, 20}}
	require.True(t, settled(few), "a count of so few varies by more")
}

// told reports whether the channel is closed.
func told(reached <-chan struct{}) bool {
	select {
	case <-reached:
		return true
	default:
		return false
	}
}

func TestSteady(t *testing.T) {
	progress := func(round int, perRound uint64) record.Progress {
		return record.Progress{Ops: uint64(round) * perRound,
			Elapsed: time.Duration(round) * 25 * time.Millisecond}
	}
	s := newSteady(2)
	s.update(1, progress(1, 100)) // no goroutine waits
	reached := s.watch()
	for round := range steadyRounds + 1 {
		require.False(t, told(reached))
		s.update(1, progress(round, 100))
		s.update(1, progress(round, 100)) // no time has passed
		require.False(t, told(reached), "rank 2 has not told its part of round %d", round)
		s.update(2, progress(round, 300))
	}
	require.True(t, told(reached))
	s.update(1, progress(20, 100)) // and so on, without effect
	s.update(2, progress(20, 100))

	// The next window starts anew.
	reached = s.watch()
	for round := range steadyRounds {
		s.update(1, progress(round, 100))
		s.update(2, progress(round, 100))
	}
	require.False(t, told(reached))
	s.update(1, record.Progress{Ops: 500, Elapsed: time.Second, Drained: true})
	s.unwatch()
	s.update(1, progress(6, 100))
	s.update(2, progress(6, 100))
	require.False(t, told(reached), "late progress belongs to another window")
}

func TestWarmupEndsWhenSteady(t *testing.T) {
	for name, steady := range map[string]bool{result.WarmupSteady: true,
		result.WarmupLimit: false} {
		t.Run(name, func(t *testing.T) {
			forEachMesh(t, func(t *testing.T, c *cluster, req Request) {
				c.steady = steady
				limit := time.Duration(req.Config.Warmup)
				r, err := Run(t.Context(), req, nil)
				require.NoError(t, err)
				require.Empty(t, c.wrong)
				require.Equal(t, name, r.Setup.Warmup.Ended)
				if steady {
					require.Less(t, r.Setup.Warmup.LastedMS, milliseconds(limit)*2/3)
				} else {
					require.Equal(t, milliseconds(limit), r.Setup.Warmup.LastedMS)
				}
				// Measured windows are steady too, and last their full duration.
				for _, repeat := range r.Repeats {
					for _, report := range repeat.Ranks {
						require.False(t, report.Stopped)
						require.EqualValues(t, req.Config.Duration, report.Clients[0].ElapsedNS)
					}
				}
				require.Equal(t, steady, c.count[call{1, opDrain, 0}] == 1)
			})
		})
	}
}

// A slow answer delays the next window, which it would end early otherwise.
func TestSlowEndOfWarmup(t *testing.T) {
	forEachMesh(t, func(t *testing.T, c *cluster, req Request) {
		c.steady = true
		slow := false
		c.hook = func(this call) {
			if this == (call{1, opDrain, 1}) {
				time.Sleep(margin / 2) // long past the limit
				slow = true
			}
			if this.op == opRun && this.nth > 1 && !slow {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.wrong = append(c.wrong, "a window begins before the warm-up's end is known")
			}
		}
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		require.True(t, slow)
		require.Empty(t, c.wrong)
		for _, repeat := range r.Repeats {
			require.EqualValues(t, req.Config.Duration, repeat.Ranks[1].Clients[0].ElapsedNS)
		}
	})
}

func TestEndOfWarmupIsNotAnswered(t *testing.T) {
	forEachMesh(t, func(t *testing.T, c *cluster, req Request) {
		c.steady = true
		c.hang = map[call]bool{{1, opDrain, 1}: true}
		r, err := Run(t.Context(), req, nil)
		require.Nil(t, r)
		requireRankError(t, err, 1, "advance")
		require.ErrorIs(t, err, ErrNoAnswer)
		c.requireAllKilled(t)
	})
}

func TestProgressWithAShortWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		c := newCluster()
		c.steady = true
		req := request(c)
		_, err := Run(t.Context(), req, &seen)
		require.NoError(t, err)
		for i, s := range seen.states[1:] {
			require.LessOrEqual(t, s.Left, seen.states[i].Left, "the time left never grows")
			if s.Step == StepOverhead && seen.states[i].Step == StepWarmup {
				require.Equal(t, 3*windowTime(req.Config, req.Beside), s.Left,
					"the unused time of the warm-up does not count")
				require.Positive(t, seen.states[i].Left-s.Left)
			}
		}
	})
}
