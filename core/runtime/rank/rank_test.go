package rank

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/runtime/client"
	"transportbench/core/runtime/daemon"
	"transportbench/core/runtime/loop"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wrapped is a driver that wraps the workers of another one.
type wrapped struct {
	transport.Driver
	wrap func(transport.Worker) transport.Worker
}

func (d wrapped) Open(ctx context.Context, cfg transport.Config) (transport.Transport, error) {
	tr, err := d.Driver.Open(ctx, cfg)
	return wrappedTransport{tr, d.wrap}, err
}

type wrappedTransport struct {
	transport.Transport
	wrap func(transport.Worker) transport.Worker
}

func (t wrappedTransport) NewWorker(index int) (transport.Worker, error) {
	w, err := t.Transport.NewWorker(index)
	if err != nil {
		return nil, err
	}
	return t.wrap(w), nil
}

func testConfig() config.Config {
	cfg := config.Default()
	cfg.Transport = "memory"
	cfg.Keys, cfg.InFlight = 64, 8
	return cfg
}

// cluster prepares and connects all ranks of a configuration in this process, without pinning.
func cluster(t *testing.T, driver transport.Driver, cfg config.Config, idle string) []*Rank {
	return clusterWith(t, driver, cfg, func(plan *record.Plan) { plan.Idle = idle })
}

// clusterOn is cluster with all threads on one processor.
func clusterOn(t *testing.T, driver transport.Driver, cfg config.Config, idle string,
	cpu int) []*Rank {
	return clusterWith(t, driver, cfg, func(plan *record.Plan) {
		plan.Idle = idle
		for i := range plan.CPUs {
			plan.CPUs[i] = cpu
		}
	})
}

// clusterWith is cluster with plans that edit completes.
func clusterWith(t *testing.T, driver transport.Driver, cfg config.Config,
	edit func(*record.Plan)) []*Rank {
	ranks, connect := unconnected(t, driver, cfg, edit)
	connect()
	return ranks
}

// unconnected is clusterWith with ranks that are connected by a function.
func unconnected(t *testing.T, driver transport.Driver, cfg config.Config,
	edit func(*record.Plan)) (ranks []*Rank, connect func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	ranks = make([]*Rank, cfg.Ranks)
	var workers []record.RankWorkers
	for i := range ranks {
		ranks[i] = New(driver, slog.New(slog.DiscardHandler))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			require.NoError(t, ranks[i].Close(ctx))
		})
		daemons, clients := cfg.Threads(i)
		pollers := daemons + clients
		plan := record.Plan{Rank: i, Config: cfg, CPUs: slices.Repeat([]int{-1}, pollers)}
		edit(&plan)
		prepared, err := ranks[i].Prepare(ctx, plan)
		require.NoError(t, err)
		require.Len(t, prepared.CPUs, pollers)
		workers = append(workers, prepared.Workers)
	}
	return ranks, func() {
		for _, r := range ranks {
			require.NoError(t, r.Connect(ctx, workers))
		}
	}
}

// runAll applies load for one window on all ranks, like a host, and returns the report of rank 0
// and those of the others.
func runAll(t *testing.T, ranks []*Rank, window record.Window) (first record.Report,
	others []record.Report, err error) {
	return runWatched(t, ranks, window, func(record.Progress) {})
}

// runWatched is runAll and calls watch for the progress of each rank, at once for several.
func runWatched(t *testing.T, ranks []*Rank, window record.Window, watch func(record.Progress)) (
	first record.Report, others []record.Report, err error) {
	return runWindow(t, ranks, window, watch, func() {})
}

// runWindow is runWatched and calls measuring once all ranks measure.
func runWindow(t *testing.T, ranks []*Rank, window record.Window, watch func(record.Progress),
	measuring func()) (first record.Report, others []record.Report, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	errs := make([]error, len(ranks))
	reports := make([]record.Report, len(ranks))
	var started, calling, running sync.WaitGroup
	for i, r := range ranks {
		started.Add(1)
		calls := len(r.clients()) > 0
		if calls {
			calling.Add(1)
		}
		running.Go(func() {
			var begun, drained sync.Once
			reports[i], errs[i] = r.Run(ctx, window, func() { begun.Do(started.Done) },
				func(p record.Progress) {
					watch(p)
					if p.Drained {
						drained.Do(calling.Done)
					}
				})
			begun.Do(started.Done)
			if calls {
				drained.Do(calling.Done)
			}
		})
	}
	started.Wait()
	for _, r := range ranks {
		require.NoError(t, r.Advance(ctx, record.StateMeasuring))
	}
	measuring()
	calling.Wait()
	for _, r := range ranks {
		require.NoError(t, r.Advance(ctx, record.StateStopped))
	}
	running.Wait()
	return reports[0], reports[1:], errors.Join(errs...)
}

