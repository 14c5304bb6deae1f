package runner

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// A probe that fails or does not end is taken again and listed. If it fails for too long, its side
// of the window has no more readings, and the run goes on.
func TestProbeFailures(t *testing.T) {
	always := map[call]error{}
	for nth := range 100 {
		// the probes after the first window, and all later ones
		always[call{0, opProbe, nth + 2}] = errBroken
	}
	down := transport.NewOpError("erpc", "probe", transport.ErrPeerDown)
	for name, test := range map[string]struct {
		fake  func(*cluster)
		err   string // of the run
		times int    // that the probe failed
		text  string // of the failure
		given bool
	}{
		"once": {fake: func(c *cluster) {
			c.fail = map[call]error{{0, opProbe, 2}: errBroken}
		}, times: 1, text: "broken"},
		"late": {fake: func(c *cluster) { c.polls = map[call]bool{{0, opProbe, 2}: true} },
			times: 1, text: errProbeLate.Error()},
		"hangs": {fake: func(c *cluster) { c.hang = map[call]bool{{1, opProbe, 2}: true} },
			times: 1, text: errProbeLate.Error()},
		"for good": {fake: func(c *cluster) { c.fail = always }, times: 13, text: "broken",
			given: true},
		"no reading": {fake: func(c *cluster) { c.floor.RoundTrip = 0 }, times: 1,
			text: errNoReading.Error(), given: true},
		"peer down": {fake: func(c *cluster) { c.fail = map[call]error{{0, opProbe, 2}: down} },
			err: "rank 0: probing the floor: erpc: probe: peer is down"},
		"died": {
			fake: func(c *cluster) {
				c.fail = map[call]error{{1, opProbe, 2}: &record.ExitError{Plugin: "shm",
					State: "exit status 1"}}
			},
			err: "rank 1: probing the floor: plugin shm",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				test.fake(c)
				req := request(c)
				req.Config.Ranks, req.Config.Repeats = 2, 1
				start := time.Now()
				r, err := Run(t.Context(), req, nil)
				c.requireAllKilled(t)
				if test.err != "" {
					require.ErrorContains(t, err, test.err)
					require.Less(t, time.Since(start), 5*time.Second, "it is not taken again")
					return
				}
				require.NoError(t, err)
				requireValid(t, r)
				after := &r.Repeats[0].After
				require.Len(t, after.Failures, 1)
				failure := after.Failures[0]
				require.Contains(t, failure.Error, test.text)
				require.Equal(t, transport.ProbeMedium, failure.Kind)
				require.Equal(t, "client 0 of rank 1", failure.Caller.String())
				require.Equal(t, test.times, failure.Times)
				require.Equal(t, test.given, failure.GivenUp)
				check := findOf(t, r, "probes")
				require.Equal(t, !test.given, check.OK)
				require.Contains(t, check.Message, test.text)
				if test.given {
					require.Nil(t, after.Medium)
					require.Contains(t, after.Note, "given up: "+failure.Error)
					require.NotZero(t, after.CoreDistance, "it was next to the window")
					require.Nil(t, after.Rate, "probes after it")
				} else {
					require.NotNil(t, after.Medium)
					require.NotNil(t, after.Rate)
				}
			})
		})
	}
}

// A side of a window is given up at its first failure while the side before was given up, also in
// another launch.
func TestProbesStayGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		attempts := 0
		c.perPair = func(p record.Probe, floor *transport.Floor) {
			if p.Kind == transport.ProbeMedium && p.Near.Rank == 1 {
				if attempts++; attempts <= 17 || attempts == 19 {
					floor.RoundTrip = 0
				}
			}
		}
		req := request(c)
		req.Config.Ranks, req.Config.Repeats, req.Config.Launches = 2, 4, 2
		start := time.Now()
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		require.Less(t, time.Since(start), 30*time.Second)
		var times []int
		var given []bool
		for i := range r.Repeats {
			for _, side := range []result.Readings{r.Repeats[i].Before, r.Repeats[i].After} {
				failure := result.ProbeFailure{}
				if len(side.Failures) > 0 {
					failure = side.Failures[0]
				}
				times, given = append(times, failure.Times), append(given, failure.GivenUp)
			}
		}
		require.Equal(t, []int{13, 1, 1, 1, 1, 0, 1, 0}, times)
		require.Equal(t, []bool{true, true, true, true, true, false, false, false}, given)
	})
}

