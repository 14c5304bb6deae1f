package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/daemon"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring/wiringtest"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// TestCallsOfATraceAreNotCounted: the distance to the next trace counts from the end of the last.
func TestCallsOfATraceAreNotCounted(t *testing.T) {
	s := newStager(machine.Calibrated(), 0, 0, 1)
	s.left = 100
	require.True(t, s.waits(30))
	s.state = stagerFlying
	require.False(t, s.waits(30))
	s.state = stagerIdle
	require.True(t, s.waits(69))
	require.False(t, s.waits(1))
}

// serviceTimes wraps a client's worker and notes the service times of the traced calls, on the
// client's thread.
type serviceTimes struct {
	transport.Worker
	client  *Client
	calls   uint64          // traced calls
	service uint64          // ticks: the sum of their service times
	summed  uint64          // ticks: client.counts.latencySum
	ended   map[uint64]bool // the service times of all calls, one of which is in flight
	missing int             // traced calls that ended does not contain
}

func (w *serviceTimes) Poll(events []transport.Event) (int, error) {
	w.note()
	return w.Worker.Poll(events)
}

func (w *serviceTimes) note() {
	if n := &w.client.counts; n.latencySum > w.summed && w.ended != nil {
		w.ended[n.latencySum-w.summed] = true
		w.summed = n.latencySum
	}
	s := w.client.stages
	if taken := s.stages[0].Samples; taken > w.calls {
		w.calls = taken
		w.service += s.done - s.started
		if w.ended != nil && !w.ended[s.done-s.started] {
			w.missing++
		}
	}
}

// check checks that the stages add up to the service times, after a window.
func (w *serviceTimes) check(t *testing.T) {
	w.note()
	require.Zero(t, w.missing)
	sum := uint64(0)
	for _, stage := range w.client.stages.stages {
		require.Equal(t, w.calls, stage.Samples)
		sum += stage.Sum
	}
	require.LessOrEqual(t, sum, w.service)
	require.GreaterOrEqual(t, sum+w.calls*stampedStages*w.client.stages.readCost, w.service)
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
			clients, daemons := connected(t, cfg)
			times := make([]*serviceTimes, len(clients))
			for i, c := range clients {
				w := &serviceTimes{Worker: c.worker, client: c}
				if cfg.InFlight == 1 {
					w.ended = map[uint64]bool{}
				}
				c.worker, times[i] = w, w
				c.Begin(Window{SampleEvery: 1, Duration: time.Hour})
				c.stages.every = 4
				require.NoError(t, c.Load(c.clock.Now()))
			}
			var s loop.State
			s.Advance(record.StateMeasuring)
			for calls := uint64(0); calls < 20*uint64(len(clients)); {
				calls = 0
				for i, c := range clients {
					_, err := c.Iterate(&s, 1)
					require.NoError(t, err)
					calls += times[i].calls
				}
				for _, d := range daemons {
					require.NoError(t, d.Step())
				}
			}
			for _, w := range times {
				w.check(t)
			}
		})
	}
}

// connected returns the clients and daemons of all ranks, which share their traces.
func connected(t *testing.T, cfg config.Config) (clients []*Client, daemons []*daemon.Daemon) {
	ranks := wiringtest.Connect(t, memory.NewDriver(), cfg)
	traces := map[transport.PeerID][]byte{}
	for rank, r := range ranks {
		for i, w := range r.Daemons {
			d, err := daemon.New(r.Wiring, i, config.IdleYield, w)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			trace := make([]byte, loop.CallTraceMemory)
			d.ShareTrace(loop.NewCallTrace(trace))
			traces[r.DaemonPeer(rank, i)] = trace
			daemons = append(daemons, d)
		}
	}
	for rank, r := range ranks {
		for i, w := range r.Clients {
			c, err := New(r.Wiring, cfg.CallerNumber(rank)*cfg.Clients+i, config.IdleYield, w)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, c.Close()) })
			for peer, trace := range traces {
				c.ShareTrace(peer, loop.NewCallTrace(trace))
			}
			clients = append(clients, c)
		}
	}
	return clients, daemons
}

// delayed is a worker that sleeps in each Post, and in each Poll that returns events.
type delayed struct {
	transport.Worker
	poll, post time.Duration
}

func (w *delayed) Poll(events []transport.Event) (int, error) {
	n, err := w.Worker.Poll(events)
	if n > 0 {
		time.Sleep(w.poll)
	}
	return n, err
}

func (w *delayed) Post(ops []transport.Op) (int, error) {
	time.Sleep(w.post)
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
		p := newPair(t, cfg,
			func(w transport.Worker) transport.Worker { c.client.Worker = w; return &c.client },
			func(w transport.Worker) transport.Worker { c.daemon.Worker = w; return &c.daemon })
		p.stages.every = 1
		p.begin(t, 1)
		p.until(t, func() bool { return p.stages.stages[0].Samples >= calls })
		r := p.Report(record.ThreadReport{})
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
		p.drain(t)
	}
}

// TestBusyTimeIsOfTheWindow checks that the iterations of the drain do not count as busy, and that
// the reading of the clock that a timed iteration takes does not either.
func TestBusyTimeIsOfTheWindow(t *testing.T) {
	cfg := testConfig()
	cfg.InFlight = 64
	p := newPair(t, cfg, func(w transport.Worker) transport.Worker {
		return wiringtest.OneByOne{Worker: w}
	}, nil)
	r, n := p.windowOf(t, 1, 100), &p.counts
	require.Positive(t, r.Drained)
	require.Equal(t, r.Ops()+r.Drained, r.Polls-r.EmptyPolls, "one by one")
	require.Positive(t, n.busyTimed)
	perTimed := float64(r.Ops()) / float64(n.busyTimed)
	require.InDelta(t, float64(p.clock.Nanos(n.busyTicks))*perTimed, float64(r.BusyNS),
		1+perTimed, "both are rounded to nanoseconds")

	// While iterations are slow, more are timed: each stands for those since the one before.
	const slow, fast = 1 << 40, 1 << 10
	p.counts = counts{polls: 1, found: 1001}
	p.recordBusy(p.clock.Now() - slow)
	p.counts.polls += 1000
	p.recordBusy(p.clock.Now() - fast)
	require.Less(t, p.Report(record.ThreadReport{}).BusyNS, p.clock.Nanos(3*slow))

	p.readCost = 1 << 40 // as if a reading took all the time
	r = p.windowOf(t, 1, 100)
	require.Positive(t, n.busyTimed)
	require.Zero(t, r.BusyNS)
}
