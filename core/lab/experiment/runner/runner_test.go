package runner

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		req := request(c)
		req.Argv = []string{"transportbench", "run"}
		req.Began = time.Now().Add(-time.Second)
		req.Plugin = result.Plugin{Name: "shm", SHA256: "abc"}
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		c.requireAllKilled(t)

		require.False(t, r.Incomplete)
		require.Len(t, r.Repeats, 3)
		for _, check := range r.Checks {
			require.True(t, check.OK || check.Severity == result.Info, "%s: %s", check.Name,
				check.Message)
		}
		require.Equal(t, "memfd", r.Plugin.Provider)
		require.Equal(t, "abc", r.Plugin.SHA256)
		require.Equal(t, []int{1}, r.Placement[1].CPUs)
		require.Equal(t, []string{"1"}, r.Placement[1].Affinity)
		require.Equal(t, config.IdleSpin, r.Placement[1].Idle)

		// Only the warm-up takes time here.
		require.Equal(t, 1300.0, r.Setup.FirstWindowMS)
		var steps []string
		for _, s := range r.Setup.Steps {
			steps = append(steps, s.Name)
		}
		require.Equal(t, []string{"launch", "prepare", "connect", "warmup", "overhead", "floor"},
			steps)

		for _, repeat := range r.Repeats {
			require.Len(t, repeat.Ranks, 3)
			require.Equal(t, 7, repeat.Ranks[1].SampleEvery, "the warm-up's advice")
			require.GreaterOrEqual(t, repeat.Machine.CoveredNS, uint64(req.Config.Duration))
			require.Equal(t, 2, repeat.Ranks[2].Rank)
		}
		require.InDelta(t, 2e6, r.Summary[result.Throughput].Median, 1)
		require.Equal(t, 12.0, r.Summary[result.HarnessOverhead].Median)
		require.Equal(t, 3, r.Summary[result.HarnessOverhead].N)

		requireValid(t, r)

		window := []string{opOverhead, opProbe, opRun, opMeasure, opStop, opProbe}
		want := slices.Concat([]string{opLaunch, opPrepare, opConnect, opRun, opMeasure, opStop},
			window, window, window,
			[]string{opClose, opKill})
		require.Equal(t, want, c.calls(0))
		window = []string{opOverhead, opProbe, opRun, opMeasure, opProbe}
		want = slices.Concat([]string{opLaunch, opPrepare, opConnect, opRun, opMeasure}, window,
			window, window,
			[]string{opClose, opKill})
		require.Equal(t, want, c.calls(1))
		window = []string{opOverhead, opRun, opMeasure}
		want = slices.Concat([]string{opLaunch, opPrepare, opConnect, opRun, opMeasure}, window,
			window, window, []string{opClose, opKill})
		require.Equal(t, want, c.calls(2))
		require.Less(t, slices.Index(c.log, call{0, opMeasure, 1}),
			slices.Index(c.log, call{1, opMeasure, 1}), "servers count first")
		require.Empty(t, c.wrong)
	})
}

func TestRunWithoutWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, configured := range []int{0, 5} {
			c := newCluster()
			req := request(c)
			req.Config.Warmup, req.Config.SampleEvery = 0, configured
			r, err := Run(t.Context(), req, nil)
			require.NoError(t, err)
			want := configured
			if want == 0 {
				want = defaultSampleEvery
			}
			require.Equal(t, want, r.Repeats[0].Ranks[1].SampleEvery)
			require.Equal(t, 0.0, r.Setup.FirstWindowMS)
		}
	})
}

func TestConfiguredSamplingOverrulesWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := request(newCluster())
		req.Config.SampleEvery = 5
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		require.Equal(t, 5, r.Repeats[0].Ranks[1].SampleEvery)
	})
}

func TestRunWithoutProber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.others = nil
		refusal := transport.NewOpError("shm", "probe", transport.ErrUnsupported)
		c.fail = map[call]error{{0, opProbe, 1}: refusal}
		c.polls = map[call]bool{{1, opProbe, 1}: true} // waits for the other side
		r, err := Run(t.Context(), request(c), nil)
		require.NoError(t, err)
		for _, repeat := range r.Repeats {
			require.Nil(t, repeat.Before.Medium)
			require.Contains(t, repeat.Before.Note, "no probe")
			require.NotContains(t, repeat.Samples, result.FloorRatio)
			require.NotContains(t, repeat.Samples, result.OpTimeRatio)
		}
		require.NotContains(t, r.Summary, result.Floor)
	})
}