// stopWhen ends the clients' windows early, once each of them has done a number of operations.
func stopWhen(t *testing.T, ranks []*Rank, ops uint64) {
	done := func() bool {
		for _, r := range ranks {
			for _, c := range r.clients() {
				if client.Progress([]*client.Client{c}, 0).Ops < ops {
					return false
				}
			}
		}
		return true
	}
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("not every client has done %d operations after 30 s", ops)
			break
		}
	}
	for _, r := range ranks {
		if len(r.clients()) > 0 {
			_ = r.Advance(context.Background(), record.StateDraining)
		}
	}
}

// runUntil applies load for a window that ends once each client has about that many latency
// samples.
func runUntil(t *testing.T, ranks []*Rank, sampleEvery int, samples uint64) (first record.Report,
	others []record.Report) {
	first, others, err := runWindow(t, ranks,
		record.Window{Duration: time.Hour, SampleEvery: sampleEvery}, func(record.Progress) {},
		func() { stopWhen(t, ranks, samples*uint64(sampleEvery)) })
	require.NoError(t, err)
	return first, others
}

func TestClientServer(t *testing.T) {
	shapes := map[string]func(*config.Config){
		"one of each":     func(*config.Config) {},
		"many":            func(c *config.Config) { c.Ranks, c.Daemons, c.Clients = 3, 2, 3 },
		"one in flight":   func(c *config.Config) { c.InFlight = 1 },
		"immediate flush": func(c *config.Config) { c.Flush = config.FlushImmediate },
		"zipfian":         func(c *config.Config) { c.Distribution = config.DistributionZipfian },
		"large values":    func(c *config.Config) { c.ValueSize = config.FixedSize(5000) },
		"empty values":    func(c *config.Config) { c.ValueSize = config.FixedSize(0) },
		"one key":         func(c *config.Config) { c.Keys = 1 },
		"writes only":     func(c *config.Config) { c.ReadRatio = 0 },
		"lookups and inserts": func(c *config.Config) {
			c.Distribution, c.Mix = config.DistributionLatest, config.Mix{
				{Op: config.OpRead, Share: 0.5}, {Op: config.OpLookup, Share: 0.3},
				{Op: config.OpInsert, Share: 0.2}}
		},
		"sizes from 0": func(c *config.Config) {
			require.NoError(t, c.ValueSize.Set("histogram:0=1,8=1,600=1,601=1"))
			c.Keys, c.Ranks, c.Clients = 4, 3, 3 // many write what others read
		},
		"some checksums": func(c *config.Config) { c.VerifyEvery = 10 },
		"echo":           func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceEcho, 1 },
		"echo of sizes from 0": func(c *config.Config) {
			c.Service, c.ReadRatio, c.VerifyEvery = config.ServiceEcho, 1, 10
			require.NoError(t, c.ValueSize.Set("uniform:0-700"))
		},
		"sink": func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceSink, 0 },
		"sink, some checksums": func(c *config.Config) {
			c.Service, c.ReadRatio, c.VerifyEvery, c.ValueSize = config.ServiceSink, 0, 10,
				config.FixedSize(5000)
		},
	}
	for name, shape := range shapes {
		for _, idle := range []string{config.IdleYield, config.IdlePark} {
			t.Run(name+"/"+idle, func(t *testing.T) {
				cfg := testConfig()
				shape(&cfg)
				// Poison detects a payload that the loops keep beyond a poll.
				driver := wrapped{memory.NewDriver(), memory.Poison}
				ranks := cluster(t, driver, cfg, idle)
				for range 2 {
					server, clients := runUntil(t, ranks, 4, 100)
					checkReports(t, cfg, server, clients)
				}
			})
		}
	}
}