func findOf(t *testing.T, r *result.Result, name string) result.Finding {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "no check "+name)
	return result.Finding{}
}

// A window in which nothing was completed, or a spinning thread had no processor, is measured again
// and listed, with its stalls. If nothing was completed though no rank was starved, a check warns
// at the first. If no window succeeds, the repeat fails and says why.
func TestStarvedWindows(t *testing.T) {
	const ms = uint64(time.Millisecond)
	nothing := func(length, cpu, gaps uint64) func(*record.Report) {
		return func(r *record.Report) {
			thread := record.ThreadReport{CPUNS: cpu * ms, MonotonicNS: length * ms}
			if gaps > 0 {
				thread.GapCount, thread.GapNS = 1, gaps*ms
				thread.Gaps = []record.Gap{{ForNS: gaps * ms, Parked: true}}
			}
			r.Clients[0] = record.ClientReport{ElapsedNS: length * ms,
				Latency: r.Clients[0].Latency, Thread: thread}
		}
	}
	empty := nothing(1000, 20, 0)
	off := func(r *record.Report) { r.Clients[0].Thread.CPUNS = 5 * ms }
	for name, test := range map[string]struct {
		edit    func(*record.Report)
		windows int // that it edits
		idle    string
		window  time.Duration // 1s if 0
		again   []string
		empty   bool // and not starved
		err     string
	}{
		"a processor, nothing completed": {edit: nothing(1000, 1000, 0), windows: 2, empty: true,
			again: []string{
				"nothing was completed in 1s, and no rank was starved",
				"nothing was completed in 1s, and no rank was starved",
			}},
		"a tenth, nothing completed": {edit: nothing(1000, 100, 0), windows: 1, empty: true,
			again: []string{
				"nothing was completed in 1s, and no rank was starved: rank 1 had a processor " +
					"for 100ms",
			}},
		"less than half of a short window": {edit: nothing(10, 4, 0), windows: 1,
			window: 10 * time.Millisecond, again: []string{
				"nothing was completed in 10ms: rank 1 had a processor for 4ms",
			}},
		"half of a short window": {edit: nothing(10, 5, 0), windows: 1,
			window: 10 * time.Millisecond, empty: true, again: []string{
				"nothing was completed in 10ms, and no rank was starved: rank 1 had a processor " +
					"for 5ms",
			}},
		"parked, nothing completed": {edit: empty, windows: 1, idle: "park", empty: true,
			again: []string{
				"nothing was completed in 1s, and no rank was starved",
			}},
		"parked and held up": {edit: nothing(1000, 20, 950), windows: 1, idle: "park",
			again: []string{
				"nothing was completed in 1s: rank 1 waited 950ms for a processor",
			}},
		"never, with a processor": {edit: nothing(1000, 999, 0), windows: 100, empty: true,
			err: "repeat 1: nothing was completed in 1s, and no rank was starved: rank 1 had a " +
				"processor for 999ms; 7 windows were measured; find out what holds the traffic " +
				"up, or use a longer --duration"},
		"nothing completed": {edit: empty, windows: 1,
			again: []string{"nothing was completed in 1s: rank 1 had a processor for 20ms"}},
		"no processor": {edit: off, windows: 2, again: []string{
			"in a window of 1s, rank 1 had a processor for 5ms",
			"in a window of 1s, rank 1 had a processor for 5ms",
		}},
		"parked": {edit: off, windows: 2, idle: "park"},
		"little processor": {edit: func(r *record.Report) {
			r.Clients[0].Thread.CPUNS = 15 * ms
		}, windows: 1},
		"never, but it works": {edit: off, windows: 100,
			again: slices.Repeat([]string{"in a window of 1s, rank 1 had a processor for 5ms"}, 6)},
		"never": {edit: empty, windows: 100,
			err: "repeat 1: nothing was completed in 1s: rank 1 had a processor for 20ms; 7 " +
				"windows were measured; stop other programs, or use a longer --duration"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				windows := 0
				c.edit = func(r *record.Report) {
					// the first is the warm-up's
					if windows++; windows > 1 && windows <= 1+test.windows {
						test.edit(r)
					}
				}
				req := request(c)
				req.Config.Ranks, req.Config.Repeats = 2, 1
				if test.idle != "" {
					req.Config.Idle = test.idle
				}
				if test.window != 0 {
					req.Config.Duration = config.Duration(test.window)
				}
				r, err := Run(t.Context(), req, nil)
				if test.err != "" {
					require.EqualError(t, err, test.err)
					require.Empty(t, r.Repeats)
					require.Len(t, r.FailedRepeat.Remeasured, 6)
					require.Equal(t, result.CauseNoTraffic, r.FailedRepeat.Stalls[0].Cause)
					requireValid(t, r)
					return
				}
				require.NoError(t, err)
				requireValid(t, r)
				var again []string
				for _, w := range r.Repeats[0].Remeasured {
					again = append(again, w.Starved+w.Empty)
					require.Equal(t, test.empty, w.Empty != "")
					if test.empty {
						require.Len(t, w.Stalls, 1)
						require.Equal(t, result.CauseNoTraffic, w.Stalls[0].Cause)
						require.EqualValues(t, req.Config.Duration, w.Stalls[0].ForNS)
					}
				}
				require.Equal(t, test.again, again)
				require.Equal(t, test.windows > 10, r.Repeats[0].Starved != "")
				require.InDelta(t, 1e6, r.Summary[result.Throughput].Median, 1)
				require.Equal(t, len(test.again) == 0 || test.empty, findOf(t, r, "starved").OK)
				require.Equal(t, !test.empty, findOf(t, r, "empty_windows").OK)
				require.Contains(t, findOf(t, r, "mixed").Message,
					"; 0 windows were measured again")
			})
		})
	}
}

