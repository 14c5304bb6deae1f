package runner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

var meshes = []string{config.TopologyMeshDirect, config.TopologyMeshProxied}

func forEachMesh(t *testing.T, test func(*testing.T, *cluster, Request)) {
	for _, topology := range meshes {
		t.Run(topology, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				test(t, c, meshRequest(c, topology))
			})
		})
	}
}

func TestMeshRun(t *testing.T) {
	forEachMesh(t, func(t *testing.T, c *cluster, req Request) {
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		c.requireAllKilled(t)
		require.Empty(t, c.wrong)
		for _, check := range r.Checks {
			require.True(t, check.OK || check.Severity == result.Info, "%s: %s", check.Name,
				check.Message)
		}
		require.InDelta(t, 3e6, r.Summary[result.Throughput].Median, 1)
		require.Equal(t, 600.0, r.Summary[result.LocalMean].Median)
		require.Equal(t, 1400.0, r.Summary[result.RemoteMean].Median)
		requireValid(t, r)

		phase := []string{opRun, opMeasure, opStop}
		probed := slices.Concat([]string{opOverhead, opProbe}, phase, []string{opProbe})
		plain := slices.Concat([]string{opOverhead}, phase)
		end := []string{opClose, opKill}
		begin := []string{opLaunch, opPrepare, opConnect}
		require.Equal(t, slices.Concat(begin, phase, probed, probed, end), c.calls(0))
		require.Equal(t, slices.Concat(begin, phase, probed, probed, end), c.calls(1))
		require.Equal(t, slices.Concat(begin, phase, plain, plain, end), c.calls(2))
	})
}

// A mesh of one rank passes its checks, and its readings say why there is no floor.
func TestMeshOfOneRank(t *testing.T) {
	forEachMesh(t, func(t *testing.T, c *cluster, req Request) {
		req.Config.Ranks, req.Config.RemoteShare = 1, config.ByHash
		r, err := Run(t.Context(), req, nil)
		require.NoError(t, err)
		c.requireAllKilled(t)
		require.Empty(t, c.wrong)
		for _, check := range r.Checks {
			require.True(t, check.OK || check.Severity == result.Info, "%s: %s", check.Name,
				check.Message)
		}
		require.NotContains(t, c.calls(0), opProbe)
		require.Equal(t, "a probe is between two ranks, and the run has one",
			r.Repeats[0].Before.Note)
		require.NotContains(t, r.Summary, result.Floor)
		require.Positive(t, r.Summary[result.Throughput].Median)
		requireValid(t, r)
	})
}

// death is the error of a rank whose process ended.
var death = &record.ExitError{Plugin: "shm", PID: 7, State: "signal: killed",
	Output: []string{"last", "words"}}

func TestRankDiesInWindow(t *testing.T) {
	for _, topology := range []string{config.TopologyClientServer, config.TopologyMeshDirect,
		config.TopologyMeshProxied} {
		for _, dead := range []int{0, 1, 2} {
			t.Run(topology, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster()
					req := request(c)
					if topology != config.TopologyClientServer {
						req = meshRequest(c, topology)
					}
					c.dies = map[call]error{{dead, opRun, 3}: death} // in the second window
					start := time.Now()
					r, err := Run(t.Context(), req, nil)
					require.LessOrEqual(t, time.Since(start), 3*time.Second,
						"two windows and no time limit")
					requireRankError(t, err, dead, "run")
					require.ErrorIs(t, err, death, "not the peers that lost it")
					c.requireAllKilled(t)

					require.True(t, r.Incomplete)
					require.Contains(t, r.IncompleteReason, "failed after 1 of ")
					require.Len(t, r.Repeats, 1)
					require.Equal(t, 1, r.Summary[result.Throughput].N,
						"an incomplete repeat does not count")
					require.Equal(t, &result.Failure{
						Rank: dead, Operation: "run", Error: err.Error(),
						Output: []string{"last", "words"},
					}, r.Failure)
					require.Equal(t, 1, r.FailedRepeat.Index)
					require.Len(t, r.FailedRepeat.Ranks, 3)
					for i, report := range r.FailedRepeat.Ranks {
						require.Equal(t, i, report.Rank)
						daemons, clients := req.Config.Threads(i)
						if i == dead {
							daemons, clients = 0, 0
						}
						require.Len(t, report.Daemons, daemons)
						require.Len(t, report.Clients, clients)
						for _, client := range report.Clients {
							require.EqualValues(t, 500*time.Millisecond, client.ElapsedNS)
						}
					}
					require.Positive(t, r.FailedRepeat.Samples[result.Throughput])
					requireValid(t, r)
				})
			})
		}
	}
}