// steps has one call in each step of a run, and the step's name in errors.
var steps = []struct {
	at   call
	name string
}{
	{call{0, opLaunch, 1}, "launch"},
	{call{2, opLaunch, 1}, "launch"},
	{call{1, opPrepare, 1}, "prepare"},
	{call{2, opConnect, 1}, "connect"},
	{call{0, opRun, 1}, "run"},
	{call{2, opRun, 1}, "run"},
	{call{0, opMeasure, 1}, "advance"},
	{call{2, opMeasure, 1}, "advance"},
	{call{0, opStop, 1}, "advance"},
	{call{0, opOverhead, 1}, "measuring overhead"},
	{call{1, opOverhead, 1}, "measuring overhead"},
	{call{0, opRun, 2}, "run"},
	{call{1, opMeasure, 2}, "advance"},
	{call{1, opRun, 3}, "run"},
	{call{0, opStop, 3}, "advance"},
}

// inWindow reports whether the step is in or after the first window, so that there is a result.
// completed is the number of repeats that are complete by then.
func (c call) inWindow() bool { return c.nth > 1 }

func (c call) completed() int { return max(0, c.nth-2) }

func forEachStep(t *testing.T, test func(t *testing.T, at call, name string)) {
	for _, s := range steps {
		t.Run(fmt.Sprintf("rank %d %s %d", s.at.rank, s.at.op, s.at.nth), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, s.at, s.name) })
		})
	}
}

func requireRankError(t *testing.T, err error, r int, op string) {
	t.Helper()
	var rankErr *RankError
	require.ErrorAs(t, err, &rankErr)
	require.Equal(t, r, rankErr.Rank)
	require.Equal(t, op, rankErr.Op)
	require.NotContains(t, err.Error(), "\n")
}

func TestRankFails(t *testing.T) {
	forEachStep(t, func(t *testing.T, at call, name string) {
		c := newCluster()
		c.fail = map[call]error{at: errBroken}
		r, err := Run(t.Context(), request(c), nil)
		require.ErrorIs(t, err, errBroken)
		requireRankError(t, err, at.rank, name)
		requireFailed(t, r, at, name)
		c.requireAllKilled(t)
	})
}

// requireFailed checks the result of a run that failed in a step.
func requireFailed(t *testing.T, r *result.Result, at call, name string) {
	t.Helper()
	if !at.inWindow() {
		require.Nil(t, r)
		return
	}
	require.True(t, r.Incomplete && r.Failed())
	require.Len(t, r.Repeats, at.completed())
	require.Equal(t, at.completed(), r.FailedRepeat.Index)
	require.Equal(t, at.rank, r.Failure.Rank)
	require.Equal(t, name, r.Failure.Operation)
	for i, report := range r.FailedRepeat.Ranks {
		require.Equal(t, i, report.Rank)
	}
	requireValid(t, r)
}

func requireValid(t *testing.T, r *result.Result) {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, result.Encode(&text, r))
	_, err := result.Parse(text.Bytes())
	require.NoError(t, err)
}

// A rank that hangs in one call is named and killed, whether or not it heeds the call's context.
func TestRankHangs(t *testing.T) {
	forEachStep(t, func(t *testing.T, at call, name string) {
		for _, polite := range []bool{false, true} {
			if at.op == opLaunch && !polite {
				continue // a launcher must give up; see TestLateLaunch
			}
			c := newCluster()
			if polite {
				c.polls = map[call]bool{at: true}
			} else {
				c.hang = map[call]bool{at: true}
			}
			r, err := Run(t.Context(), request(c), nil)
			require.ErrorIs(t, err, ErrNoAnswer)
			requireRankError(t, err, at.rank, name)
			requireFailed(t, r, at, name)
			c.requireAllKilled(t)
		}
	})
}

