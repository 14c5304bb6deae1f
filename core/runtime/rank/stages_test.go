package rank

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// serviceTimes is a client's worker that notes the service times of the calls whose stages were
// taken, on the client's thread.
type serviceTimes struct {
	transport.Worker
	client  *client.Client
	calls   uint64          // whose stages were taken
	service uint64          // ticks: the sum of their service times
	summed  uint64          // ticks: client.counts.latencySum
	ended   map[uint64]bool // the service times of all calls, one of which is in flight
	missing int             // calls whose service time is not in ended
}

func (w *serviceTimes) Poll(events []transport.Event) (int, error) {
	w.note()
	return w.Worker.Poll(events)
}

func (w *serviceTimes) note() {
	if n := &w.client.Counts; n.LatencySum > w.summed && w.ended != nil {
		w.ended[n.LatencySum-w.summed] = true
		w.summed = n.LatencySum
	}
	s := w.client.Stages
	if taken := s.Stages[0].Samples; taken > w.calls {
		w.calls = taken
		w.service += s.Done - s.Started
		if w.ended != nil && !w.ended[s.Done-s.Started] {
			w.missing++
		}
	}
}

// check checks that the stages add up to the service times, after a window.
func (w *serviceTimes) check(t *testing.T) {
	w.note()
	require.Zero(t, w.missing)
	sum := uint64(0)
	for _, stage := range w.client.Stages.Stages {
		require.Equal(t, w.calls, stage.Samples)
		sum += stage.Sum
	}
	require.LessOrEqual(t, sum, w.service)
	require.GreaterOrEqual(t, sum+w.calls*client.StampedStages*w.client.Stages.ReadCost, w.service)
}

// TestStages checks that the stages of calls add up to the service times of these calls, but for
// the readings of the clock that are subtracted, in every topology without proxies.
func TestStages(t *testing.T) {
	shapes := map[string]func(*config.Config){
		"one in flight":   func(c *config.Config) { c.InFlight = 1 },
		"many in flight":  func(c *config.Config) { c.InFlight = 32 },
		"immediate flush": func(c *config.Config) { c.Flush = config.FlushImmediate },
		"many":            func(c *config.Config) { c.Ranks, c.Daemons, c.Clients = 3, 2, 2 },
		"mesh": func(c *config.Config) {
			c.Topology, c.RemoteShare = config.TopologyMeshDirect, 0.5
		},
		"echo": func(c *config.Config) {
			c.Service, c.ReadRatio = config.ServiceEcho,
				1
		},
		"mix": func(c *config.Config) {
			c.Mix = config.Mix{{Op: config.OpRead, Share: 0.5}, {Op: config.OpRMW, Share: 0.5}}
		},
		"open loop": func(c *config.Config) { c.Rate = 20_000 },
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			shape(&cfg)
			ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
			var times []*serviceTimes
			for _, r := range ranks {
				for _, c := range r.clients() {
					w := &serviceTimes{Worker: c.Worker, client: c}
					c.Worker = w
					times = append(times, w)
				}
			}
			calls := uint64(0)
			for range 50 { // few calls end in a window if other programs run
				for _, w := range times {
					*w = serviceTimes{Worker: w.Worker, client: w.client}
					if cfg.InFlight == 1 {
						w.ended = map[uint64]bool{}
					}
					w.client.Stages.Every = 4
				}
				first, others, err := runAll(t, ranks,
					record.Window{Duration: 100 * time.Millisecond, SampleEvery: 1})
				require.NoError(t, err)
				for _, r := range append(others, first) {
					for _, c := range r.Clients {
						require.Empty(t, c.NoStages)
					}
				}
				for _, w := range times {
					w.check(t)
					calls += w.calls
				}
				if calls > 0 {
					return
				}
			}
			require.Positive(t, calls)
		})
	}
}

// delayed is a worker whose Poll, if it returns events, and Post take their time.
type delayed struct {
	transport.Worker
	poll, post time.Duration
}

func (w *delayed) Poll(events []transport.Event) (int, error) {
	n, err := w.Worker.Poll(events)
	if n > 0 {
		spinFor(w.poll)
	}
	return n, err
}

func (w *delayed) Post(ops []transport.Op) (int, error) {
	spinFor(w.post)
	return w.Worker.Post(ops)
}