// The death of a rank is the cause, even if another rank notices it first and fails.
func TestDeathIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := awaitAll(t.Context(), []int{0, 1, 2},
			func(ctx context.Context, r int) (int, error) {
				switch r {
				case 0:
					return 0, &RankError{Rank: 0, Op: opConnect, Err: errors.New("no such process")}
				case 1:
					time.Sleep(deathGrace / 2)
					return 0, &RankError{Rank: 1, Op: opConnect, Err: death}
				}
				<-ctx.Done()
				return 0, ctx.Err()
			})
		requireRankError(t, err, 1, opConnect)
		require.ErrorIs(t, err, death)
	})
}

// A rank that died is told apart from those that lost it, even if its own error only says that it
// lost a peer.
func TestCausePrefersTheFirstFailure(t *testing.T) {
	lost := func(r int) error { return &RankError{Rank: r, Op: "run", Err: errLost} }
	own := &RankError{Rank: 2, Op: "run", Err: errBroken}
	for _, c := range []struct {
		first  error
		others []error
		want   error
	}{
		{own, []error{lost(0)}, own},
		{lost(0), []error{lost(1), own}, own},
		{lost(0), []error{lost(1)}, lost(0)},
		{lost(0), nil, lost(0)},
	} {
		require.Equal(t, c.want, (&window{failures: c.others}).cause(c.first))
	}
	require.ErrorIs(t, lost(0), transport.ErrPeerDown)
}

// If a rank neither reports nor dies, the run ends after the grace periods, with what the others
// recorded.
func TestRankHangsInWindow(t *testing.T) {
	forEachMesh(t, func(t *testing.T, c *cluster, req Request) {
		c.stuck = map[call]bool{{1, opRun, 2}: true}
		start := time.Now()
		r, err := Run(t.Context(), req, nil)
		requireRankError(t, err, 1, "run")
		require.ErrorIs(t, err, ErrNoAnswer)
		require.Less(t, time.Since(start), time.Duration(req.Config.Duration)+2*margin)
		require.Equal(t, 1, r.Failure.Rank)
		require.Empty(t, r.Repeats)
		require.Empty(t, r.FailedRepeat.Ranks[1].Clients)
		require.NotEmpty(t, r.FailedRepeat.Ranks[0].Clients)
		require.NotEmpty(t, r.FailedRepeat.Ranks[2].Daemons)
		requireValid(t, r)
		c.requireAllKilled(t)
	})
}

func TestInterruptedMeshWindowDrainsFirst(t *testing.T) {
	forEachMesh(t, func(t *testing.T, c *cluster, req Request) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c.hook = func(this call) {
			if this == (call{2, opRun, 3}) {
				time.AfterFunc(500*time.Millisecond, cancel)
			}
		}
		r, err := Run(ctx, req, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, r.Repeats, 1)
		require.Nil(t, r.FailedRepeat)
		require.Empty(t, c.wrong, "no rank is stopped before all have drained")
		for i := range 3 {
			require.Contains(t, c.log, call{i, opDrain, 1})
		}
	})
}

var errOther = errors.New("other")

// If a server fails while the clients go on, the result has only the server's error.
func TestServerFailsInWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.dies = map[call]error{{0, opRun, 2}: errOther}
		r, err := Run(t.Context(), request(c), nil)
		requireRankError(t, err, 0, "run")
		require.ErrorIs(t, err, errOther)
		require.Empty(t, r.Failure.Output)
	})
}