// From some point on, all ranks hang in all calls, including Close.
func TestEverythingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.hang = map[call]bool{}
		for r := range 3 {
			for nth := range 10 {
				c.hang[call{r, opRun, nth + 1}] = nth > 0
				c.hang[call{r, opStop, nth + 1}] = nth > 0
				c.hang[call{r, opClose, nth + 1}] = true
			}
		}
		r, err := Run(t.Context(), request(c), nil)
		require.Empty(t, r.Repeats)
		require.ErrorIs(t, err, ErrNoAnswer)
		c.requireAllKilled(t)
	})
}

// A rank that hangs in the setup costs StartTimeout, and the error names the rank, the call and the
// option.
func TestHangInSetup(t *testing.T) {
	for _, op := range []string{opPrepare, opConnect} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			c.hang = map[call]bool{{1, op, 1}: true}
			req := request(c)
			req.Plugin.Name, req.StartTimeout = "erpc", 3*time.Second
			start := time.Now()
			_, err := Run(t.Context(), req, nil)
			requireRankError(t, err, 1, op)
			require.ErrorIs(t, err, ErrNoAnswer)
			require.ErrorContains(t, err, "rank 1: "+op+": no answer from erpc within 3.")
			require.ErrorContains(t, err, "--start-timeout gives it more time")
			require.Less(t, time.Since(start), 5*time.Second, "with closing")
			c.requireAllKilled(t)
		})
	}
}

// Large configurations have longer to prepare and to connect.
func TestSetupTimeouts(t *testing.T) {
	b := &bench{cfg: config.Default()}
	b.plans = make([]record.Plan, 2)
	require.InDelta(t, 10, b.prepareTimeout().Seconds(), 1)
	b.cfg.InFlight, b.cfg.Clients, b.cfg.ValueSize = 1024, 16, config.FixedSize(1<<20)
	require.Greater(t, b.prepareTimeout(), time.Minute)
	b.cfg.Keys = math.MaxInt32
	b.cfg.ValueSize = config.FixedSize(1 << 30)
	require.Positive(t, b.prepareTimeout(), "no overflow")
	b.plans = make([]record.Plan, 64)
	workers := make([]record.RankWorkers, 64)
	for i := range workers {
		workers[i] = record.RankWorkers{Daemons: make([][]byte, 1), Clients: make([][]byte, 1)}
	}
	require.Greater(t, b.connectTimeout(workers), time.Minute)
	require.Less(t, b.connectTimeout(workers[:2]), 20*time.Second)
}

func TestLateLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.hook = func(this call) {
			if this.op == opLaunch && this.rank == 1 {
				time.Sleep(startTimeout + margin + time.Second) // ignores its context
			}
		}
		_, err := Run(t.Context(), request(c), nil)
		requireRankError(t, err, 1, "launch")
		require.ErrorIs(t, err, ErrNoAnswer)
		require.Contains(t, c.calls(1), opKill)
		c.requireAllKilled(t)
	})
}

// An interrupted run ends within the grace periods even if ranks hang.
// Once a rank has failed, the run does not wait for the others.
func TestFailureEndsTheOthersCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.fail = map[call]error{{1, opPrepare, 1}: errBroken}
		c.polls = map[call]bool{{0, opPrepare, 1}: true, {2, opPrepare, 1}: true}
		start := time.Now()
		_, err := Run(t.Context(), request(c), nil)
		require.ErrorIs(t, err, errBroken)
		require.Equal(t, deathGrace, time.Since(start), "the time in which a death may be reported")
	})
}

func TestServerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.leave = true
		_, err := Run(t.Context(), request(c), nil)
		requireRankError(t, err, 0, "run")
		require.ErrorContains(t, err, "before the clients were done")
		c.requireAllKilled(t)
	})
}

func TestBadClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.fail = map[call]error{{1, opClose, 1}: errBroken}
		c.hang = map[call]bool{{2, opClose, 1}: true}
		r, err := Run(t.Context(), request(c), nil)
		require.NoError(t, err, "the numbers are there")
		check := r.Checks[slices.IndexFunc(r.Checks,
			func(c result.Finding) bool { return c.Name == "closed" })]
		require.False(t, check.OK)
		require.Equal(t, 2.0, check.Value)
		c.requireAllKilled(t)
	})
}

func TestBadReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.edit = func(r *record.Report) { r.Clients[0].Latency = "rubbish" }
		_, err := Run(t.Context(), request(c), nil)
		require.ErrorContains(t, err, "repeat 0: decoding histogram")

		// A result that fails its checks is still a result.
		c = newCluster()
		c.edit = func(r *record.Report) {
			r.Clients[0].Failures = map[string]uint64{
				"stale-version": 2}
		}
		r, err := Run(t.Context(), request(c), nil)
		require.NoError(t, err)
		require.True(t, r.Failed())
	})
}

func (r *recorder) Progress(s Status) { r.states = append(r.states, s) }

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen recorder
		req := request(newCluster())
		req.Config.Repeats = 2
		_, err := Run(t.Context(), req, &seen)
		require.NoError(t, err)

		var steps []string
		for i, s := range seen.states {
			steps = append(steps, fmt.Sprint(s.Step, s.Repeat))
			require.Equal(t, 2, s.Repeats)
			if i > 0 {
				require.LessOrEqual(t, s.Left, seen.states[i-1].Left)
			}
		}
		require.Equal(t, []string{
			"launch0", "prepare0", "connect0", "warmup0", "overhead1", "floor1", "repeat1",
			"floor1", "overhead2", "floor2", "repeat2", "floor2", "close0",
		}, slices.Compact(steps))

		probeTime := probesPlanned(req.Config, req.Beside)
		first, last := seen.states[0], seen.states[len(seen.states)-1]
		require.Equal(t, 300*time.Millisecond+2*(overheadTime+time.Second+2*probeTime), first.Left)
		require.Zero(t, last.Left)
		// Both client ranks have reported a million op/s each.
		at := slices.IndexFunc(seen.states, func(s Status) bool {
			return s.Step == StepRepeat &&
				s.OpsPerSec > 1.5e6
		})
		require.Equal(t, 2e6, seen.states[at].OpsPerSec)
		require.Equal(t, 900.0, seen.states[at].P50)
		require.Equal(t, 1102.0, seen.states[at].P99, "the slowest rank's")
		require.Equal(t, time.Second+probeTime+overheadTime+time.Second+2*probeTime,
			seen.states[at].Left)
	})
}

func TestRankErrorReads(t *testing.T) {
	err := &RankError{Rank: 3, Op: "prepare", Err: noAnswer(time.Minute)}
	require.EqualError(t, err,
		"rank 3: prepare: no answer within 1m0s, so it was killed; its log shows how far it got")
	require.True(t, errors.Is(err, ErrNoAnswer))
}

// TestWorkersFor: a rank gets the addresses of the ranks that it calls, and of those that call it.
func TestWorkersFor(t *testing.T) {
	for name, c := range map[string]struct {
		topology string
		traffic  config.Traffic
		want     string // for each rank: D and C for the daemons and clients that it connects to
	}{
		"client-server": {config.TopologyClientServer, "", "C1 C2|D0|D0"},
		"mesh": {config.TopologyMeshDirect, "",
			"D0 C0 D1 C1 D2 C2|D0 C0 D1 C1 D2 C2|D0 C0 D1 C1 D2 C2"},
		"ring": {config.TopologyMeshDirect, "matrix:0:1:0/0:0:1/1:0:0", "D1 C2|C0 D2|D0 C1"},
		"pair of a proxied mesh": {config.TopologyMeshProxied, "matrix:0:1:0/0:0:0/0:0:0",
			"D1|D0|"},
	} {
		cfg := config.Default()
		cfg.Ranks, cfg.Topology, cfg.Traffic = 3, c.topology, c.traffic
		workers := make([]record.RankWorkers, cfg.Ranks)
		for r := range workers {
			workers[r].Rank = r
			if cfg.Serves(r) {
				workers[r].Daemons = [][]byte{{'D'}}
			}
			if cfg.Calls(r) && !cfg.Proxied() {
				workers[r].Clients = [][]byte{{'C'}}
			}
		}
		var ranks []string
		for _, list := range workersFor(&cfg, workers) {
			var all []string
			for _, w := range list {
				for range w.Daemons {
					all = append(all, fmt.Sprint("D", w.Rank))
				}
				for range w.Clients {
					all = append(all, fmt.Sprint("C", w.Rank))
				}
			}
			ranks = append(ranks, strings.Join(all, " "))
		}
		require.Equal(t, c.want, strings.Join(ranks, "|"), name)
	}
}
