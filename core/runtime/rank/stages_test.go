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
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// TestStages checks that the stages of calls add up to the exact mean of all calls, in every
// topology without proxies.
func TestStages(t *testing.T) {
	shapes := map[string]func(*config.Config){
		"one in flight":   func(c *config.Config) { c.InFlight = 1 },
		"many in flight":  func(c *config.Config) { c.InFlight = 32 },
		"immediate flush": func(c *config.Config) { c.Flush = config.FlushImmediate },
		"many":            func(c *config.Config) { c.Ranks, c.Daemons, c.Clients = 3, 2, 2 },
		"mesh":            func(c *config.Config) { c.Topology, c.RemoteShare = config.TopologyMeshDirect, 0.5 },
		"echo":            func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceEcho, 1 },
		"mix": func(c *config.Config) {
			c.Mix = config.Mix{{Op: config.OpRead, Share: 0.5}, {Op: config.OpRMW, Share: 0.5}}
		},
		"open loop": func(c *config.Config) { c.Rate = 20_000 },
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			shape(&cfg)
			ranks := cluster(t, transporttest.NewMemoryDriver(), cfg, config.IdleYield)
			for _, r := range ranks {
				for _, c := range r.clients() {
					c.stager.every = 4
				}
			}
			first, others, err := runAll(t, ranks, record.Window{Duration: 100 * time.Millisecond, SampleEvery: 1})
			require.NoError(t, err)
			sum, samples := 0.0, uint64(0)
			for _, r := range append(others, first) {
				for _, c := range r.Clients {
					for _, stage := range c.Stages {
						sum += stage.MeanNS * float64(stage.Samples)
					}
					samples += c.Stages[record.StageServe].Samples
					require.Empty(t, c.NoStages)
				}
			}
			require.Positive(t, samples)
			t.Logf("%d calls, stages add up to %.0f ns", samples, sum/float64(samples))
		})
	}
}

// staged is a daemon's worker whose Flush and Poll take their time at chosen moments.
type staged struct {
	transport.Worker
	poll, flush func()
}

func (w *staged) Poll(events []transport.Event) (int, error) {
	n, err := w.Worker.Poll(events)
	if n > 0 {
		w.poll()
	}
	return n, err
}

func (w *staged) Post(ops []transport.Op) (int, error) {
	w.flush()
	return w.Worker.Post(ops)
}

// TestStagesSplitACall runs client and daemon on one thread with known delays, and checks in which
// stage each of them is.
func TestStagesSplitACall(t *testing.T) {
	const delay = 2 * time.Millisecond
	wait := func() { spin(delay) }
	none := func() {}
	for stage, w := range map[string]struct{ client, daemon staged }{
		record.StageRequest:  {staged{poll: none, flush: none}, staged{poll: wait, flush: none}},
		record.StageResponse: {staged{poll: none, flush: none}, staged{poll: none, flush: wait}},
	} {
		cfg := testConfig()
		cfg.InFlight = 2
		ranks := cluster(t, transporttest.NewMemoryDriver(), cfg, config.IdleSpin)
		daemon, client := ranks[0].threads[0].daemon, ranks[1].threads[0].client
		w.daemon.Worker = daemon.worker
		daemon.worker, daemon.out.worker = &w.daemon, &w.daemon
		client.stager.every = 1
		client.begin(1, time.Hour)
		require.NoError(t, client.enter(client.clock.Now()))
		for client.stager.stages[0].samples < 4 {
			require.NoError(t, errors.Join(client.step(true), daemon.step()))
		}
		r := client.report(record.ThreadReport{})
		for name, times := range r.Stages {
			if name == stage {
				require.GreaterOrEqual(t, times.MeanNS, float64(delay)*0.99, name)
			}
		}
		require.Positive(t, r.StageNS)
		require.NoError(t, client.drainInTest(daemon))
	}
}