// TestStagesSplitACall runs client and daemon on one thread with known delays, and checks in which
// stage each of them is. It looks at the least of several calls, because the test's thread may lose
// its processor in any stage of some.
func TestStagesSplitACall(t *testing.T) {
	const delay, calls = 2 * time.Millisecond, 8
	for _, c := range []struct {
		stage          string
		client, daemon delayed
	}{
		{record.StageRequest, delayed{post: delay}, delayed{}},
		{record.StageRequest, delayed{}, delayed{poll: delay}},
		{record.StageResponse, delayed{}, delayed{post: delay}},
		{record.StageResponse, delayed{poll: delay}, delayed{}},
	} {
		cfg := testConfig()
		cfg.InFlight = 2
		ranks := cluster(t, memory.NewDriver(), cfg, config.IdleSpin)
		daemon, client := ranks[0].threads[0].daemon, ranks[1].threads[0].client
		c.client.Worker, c.daemon.Worker = client.Worker, daemon.Worker
		client.Worker, daemon.Worker, daemon.Out.Worker = &c.client, &c.daemon, &c.daemon
		client.Stages.Every = 1
		client.Begin(hour(1))
		require.NoError(t, client.Load(client.Clock.Now()))
		for client.Stages.Stages[0].Samples < calls {
			_, err := iterate(client)
			require.NoError(t, errors.Join(err, daemon.Step()))
		}
		r := client.Report(record.ThreadReport{})
		require.Len(t, r.Stages, len(record.DirectStages))
		for _, name := range record.DirectStages {
			require.Contains(t, r.Stages, name)
			require.EqualValues(t, calls, r.Stages[name].Samples)
			times, err := record.DecodeHistogram(r.Stages[name].Histogram)
			require.NoError(t, err)
			share := float64(times.Buckets()[0].From) / float64(delay)
			if name == c.stage {
				require.Greater(t, share, 0.9, name)
			} else {
				require.Less(t, share, 0.25, "%s, of a delay in %s", name, c.stage)
			}
		}
		require.Positive(t, r.StageNS)
		require.NoError(t, drain(ranks[1].clients(), daemon))
	}
}

// TestBusyTimeIsOfTheWindow checks that the iterations of the drain do not count as busy, and that
// the reading of the clock that a timed iteration takes does not either.
func TestBusyTimeIsOfTheWindow(t *testing.T) {
	cfg := testConfig()
	cfg.InFlight = 64
	driver := wrapped{memory.NewDriver(), func(w transport.Worker) transport.Worker {
		return oneByOne{w}
	}}
	ranks := cluster(t, driver, cfg, config.IdleYield)
	_, others := runUntil(t, ranks, 1, 100)
	client, r := ranks[1].threads[0].client, others[0].Clients[0]
	n := &client.Counts
	require.Positive(t, r.Drained)
	require.Equal(t, r.Ops()+r.Drained, r.Polls-r.EmptyPolls, "one by one")
	require.Positive(t, n.BusyTimed)
	perTimed := float64(r.Ops()) / float64(n.BusyTimed)
	require.InDelta(t, float64(client.Clock.Nanos(n.BusyTicks))*perTimed, float64(r.BusyNS),
		1+perTimed, "both are rounded to nanoseconds")

	client.ReadCost = 1 << 40 // as if a reading took all the time
	_, others = runUntil(t, ranks, 1, 100)
	require.Positive(t, n.BusyTimed)
	require.Zero(t, others[0].Clients[0].BusyNS)
}

// TestProcessorTime checks that the report has the processor time of the whole process.
func TestProcessorTime(t *testing.T) {
	ranks := cluster(t, memory.NewDriver(), testConfig(), config.IdleYield)
	var stop atomic.Bool
	stopped := make(chan struct{})
	go func() { // a helper thread
		defer close(stopped)
		for !stop.Load() {
		}
	}()
	first, others, err := runAll(t, ranks, record.Window{Duration: 100 * time.Millisecond,
		SampleEvery: 1})
	stop.Store(true)
	<-stopped
	require.NoError(t, err)
	server, caller := first.Daemons[0].Thread, others[0].Clients[0].Thread
	require.Greater(t, others[0].Process.CPUNS, caller.CPUNS,
		"the client, the daemon and the helper")
	require.LessOrEqual(t, others[0].Process.SystemNS, others[0].Process.CPUNS)
	require.LessOrEqual(t, caller.SystemNS, caller.CPUNS+uint64(20*time.Millisecond),
		"accounted in ticks")
	for _, thread := range []record.ThreadReport{server, caller} {
		require.Positive(t, thread.MonotonicNS)
		require.LessOrEqual(t, thread.StartNS, machine.Monotonic())
	}
	for _, window := range []struct{ elapsed, monotonic uint64 }{
		{first.Daemons[0].ElapsedNS, server.MonotonicNS},
		{others[0].Clients[0].ElapsedNS, caller.MonotonicNS},
	} { // the second is around the first
		require.GreaterOrEqual(t, float64(window.monotonic), float64(window.elapsed)*0.999)
	}
}