// starvedRank is a rank whose process wants a processor and has next to none, in the time of the
// test.
type starvedRank struct{ *fakeRank }

func (starvedRank) UsesUp(ctx context.Context, limit time.Duration) bool {
	return machine.UsesUp(ctx, os.Getpid(), limit)
}

type starvedCluster struct{ *cluster }

func (c starvedCluster) Launch(ctx context.Context, r int) (Process, error) {
	p, err := c.cluster.Launch(ctx, r)
	if err != nil {
		return nil, err
	}
	return starvedRank{p.(*fakeRank)}, nil
}

// A rank is given up in its own time: without a processor it has starvedFactor as long.
func TestStarvedRankIsWaitedFor(t *testing.T) {
	for name, fake := range map[string]func(*cluster){
		"run":                func(c *cluster) { c.stuck = map[call]bool{{1, opRun, 2}: true} },
		"advance":            func(c *cluster) { c.hang = map[call]bool{{1, opMeasure, 2}: true} },
		"measuring overhead": func(c *cluster) { c.hang = map[call]bool{{1, opOverhead, 1}: true} },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			fake(c)
			req := request(c)
			req.Launcher = starvedCluster{c}
			start := time.Now()
			_, err := Run(t.Context(), req, nil)
			requireRankError(t, err, 1, name)
			require.ErrorIs(t, err, ErrNoAnswer)
			require.Greater(t, time.Since(start), starvedFactor*margin)
			c.requireAllKilled(t)
		})
	}
}