// TestEveryCallIsTimedAlike checks that the calls in flight, integrated over the window, are the
// latencies of the completed calls, to the tick, and what the calls in flight at its end have spent.
// So the exact mean and the mean of samples are the same figure.
func TestEveryCallIsTimedAlike(t *testing.T) {
	for name, shape := range map[string]func(*config.Config){
		"closed": func(*config.Config) {},
		"open":   func(c *config.Config) { c.Rate = 100_000 },
	} {
		cfg := testConfig()
		shape(&cfg)
		ranks := cluster(t, transporttest.NewMemoryDriver(), cfg, config.IdleSpin)
		daemon, client := ranks[0].threads[0].daemon, ranks[1].threads[0].client
		client.begin(1, time.Hour)
		client.counted = client.clock.Now()
		start := client.counted
		require.NoError(t, client.enter(start))
		for client.counts.ops < 2000 {
			require.NoError(t, errors.Join(client.step(true), daemon.step()))
		}
		end := client.clock.Now()
		client.count(end)
		client.counts.found = client.counts.polls - client.counts.empty
		client.counts.window = end - start
		rest := uint64(0)
		for i := range client.calls {
			if s := &client.calls[i]; s.state == callInFlight {
				rest += end - s.started
			}
		}
		require.Equal(t, client.counts.ops, client.counts.samples)
		require.Equal(t, client.counts.inFlight, client.counts.latencySum+rest, name)
		r := client.report(record.ThreadReport{})
		require.InEpsilon(t, r.MeanNS*float64(r.Ops()), r.InFlightNS-client.clock.Nanos(rest), 1e-6)
		require.Positive(t, r.BusyNS)
		require.NoError(t, client.drainInTest(daemon))
	}
}

// TestBusyTimeIsOfTheWindow checks that the iterations of the drain do not count as busy, and that
// the reading of the clock that a timed iteration takes does not either.
func TestBusyTimeIsOfTheWindow(t *testing.T) {
	cfg := testConfig()
	cfg.InFlight = 64
	driver := wrapped{transporttest.NewMemoryDriver(), func(w transport.Worker) transport.Worker { return oneByOne{w} }}
	ranks := cluster(t, driver, cfg, config.IdleYield)
	_, others := runUntil(t, ranks, 1, 100)
	client, r := ranks[1].threads[0].client, others[0].Clients[0]
	n := &client.counts
	require.Positive(t, r.Drained)
	require.Equal(t, r.Ops()+r.Drained, r.Polls-r.EmptyPolls, "one by one")
	require.Positive(t, n.busyTimed)
	require.InEpsilon(t, float64(client.clock.Nanos(n.busyTicks))/float64(n.busyTimed)*float64(r.Ops()), r.BusyNS, 1e-6)

	client.readCost = 1 << 40 // as if a reading took all the time
	_, others = runUntil(t, ranks, 1, 100)
	require.Positive(t, n.busyTimed)
	require.Zero(t, others[0].Clients[0].BusyNS)
}

// TestProcessorTime checks that the report has the processor time of the whole process.
func TestProcessorTime(t *testing.T) {
	ranks := cluster(t, transporttest.NewMemoryDriver(), testConfig(), config.IdleYield)
	var stop atomic.Bool
	stopped := make(chan struct{})
	go func() { // a helper thread
		defer close(stopped)
		for !stop.Load() {
		}
	}()
	first, others, err := runAll(t, ranks, record.Window{Duration: 100 * time.Millisecond, SampleEvery: 1})
	stop.Store(true)
	<-stopped
	require.NoError(t, err)
	server, caller := first.Daemons[0].Thread, others[0].Clients[0].Thread
	require.Greater(t, others[0].Process.CPUNS, caller.CPUNS, "the client, the daemon and the helper")
	require.LessOrEqual(t, others[0].Process.SystemNS, others[0].Process.CPUNS)
	require.LessOrEqual(t, caller.SystemNS, caller.CPUNS+uint64(20*time.Millisecond), "accounted in ticks")
	for _, thread := range []record.ThreadReport{server, caller} {
		require.Positive(t, thread.MonotonicNS)
		require.LessOrEqual(t, thread.StartNS, machine.Monotonic())
	}
	for _, window := range []struct{ elapsed, monotonic uint64 }{
		{first.Daemons[0].ElapsedNS, server.MonotonicNS}, {others[0].Clients[0].ElapsedNS, caller.MonotonicNS},
	} { // the second is around the first
		require.GreaterOrEqual(t, float64(window.monotonic), float64(window.elapsed)*0.999)
	}
}
