package rank

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/runtime/loop"
	"transportbench/core/runtime/wiring/wiringtest"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// BenchmarkOverhead measures the loops of a client and of a daemon on null transports. It reports
// the least of its rounds in nanoseconds per operation, so use -benchtime 100x or more where other
// programs run. null-ns is what the null transports of both take by themselves, which is counted.
func BenchmarkOverhead(b *testing.B) {
	for _, load := range []struct {
		name string
		set  func(*config.Config)
	}{
		{"echo", func(c *config.Config) {
			c.Service, c.ReadRatio, c.VerifyEvery = config.ServiceEcho, 1, 16
		}},
		{"pingpong", func(c *config.Config) { c.ReadRatio = 1 }},
		{"kv", func(*config.Config) {}},
		{"sink", func(c *config.Config) {
			c.Service, c.ReadRatio, c.ValueSize, c.VerifyEvery = config.ServiceSink, 0,
				config.FixedSize(64<<10), 64
		}},
	} {
		for _, inFlight := range []int{1, 32} {
			cfg := config.Default()
			cfg.InFlight = inFlight
			load.set(&cfg)
			require.NoError(b, cfg.Validate())
			b.Run(fmt.Sprintf("%s/in-flight=%d", load.name, inFlight), func(b *testing.B) {
				best, null := [2]float64{math.MaxFloat64, math.MaxFloat64},
					[2]float64{math.MaxFloat64, math.MaxFloat64}
				for side, isDaemon := range []bool{false, true} {
					o, err := newOverhead(record.Plan{Config: cfg, Idle: config.IdleSpin}, isDaemon,
						transport.Properties{Medium: transport.MediumMemory}, 0)
					require.NoError(b, err)
					for range b.N {
						cost, err := o.measure(1024, 2*time.Millisecond)
						require.NoError(b, err)
						best[side] = min(best[side], cost)
						null[side] = min(null[side], nullCost(b, o, inFlight, 2*time.Millisecond))
					}
					require.NoError(b, o.close())
				}
				b.ReportMetric(best[0], "client-ns")
				b.ReportMetric(best[1], "daemon-ns")
				b.ReportMetric(null[0]+null[1], "null-ns")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// nullCost measures the calls that a loop makes to its null transport, without the loop.
func nullCost(b *testing.B, o *overhead, inFlight int, d time.Duration) float64 {
	payloads := o.client.Payloads()
	ops := make([]transport.Op, inFlight)
	for i := range ops {
		ops[i] = transport.Op{Kind: transport.OpCall, Token: transport.Token(i),
			Payload: payloads[i%len(payloads)]}
	}
	w, events := o.null, make([]transport.Event, max(loop.MinBatch, min(inFlight, loop.MaxBatch)))
	done := uint64(0)
	cost, err := inParts(machine.Calibrated(), d, func(n int) (uint64, error) {
		for range n {
			found, err := w.Poll(events)
			if err == nil {
				_, err = w.Post(ops)
			}
			if err == nil {
				err = w.Flush()
			}
			if err != nil {
				return 0, err
			}
			done += uint64(found)
		}
		return done, nil
	})
	require.NoError(b, err)
	return cost
}

// TestOverheadReadsWhatTheFloorReads checks that only the floor of memory takes the reading of a
// sink's values off the harness.
func TestOverheadReadsWhatTheFloorReads(t *testing.T) {
	cfg := testConfig()
	cfg.Service, cfg.ReadRatio = config.ServiceSink, 0
	for medium, unread := range map[string]bool{
		transport.MediumMemory: true, transport.MediumUDP: false, transport.MediumTCP: false,
		transport.MediumVerbs: false, "": false,
	} {
		o, err := newOverhead(record.Plan{Config: cfg, Idle: config.IdleSpin}, true,
			transport.Properties{Medium: medium}, 0)
		require.NoError(t, err)
		require.Equal(t, unread, o.daemon.Sink.Unread, medium)
		require.NoError(t, o.close())
	}
}

// TestOverheadOfLargePayloads checks that the null transports' requests take little memory,
// whatever the payload and the calls in flight, and that the loop still runs.
func TestOverheadOfLargePayloads(t *testing.T) {
	for _, service := range []config.Service{config.ServiceStore, config.ServiceEcho,
		config.ServiceSink} {
		for _, isDaemon := range []bool{false, true} {
			cfg := testConfig()
			cfg.Service, cfg.InFlight, cfg.ValueSize = service, 64, config.FixedSize(4<<20)
			if service == config.ServiceSink {
				cfg.ReadRatio = 0
			}
			o, err := newOverhead(record.Plan{Config: cfg, Idle: config.IdleSpin}, isDaemon,
				transport.Properties{}, 0)
			require.NoError(t, err)
			size := 0
			for _, p := range o.client.Payloads() {
				size += cap(p) // its room in the mapped memory
			}
			require.LessOrEqual(t, size, overheadBytes)
			cost, err := o.measure(1, time.Millisecond)
			require.NoError(t, err)
			require.Positive(t, cost)
			require.NoError(t, o.close())
		}
	}
}

// TestOverheadOfSlowOperations checks that operations that take longer than planned are measured,
// but not for each part.
func TestOverheadOfSlowOperations(t *testing.T) {
	const planned = time.Millisecond
	slow := (overheadLimit + 1) * planned
	calls := 0
	cost, err := inParts(machine.Calibrated(), planned, func(n int) (uint64, error) {
		calls += n
		time.Sleep(slow)
		return uint64(calls), nil
	})
	require.NoError(t, err)
	require.Equal(t, 1, calls)
	require.Greater(t, cost, float64(slow)*0.9)
}

// TestOverheadHasTheBatchesOfTheWindow runs a window whose polls return one event each, and checks
// that a null transport answers and brings no more at once. Without a window it does all of them.
func TestOverheadHasTheBatchesOfTheWindow(t *testing.T) {
	driver := wrapped{memory.NewDriver(), func(w transport.Worker) transport.Worker {
		return wiringtest.OneByOne{Worker: w}
	}}
	for ran, want := range map[bool]int{false: 8, true: 1} {
		ranks := cluster(t, driver, testConfig(), config.IdleYield)
		if ran {
			runUntil(t, ranks, 1, 100)
		}
		for _, r := range ranks {
			_, err := r.Overhead(t.Context(), time.Millisecond)
			require.NoError(t, err)
		}
		o := ranks[0].threads[0].overhead
		for o.null.(*nullClient).open > 0 {
			require.NoError(t, o.daemon.Step())
		}
		served := o.daemon.Requests()
		require.NoError(t, o.daemon.Step())
		require.EqualValues(t, want, o.daemon.Requests()-served)

		c := ranks[1].threads[0].overhead.client
		require.NoError(t, c.Load(1))
		done, err := iterate(c)
		require.NoError(t, err)
		require.EqualValues(t, want, done)
	}
	for batch, want := range map[float64]int{0: 8, 0.2: 1, 2.6: 3, 100: 8} {
		o, err := newOverhead(record.Plan{Config: testConfig(), Idle: config.IdleSpin}, false,
			transport.Properties{}, batch)
		require.NoError(t, err)
		require.Equal(t, want, cap(o.null.(*nullServer).copied), batch)
		require.NoError(t, o.close())
	}
}

// The only rank of mesh-proxied has no requests of other ranks, but those of its own clients.
func TestOverheadOfOneRank(t *testing.T) {
	cfg := meshConfig(config.TopologyMeshProxied)
	cfg.Ranks = 1
	overhead, err := cluster(t, memory.NewDriver(), cfg, config.IdleYield)[0].Overhead(
		t.Context(), time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, overhead.ClientNS)
	require.Positive(t, overhead.DaemonNS)
}

// TestBatchesAreAShareOfAPart has steps that take 1% of a part each, of which no batch may take
// more than 1/32.
func TestBatchesAreAShareOfAPart(t *testing.T) {
	const step = 100 * time.Microsecond
	largest, done := 0, uint64(0)
	_, err := inParts(machine.Calibrated(), 100*step*overheadParts, func(n int) (uint64, error) {
		spinFor(time.Duration(n) * step)
		largest, done = max(largest, n), done+uint64(n)
		return done, nil
	})
	require.NoError(t, err)
	require.LessOrEqual(t, largest, 3)
}

// TestNullServerKeepsWhatAPollLeaves polls fewer calls than were posted. The client uses its slice
// again before the rest is polled.
func TestNullServerKeepsWhatAPollLeaves(t *testing.T) {
	cfg := testConfig()
	cfg.Service, cfg.InFlight = config.ServiceEcho, 8
	null, err := newNullServer(cfg)
	require.NoError(t, err)
	ops, events := make([]transport.Op, 4), make([]transport.Event, 8)
	posted := transport.Token(0)
	post := func() {
		for i := range ops {
			posted++
			ops[i].Token = posted
		}
		_, err := null.Post(ops)
		require.NoError(t, err)
	}
	var got []transport.Token
	poll := func(limit int) {
		n, err := null.Poll(events[:limit])
		require.NoError(t, err)
		for _, e := range events[:n] {
			got = append(got, e.Token)
		}
	}
	post()
	poll(1)
	post()
	poll(3)
	poll(8)
	require.Equal(t, []transport.Token{1, 2, 3, 4, 5, 6, 7, 8}, got)
}

// A daemon that gets no processor until the window is over has a window all the same.
func TestWindowOfAStarvedDaemon(t *testing.T) {
	o, err := newOverhead(record.Plan{Config: config.Default(), Idle: config.IdleSpin}, true,
		transport.Properties{Medium: transport.MediumMemory}, 0)
	require.NoError(t, err)
	defer o.close()
	var over loop.State
	over.Advance(record.StateStopped)
	for range 1 << 12 { // some are within a step of the clock
		o.daemon.Begin()
		require.NoError(t, o.daemon.Run(&over, func() {}, func() {}))
		require.Positive(t, o.daemon.Report(record.ThreadReport{}).ElapsedNS)
	}
}

func TestOverheadOfThreadsThatShareProcessors(t *testing.T) {
	r := &Rank{}
	for i := range 3 * runtime.NumCPU() {
		r.threads = append(r.threads, &thread{id: record.Thread{Daemon: i, Client: -1}, cpu: 5},
			&thread{id: record.Thread{Daemon: -1, Client: i}, cpu: -1})
	}
	daemons, clients := r.apart()
	require.Len(t, daemons, 1, "all share one processor")
	require.Len(t, clients, runtime.NumCPU(), "not pinned")
}