// checkReports compares the clients' counts with the daemons'.
func checkReports(t *testing.T, cfg config.Config, server record.Report, clients []record.Report) {
	require.Len(t, server.Daemons, cfg.Daemons)
	require.Len(t, clients, cfg.Ranks-1)
	var ops, drained, served uint64
	for _, r := range clients {
		require.True(t, r.Stopped)
		require.Len(t, r.Clients, cfg.Clients)
		for _, c := range r.Clients {
			require.Empty(t, c.Failures)
			require.Zero(t, c.Lost)
			done := c.Reads + c.Writes + c.Lookups
			require.Positive(t, done)
			require.Equal(t, done, c.VerifiedKeys)
			if cfg.VerifyEvery == 1 {
				require.Equal(t, c.Reads, c.VerifiedSums)
			} else {
				require.Equal(t, c.Reads/uint64(cfg.VerifyEvery), c.VerifiedSums)
			}
			bytes := done * uint64(cfg.ValueSize.Max())
			if cfg.Service == config.ServiceEcho {
				bytes *= 2 // forth and back
			}
			if cfg.ValueSize.Fixed() && len(cfg.Mix) == 0 {
				require.Equal(t, bytes, c.PayloadBytes)
			} else {
				require.Less(t, c.PayloadBytes, bytes)
			}
			require.InDelta(t, float64(done)/4, float64(c.Samples), 4*float64(cfg.InFlight)+
				float64(done)/8)
			latency, err := record.DecodeHistogram(c.Latency)
			require.NoError(t, err)
			require.EqualValues(t, c.Samples, latency.Count())
			ops += done
			drained += c.Drained
		}
	}
	for _, d := range server.Daemons {
		require.Zero(t, d.Rejected)
		if len(cfg.Mix) == 0 {
			require.Equal(t, d.Requests, d.Gets+d.Puts)
		} else { // lookups are neither
			require.Greater(t, d.Requests, d.Gets+d.Puts)
		}
		served += d.Requests
	}
	// The daemons' window ends a moment before or after the clients'.
	require.Positive(t, served)
	require.LessOrEqual(t, served, ops+drained)
	requireServedIssued(t, append(clients, server))
}

// TestServers spreads the keys over several ranks that serve.
func TestServers(t *testing.T) {
	cfg := testConfig()
	cfg.Servers, cfg.Ranks, cfg.Daemons, cfg.Clients = 2, 4, 2, 3
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	first, others := runUntil(t, ranks, 4, 100)
	reports := append(others, first)
	requireServedIssued(t, reports)
	for _, r := range reports {
		daemons, clients := cfg.Threads(r.Rank)
		require.Len(t, r.Daemons, daemons)
		require.Len(t, r.Clients, clients)
		require.NotEqual(t, r.Rank < 2, clients > 0)
		for _, d := range r.Daemons {
			require.Positive(t, d.Requests, "of rank %d", r.Rank)
			require.Zero(t, d.Rejected)
		}
		for _, c := range r.Clients {
			require.Empty(t, c.Failures)
			require.Zero(t, c.Lost)
		}
	}
}

// TestHandoffs checks that hand-offs of more and of fewer calls than may be in flight follow each
// other: the times of those that overlap would add up to more than the window.
func TestHandoffs(t *testing.T) {
	for _, handoff := range []config.Handoff{"push:40", "pull:5"} {
		cfg := testConfig()
		cfg.Handoff, cfg.Burst, cfg.Model = handoff, 2, "layers=3,latent=2,bytes=1"
		cfg.TokensPerBlock, cfg.BytesPerToken = 16, 2
		cfg.ValueSize, cfg.InFlight, cfg.Clients = config.FixedSize(32), 8, 2
		if cfg.ReadRatio = 0; handoff == "pull:5" {
			cfg.ReadRatio = 1
		}
		require.NoError(t, cfg.Validate())
		ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
		for range 2 { // the second window begins while a hand-off of the first is incomplete
			server, callers := runUntil(t, ranks, 1, 2000)
			requireServedIssued(t, append(callers, server))
			for _, c := range callers[0].Clients {
				n := c.Iterations.Samples
				require.InDelta(t, float64(c.Ops())/float64(cfg.Iteration()), float64(n), 2)
				require.LessOrEqual(t, n, c.FirstParts.Samples)
				require.LessOrEqual(t, c.FirstParts.MeanNS, c.Iterations.MeanNS)
				require.LessOrEqual(t, c.Iterations.MeanNS*float64(n), float64(c.ElapsedNS))
				// Calls are in flight for nearly all of the window, and never too many.
				require.Less(t, c.InFlightNS, uint64(cfg.InFlight)*c.ElapsedNS)
				require.Greater(t, 2*c.InFlightNS, c.ElapsedNS)
				require.Empty(t, c.Failures)
				require.Zero(t, c.Lost)
			}
		}
	}
}

// requireServedIssued checks that daemons served exactly what clients issued.
func requireServedIssued(t *testing.T, reports []record.Report) {
	t.Helper()
	var issued, served, done uint64
	for _, r := range reports {
		for _, c := range r.Clients {
			issued += c.Issued
			done += c.Ops() + c.Drained
		}
		for _, d := range r.Daemons {
			served += d.Served
		}
	}
	require.Equal(t, issued, served)
	require.GreaterOrEqual(t, issued, done)
}

// hour is a window that records one latency of sampleEvery.
func hour(sampleEvery int) client.Window {
	return client.Window{SampleEvery: sampleEvery, Duration: time.Hour}
}

// iterate runs one iteration of the client's loop and returns its operations so far.
func iterate(c *client.Client) (uint64, error) {
	measured.Advance(record.StateMeasuring)
	return c.Iterate(&measured, 1)
}

// measured is the state of a window that measures.
var measured loop.State

// drain drains the calls in flight of clients, each on a goroutine, while the daemons run.
func drain(clients []*client.Client, daemons ...*daemon.Daemon) error {
	drained := make(chan error, len(clients))
	for _, c := range clients {
		go func() { drained <- c.Drain(&measured) }()
	}
	for range clients {
		for err, open := error(nil), true; open; {
			select {
			case err = <-drained:
				open = false
			default:
				for _, d := range daemons {
					err = errors.Join(err, d.Step())
				}
				runtime.Gosched()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func TestDrainingCutsAWindowShort(t *testing.T) {
	ranks := cluster(t, memory.NewDriver(), testConfig(), config.IdleYield)
	_, clients := runUntil(t, ranks, 1, 100)
	require.True(t, clients[0].Stopped)
	require.Positive(t, clients[0].Clients[0].Reads)
}

func TestCancelledContextEndsAWindow(t *testing.T) {
	ranks := cluster(t, memory.NewDriver(), testConfig(), config.IdlePark)
	ctx, cancel := context.WithCancel(context.Background())
	report, err := ranks[0].Run(ctx, record.Window{Duration: time.Hour}, cancel,
		func(record.Progress) {})
	require.NoError(t, err)
	require.True(t, report.Stopped)
}

func TestLostServerEndsTheWindow(t *testing.T) {
	ranks := cluster(t, memory.NewDriver(), testConfig(), config.IdleYield)
	require.NoError(t, ranks[0].Close(context.Background()))
	begin := func() { _ = ranks[1].Advance(context.Background(), record.StateMeasuring) }
	report, err := ranks[1].Run(context.Background(), record.Window{Duration: time.Hour}, begin,
		func(record.Progress) {})
	require.Len(t, report.Clients, 1, "what was recorded until then")
	require.ErrorIs(t, err, transport.ErrPeerDown)
}

// A report of progress would interrupt a polling thread of a window that is short.
func TestShortWindowsReportNoProgress(t *testing.T) {
	reports := func(window record.Window) int64 {
		var n atomic.Int64
		_, _, err := runWatched(t, cluster(t, memory.NewDriver(), testConfig(),
			config.IdleYield), window, func(p record.Progress) {
			if !p.Drained {
				n.Add(1)
			}
		})
		require.NoError(t, err)
		return n.Load()
	}
	require.Zero(t, reports(record.Window{Duration: 400 * time.Millisecond}))
	require.NotZero(t, reports(record.Window{Duration: 400 * time.Millisecond, Warmup: true}))
}

func TestWarmupAdvisesSampling(t *testing.T) {
	cfg := testConfig()
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	_, clients, err := runAll(t, ranks, record.Window{Warmup: true,
		Duration: 20 * time.Millisecond})
	require.NoError(t, err)
	require.Positive(t, clients[0].SampleEvery)

	cfg.SampleEvery = 3
	ranks = cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	_, clients, err = runAll(t, ranks, record.Window{Warmup: true, Duration: 20 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, 3, clients[0].SampleEvery)
}

func TestSamplingCountsProcessorTime(t *testing.T) {
	quick := record.ClientReport{ElapsedNS: 1e9, Lookups: 1e4,
		Thread: record.ThreadReport{CPUNS: 1e6}}
	slow := record.ClientReport{ElapsedNS: 1e9, Reads: 5e3, Writes: 5e3,
		Thread: record.ThreadReport{CPUNS: 2e6}}
	idle := record.ClientReport{ElapsedNS: 1e9, Thread: record.ThreadReport{CPUNS: 1e6}}
	require.InDelta(t, 100, busyPerOp([]record.ClientReport{idle, slow, quick}), 1e-9)
	require.InDelta(t, 1e5, busyPerOp([]record.ClientReport{{ElapsedNS: 1e9, Reads: 1e4}}), 1e-9,
		"elapsed time if the processor time is not known")
	require.Greater(t, loop.SampleEveryFor(20, 100), loop.SampleEveryFor(20, 1e5))
}

func TestProbe(t *testing.T) {
	ranks := cluster(t, memory.NewDriver(), testConfig(), config.IdleYield)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	server, caller := record.Thread{Rank: 0, Daemon: 0, Client: -1},
		record.Thread{Rank: 1, Daemon: -1, Client: 0}
	far := make(chan error, 1)
	go func() {
		_, err := ranks[0].Probe(ctx, record.Probe{Near: server, Far: caller,
			Probe: transport.Probe{Kind: transport.ProbeMedium, Duration: 5 * time.Millisecond}})
		far <- err
	}()
	floor, err := ranks[1].Probe(ctx, record.Probe{Near: caller, Far: server,
		Probe: transport.Probe{Kind: transport.ProbeMedium, Initiate: true,
			Duration: 5 * time.Millisecond}})
	require.NoError(t, err)
	require.NoError(t, <-far)
	require.Positive(t, floor.RoundTrip)
	_, err = ranks[1].Probe(ctx, record.Probe{Near: record.Thread{Rank: 1, Daemon: -1, Client: 7},
		Far: server})
	require.ErrorContains(t, err, "no client 7 of rank 1")
}

// TestOverhead checks that a rank measures the loops that it has, before and after a window, and
// that the window does not notice.
func TestOverhead(t *testing.T) {
	loads := map[string]func(*config.Config){
		"kv":     func(*config.Config) {},
		"a burn": func(c *config.Config) { c.Burn = config.Duration(time.Second) },
		"drawn": func(c *config.Config) {
			require.NoError(t, c.Mix.Set("read:0.5,insert:0.3,rmw:0.2"))
		},
		"pattern": func(c *config.Config) {
			require.NoError(t, c.Pattern.Set("lookup:7,read:6,write:3"))
		},
		"echo": func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceEcho, 1 },
		"sink": func(c *config.Config) { c.Service, c.ReadRatio = config.ServiceSink, 0 },
		"many": func(c *config.Config) { c.Ranks, c.Daemons, c.Clients = 3, 2, 3 },
	}
	for name, shape := range loads {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			shape(&cfg)
			ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
			for range 2 {
				server, err := ranks[0].Overhead(t.Context(), time.Millisecond)
				require.NoError(t, err)
				require.Positive(t, server.DaemonNS)
				require.Zero(t, server.ClientNS)
				o, err := ranks[1].Overhead(t.Context(), time.Millisecond)
				require.NoError(t, err)
				require.Positive(t, o.ClientNS)
				require.Zero(t, o.DaemonNS)
				require.InDelta(t, o.ClientNS, o.PerOpNS, 0)
				require.Less(t, o.PerOpNS, 1e9, "a burn is not part of the harness")
				require.Positive(t, o.StampNS)
				if cfg.Burn == 0 {
					report, clients := runUntil(t, ranks, 4, 100)
					checkMeasured(t, report, clients)
				}
			}
		})
	}
}

func checkMeasured(t *testing.T, server record.Report, clients []record.Report) {
	requireServedIssued(t, append(clients, server))
	for _, r := range clients {
		for _, c := range r.Clients {
			require.Empty(t, c.Failures)
			require.Equal(t, c.Ops(), c.VerifiedKeys)
		}
	}
}

func TestOverheadOfMesh(t *testing.T) {
	cfg := meshConfig(config.TopologyMeshProxied)
	ranks := cluster(t, memory.NewDriver(), cfg, config.IdleYield)
	o, err := ranks[0].Overhead(t.Context(), time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, o.ClientNS)
	require.InDelta(t, o.PerOpNS, o.ClientNS+o.DaemonNS, 1e-9)
	require.Greater(t, o.PerOpNS, o.ClientNS)
}

func TestPrepareRefuses(t *testing.T) {
	prepare := func(change func(*record.Plan)) error {
		plan := record.Plan{Rank: 1, Config: testConfig(), CPUs: []int{-1}, Idle: config.IdleYield}
		change(&plan)
		r := New(memory.NewDriver(), slog.New(slog.DiscardHandler))
		_, err := r.Prepare(t.Context(), plan)
		return errors.Join(err, r.Close(t.Context()))
	}
	require.NoError(t, prepare(func(*record.Plan) {}))
	var option *transport.OptionError
	require.ErrorAs(t,
		prepare(func(p *record.Plan) { p.Config.Options = map[string]string{"no-such": "1"} }),
		&option)
	var configError *config.Error
	require.ErrorAs(t, prepare(func(p *record.Plan) { p.Config.Keys = 0 }), &configError)
	require.ErrorContains(t, prepare(func(p *record.Plan) { p.CPUs = nil }),
		"0 processors for 1 polling threads")
	require.ErrorContains(t, prepare(func(p *record.Plan) { p.CPUs = []int{1 << 12} }),
		"--pin=false")
}
