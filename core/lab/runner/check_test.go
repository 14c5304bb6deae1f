package runner

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/result"
	"transportbench/core/transport"
)

// good is a run of six repeats of two clients that passes every check.
func good(t *testing.T) evidence {
	t.Helper()
	cfg := config.Default()
	cfg.Duration, cfg.ReadRatio = config.Duration(time.Second), 0.5
	r := &result.Result{
		Config:   cfg,
		Setup:    result.Setup{Warmup: &result.Warmup{LastedMS: 175, Ended: result.WarmupSteady}},
		Overhead: record.Overhead{PerOpNS: 10, StampNS: 40},
		Placement: []result.Placement{
			{Rank: 0, CPUs: []int{0}, Affinity: []string{"0"}, Idle: config.IdleSpin},
			{Rank: 1, CPUs: []int{1, 2}, Affinity: []string{"1", "2"}, Idle: config.IdleSpin},
		},
	}
	for i := range 6 {
		repeat := result.Repeat{
			Index: i,
			Ranks: []record.Report{
				{Daemons: []record.DaemonReport{daemonReport(time.Second, 2_000_100, &cfg)}},
				{Clients: []record.ClientReport{clientReport(time.Second), clientReport(time.Second)}},
			},
			Before: result.Readings{Medium: &transport.Floor{RoundTrip: 100}}, After: result.Readings{Medium: &transport.Floor{RoundTrip: 129}},
		}
		require.NoError(t, fillSamples(cfg, &repeat))
		r.Repeats = append(r.Repeats, repeat)
	}
	return evidence{result: r, sampleEvery: 100, pollers: 3, cpus: 4, closing: []error{nil, nil}}
}

// client is one client of the third repeat, and daemon its daemon.
func client(e *evidence) *record.ClientReport { return &e.result.Repeats[2].Ranks[1].Clients[1] }
func daemon(e *evidence) *record.DaemonReport { return &e.result.Repeats[2].Ranks[0].Daemons[0] }

// goodOpen is the same with an open loop of 2 million op/s.
func goodOpen(t *testing.T) evidence {
	t.Helper()
	e := good(t)
	e.result.Config.Rate = 2e6
	for i := range e.result.Repeats {
		repeat := &e.result.Repeats[i]
		for j := range repeat.Ranks[1].Clients {
			repeat.Ranks[1].Clients[j].Open = &record.OpenReport{
				Scheduled: 1_000_000, Response: *timingOf(100, 1100), Lag: *timingOf(100, 90),
			}
		}
		require.NoError(t, fillSamples(e.result.Config, repeat))
	}
	return e
}

// goodProxied is a proxied mesh of two ranks that passes every check.
func goodProxied(t *testing.T) evidence {
	t.Helper()
	e := good(t)
	cfg := &e.result.Config
	cfg.Topology = config.TopologyMeshProxied
	for i := range e.result.Repeats {
		repeat := &e.result.Repeats[i]
		for j := range 2 {
			repeat.Ranks[j] = record.Report{
				Rank: j, Clients: []record.ClientReport{meshed(clientReport(time.Second), cfg)},
				Daemons: []record.DaemonReport{daemonReport(time.Second, 1_000_000, cfg)},
			}
		}
		require.NoError(t, fillSamples(*cfg, repeat))
	}
	return e
}

func TestGoodRunPassesEveryCheck(t *testing.T) {
	for name, e := range map[string]evidence{"closed": good(t), "open": goodOpen(t), "proxied": goodProxied(t)} {
		for _, c := range runChecks(e) {
			require.True(t, c.OK, "%s: %s: %s", name, c.Name, c.Message)
			require.NotEmpty(t, c.Message)
		}
	}
}

func TestChecksFail(t *testing.T) {
	cases := []checkCase{
		{"verified", func(e *evidence) { client(e).Failures = map[string]uint64{"wrong-key": 2, "bad-checksum": 1} },
			3, "1 responses bad-checksum, 2 responses wrong-key"},
		{"verified", func(e *evidence) {
			client(e).Failures = map[string]uint64{"short": 3}
			client(e).VerifiedKeys -= 3
		}, 3, "3 responses short"},
		{"verified", func(e *evidence) { client(e).Lost = 4 }, 4, "4 calls lost"},
		{"verified", func(e *evidence) { client(e).VerifiedKeys -= 5 }, 5, "5 responses not checked"},
		{"verified", func(e *evidence) { daemon(e).Rejected = 6 }, 6, "6 requests rejected"},
		{"verified", func(e *evidence) { daemon(e).Device = &record.DeviceReport{Values: 9, Verified: 3, Wrong: 2} }, 2, "2 values wrong in device memory"},
		{"verified", func(e *evidence) { daemon(e).Device = &record.DeviceReport{Values: 9} }, 9, "9 values in device memory of which none was copied back"},
		{"verified", func(e *evidence) { client(e).VerifiedSums-- }, 0, "checksums verified for"},
		{"verified", func(e *evidence) { e.result.Config.VerifyEvery = 10; client(e).VerifiedSums = 0 }, 0, "checksums verified for"},
		{"verified", func(e *evidence) {
			for i := range e.result.Repeats {
				e.result.Repeats[i].Ranks[1].Clients = make([]record.ClientReport, 2)
			}
		}, 0, "no operation was completed"},
		{"overlong", func(e *evidence) { daemon(e).ElapsedNS = 1_329e6 }, 1.329, "1.33 times as long"},
		{"stopped_early", func(e *evidence) { e.result.Repeats[4].Ranks[0].Stopped = true }, 1, "1 windows ended"},
		{"counters", func(e *evidence) { daemon(e).Requests = 2_200_000 }, 0.1, "differ by up to 10.0%"},
		{"counters", func(e *evidence) { daemon(e).Requests = 1_800_000 }, 0.1, "differ by up to 10.0%"},
		{"littles_law", func(e *evidence) { client(e).MeanNS = 1200 }, 0.1, "gives 2.2 calls in flight, 2 are configured (10.0%"},
		{"littles_law", func(e *evidence) { client(e).MeanNS = 800 }, 0.1, "no sampled call was in flight"},
		{"samples", func(e *evidence) { client(e).Samples += 3 }, 3, "1203 latencies were sampled, but the histograms have 1200"},
		{"samples", func(e *evidence) {
			for i := range e.result.Repeats {
				e.result.Repeats[i].Latency = ""
				for j := range e.result.Repeats[i].Ranks[1].Clients {
					e.result.Repeats[i].Ranks[1].Clients[j].Samples = 0
				}
			}
		}, 0, "no latency was sampled"},
		{"samples", func(e *evidence) { e.result.Repeats[0].Latency = "rubbish" }, 1, "decoding histogram"},
		{"consistent", func(e *evidence) { e.result.Repeats[1].Samples[result.FloorRatio] *= 2 }, 1, "repeat 2: latency_p50 over floor is"},
		{"sampling_cost", func(e *evidence) { e.sampleEvery = 1 }, 0.04, "up to 4.00% of a client's processor time"},
		{"sampling_cost", func(e *evidence) { client(e).Thread.CPUNS /= 100 }, 0.04, "up to 4.00%"},
		{"floor_stable", func(e *evidence) {
			e.result.Repeats[0].After.Medium = &transport.Floor{RoundTrip: 131}
			e.result.Repeats[1].After.Medium = &transport.Floor{RoundTrip: 50}
		}, 2, "(up to 2.00x) around 2 of 6 windows"},
		{"fairness", func(e *evidence) { client(e).Reads = 0; client(e).Writes = 100_000 }, 0.1 / 0.55, "only 0.18"},
		{"collections", func(e *evidence) { e.result.Repeats[1].Ranks[1].Process.Collections = 3 }, 3, "ran 3 times in 1 windows"},
		{"involuntary_switches", func(e *evidence) { client(e).Thread.Involuntary = 101 }, 101, "up to 101 times a second"},
		{"involuntary_switches", func(e *evidence) { daemon(e).Thread.Involuntary = 500 }, 500, "another program runs there"},
		{"involuntary_switches", func(e *evidence) { daemon(e).Thread.Involuntary, e.cpus = 500, e.pollers }, 500, "no processor is left"},
		{"oversubscribed", func(e *evidence) { e.oversubscribed, e.pollers = true, 17 }, 17, "17 polling threads have 4"},
		{"pinned", func(e *evidence) { e.result.Placement[1].Affinity[1] = "0-3" }, 1, "1 of 3 polling threads are not pinned"},
		{"pinned", func(e *evidence) { e.result.Placement[1].Affinity = nil }, 2, "2 of 3"},
		{"pinned", func(e *evidence) {
			e.result.Config.Pin = false
			e.result.Placement[0].CPUs, e.result.Placement[1].CPUs = []int{-1}, []int{-1, -1}
		}, 3, "not pinned, as configured"},
		{"closed", func(e *evidence) { e.closing = []error{nil, errors.New("rank 1: close: stuck")} }, 1, "rank 1: close: stuck"},
		{"interval", func(e *evidence) { e.result.Repeats = e.result.Repeats[:5] }, 5, "use --repeats 6 or more"},
		{"complete", func(e *evidence) {
			e.result.Incomplete, e.result.IncompleteReason = true, "failed after 6 of 10 repeats: rank 1: run: broken"
		}, 6, "rank 1: run: broken"},
		{"drift", func(e *evidence) { slopeOf(e, func(i int) uint64 { return 45_000 + 500*uint64(i) }) }, 0.1315, "rose by 13%"},
		{"drift", func(e *evidence) { slopeOf(e, func(i int) uint64 { return 100_000 - 2000*uint64(i) }) }, -0.294, "fell by 29%"},
		{"loop_timing_cost", func(e *evidence) { daemon(e).PhaseNS = 330 }, 0.0206, "one in 64 loops takes up to 2.06%"},
		{"warmup", func(e *evidence) {
			e.result.Config.Warmup = config.Duration(time.Second)
			e.result.Setup.Warmup = &result.Warmup{LastedMS: 1002, Ended: result.WarmupLimit}
		}, 1002, "not steady within 1s"},
	}
	cases = append(cases, checkCase{"stages", func(e *evidence) {
		for i := range e.result.Repeats {
			for _, c := range e.result.Repeats[i].Clients() {
				c.Stages[record.StageServe] = *timingOf(10, 66)
			}
		}
	}, 0.104, "explain 89.6% of the mean service time of calls"})
	openCases := []checkCase{
		{"rate", func(e *evidence) { client(e).Reads -= 20_010 }, 0.98999, "1979990 of 2000000 operations due"},
		{"schedule_lag", func(e *evidence) { e.result.Repeats[3].Lag = timingOf(100, 5500).Histogram }, 5500, "within 5.5 us"},
		{"schedule_lag", func(e *evidence) {
			e.result.Repeats[3].Lag, e.oversubscribed = timingOf(100, 9000).Histogram, true
		}, 9000, "threads share processors"},
	}
	proxiedCases := []checkCase{
		{"stages", func(e *evidence) {
			for i := range e.result.Repeats {
				c := e.result.Repeats[i].Ranks[0].Clients[0]
				c.Stages[record.StageNames[1]] = *timingOf(10, 1350)
			}
		}, 0.357, "explain 135.7%"},
		{"counters", func(e *evidence) { e.result.Repeats[1].Ranks[1].Daemons[0].Proxy.Remote-- }, 1,
			"took 1000000 requests from clients, served 500000 of them and forwarded 499999"},
		{"counters", func(e *evidence) { e.result.Repeats[1].Ranks[1].Daemons[0].Requests++ }, 1, "it served 1000001 in all"},
		{"counters", func(e *evidence) {
			d := &e.result.Repeats[1].Ranks[1].Daemons[0] // the daemon's own counters agree
			d.Requests, d.Proxy.Incoming = d.Requests-200_000, d.Proxy.Incoming-200_000
		}, 0.1, "differ by up to 10.0%"},
	}
	covered := map[string]bool{}
	for _, group := range []struct {
		good  func(*testing.T) evidence
		cases []checkCase
	}{{good, cases}, {goodOpen, openCases}, {goodProxied, proxiedCases}} {
		for _, c := range group.cases {
			covered[c.check] = true
			t.Run(c.check, func(t *testing.T) {
				e := group.good(t)
				c.edit(&e)
				got := findCheck(t, e, c.check)
				require.False(t, got.OK, got.Message)
				require.InDelta(t, c.value, got.Value, 1e-3*max(1, c.value))
				require.Contains(t, got.Message, c.message)
				require.NotContains(t, got.Message, "\n")
			})
		}
	}
	for _, c := range checks {
		require.True(t, covered[c.name], "no case in which %s fails", c.name)
	}
}

// checkCase is an edit of a good run that makes a check fail.
type checkCase struct {
	check   string
	edit    func(*evidence)
	value   float64
	message string
}

func findCheck(t *testing.T, e evidence, name string) result.Check {
	t.Helper()
	for _, c := range runChecks(e) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s", name)
	return result.Check{}
}

// slopeOf replaces the slices of one window's clients.
func slopeOf(e *evidence, at func(slice int) uint64) {
	clients := e.result.Repeats[2].Ranks[1].Clients
	for i := range clients {
		for j := range clients[i].Slices {
			clients[i].Slices[j] = at(j)
		}
	}
}

func TestChecksThatDoNotApply(t *testing.T) {
	find := func(e evidence, name string) result.Check { return findCheck(t, e, name) }
	e := good(t)
	for i := range e.result.Repeats {
		e.result.Repeats[i].Before.Medium, e.result.Repeats[i].After.Medium = nil, nil
	}
	require.True(t, find(e, "floor_stable").OK)

	e = good(t)
	client(&e).Thread.Involuntary = 1e6
	e.result.Placement[0].Idle = config.IdleYield
	require.True(t, find(e, "involuntary_switches").OK)

	e = good(t)
	e.result.Config.VerifyEvery = 10
	client(&e).VerifiedSums = 50_000
	c := find(e, "verified")
	require.True(t, c.OK)
	require.Contains(t, c.Message, "checksums were sampled")
}

// A check that applies to some runs only reports "not judged" for the others.
func TestChecksThatAreNotJudged(t *testing.T) {
	for _, c := range []struct {
		check string
		good  func(*testing.T) evidence
		edit  func(*evidence)
		says  string
	}{
		{"rate", good, nil, "a closed loop has no schedule"},
		{"schedule_lag", good, nil, "a closed loop has no schedule"},
		{"littles_law", goodOpen, func(e *evidence) { client(e).MeanNS = 1e6 }, "an open loop has no fixed number"},
		{"schedule_lag", goodOpen, func(e *evidence) {
			for i := range e.result.Repeats {
				e.result.Repeats[i].Lag = ""
			}
		}, "no lag was sampled"},
		{"stages", good, func(e *evidence) {
			for i := range e.result.Repeats {
				for _, r := range e.result.Repeats[i].Ranks {
					for j := range r.Clients {
						r.Clients[j].Stages = nil
					}
				}
			}
		}, "no call has timed stages"},
		{"stages", goodProxied, func(e *evidence) {
			for i := range e.result.Repeats {
				for _, r := range e.result.Repeats[i].Ranks {
					r.Clients[0].Stages = nil
				}
			}
		}, "no call has timed stages"},
		{"drift", good, func(e *evidence) {
			for i := range e.result.Repeats {
				e.result.Repeats[i].Ranks[1].Clients[1].Slices = nil
			}
		}, "the windows have no slices"},
		{"loop_timing_cost", good, func(e *evidence) {
			for i := range e.result.Repeats {
				e.result.Repeats[i].Ranks[0].Daemons[0].PhaseEvery = 0
			}
		}, "no loop was timed"},
		{"warmup", good, func(e *evidence) { e.result.Setup.Warmup = nil }, "there was no warm-up"},
	} {
		e := c.good(t)
		if c.edit != nil {
			c.edit(&e)
		}
		got := findCheck(t, e, c.check)
		require.True(t, got.OK, c.check)
		require.Contains(t, got.Message, c.says)
		require.Contains(t, got.Message, "not judged")
	}
}

// In a run that failed in its first window, only the checks of completeness fail.
func TestChecksOfNoRepeat(t *testing.T) {
	for _, e := range []evidence{good(t), goodOpen(t), goodProxied(t)} {
		e.result.Repeats, e.result.Incomplete, e.result.IncompleteReason = nil, true, "failed after 0 of 6 repeats"
		for _, c := range runChecks(e) {
			require.Equal(t, c.Name != "complete" && c.Name != "verified" && c.Name != "interval", c.OK, "%s: %s", c.Name, c.Message)
		}
	}
}

func TestRateAllowsForCallsInFlight(t *testing.T) {
	e := goodOpen(t)
	e.result.Config.InFlight = 64
	for i := range e.result.Repeats {
		for j := range e.result.Repeats[i].Ranks[1].Clients {
			c := &e.result.Repeats[i].Ranks[1].Clients[j]
			// A short window: 1000 calls were due, and 30 completed after it.
			c.Open.Scheduled, c.Reads, c.Writes, c.Drained = 1000, 970, 0, 30
		}
	}
	require.True(t, checkRate(e).ok)
	client(&e).Drained = 0 // the others were never issued
	f := checkRate(e)
	require.False(t, f.ok)
	require.Contains(t, f.message, "use a lower --rate")
	client(&e).Reads, client(&e).Drained = 500, 1000 // more than can be in flight
	require.False(t, checkRate(e).ok)
}

func TestDriftAllowsForCountingNoise(t *testing.T) {
	e := good(t)
	slopeOf(&e, func(i int) uint64 { return 20 + uint64(i) }) // thirds of 270 and 438 operations
	e.sampleEvery = 1
	require.False(t, checkDrift(e).ok)
	e.sampleEvery = 100 // as many may have been counted in the next slice
	require.True(t, checkDrift(e).ok)
	slopeOf(&e, func(i int) uint64 { return uint64(i) % 7 })
	e.sampleEvery = 1
	require.True(t, checkDrift(e).ok)
}

func TestStagesAllowForSampling(t *testing.T) {
	e := goodProxied(t)
	slow := record.NewHistogram()
	for i := range 50 {
		slow.Record(1400)
		if i == 0 {
			slow.Record(100_000) // a thread that lost its processor
		}
	}
	text := slow.Encode()
	for i := range e.result.Repeats {
		for _, r := range e.result.Repeats[i].Ranks {
			r.Clients[0].Remote = &record.TimingReport{Histogram: text, MeanNS: slow.Mean(), Samples: slow.Count()}
		}
	}
	f := checkStages(e)
	require.Greater(t, f.value, f.limit)
	require.True(t, f.ok, f.message)
	require.Contains(t, f.message, "may be off by")
}

func TestCountersCountBothPartsOfReadModifyWrite(t *testing.T) {
	e := good(t)
	for i := range e.result.Repeats {
		c := &e.result.Repeats[i].Ranks[1].Clients[0]
		c.Operations = map[string]record.OperationReport{config.OpRMW: {Count: 300_000}}
	}
	require.False(t, checkCounters(e).ok)
	for i := range e.result.Repeats {
		e.result.Repeats[i].Ranks[0].Daemons[0].Requests += 300_000
	}
	require.True(t, checkCounters(e).ok)
}

func TestCountersAllowForWindowsApart(t *testing.T) {
	e := good(t)
	daemon(&e).Requests = 2_100_000 // 5%
	require.True(t, checkCounters(e).ok)
	e.result.Config.Duration = config.Duration(10 * time.Second)
	require.False(t, checkCounters(e).ok, "a long window leaves less room")
}

func TestCheckValuesAreJSON(t *testing.T) {
	require.Equal(t, math.MaxFloat64, representable(math.NaN()))
	require.Equal(t, math.MaxFloat64, representable(math.Inf(-1)))
	require.Equal(t, 2.5, representable(2.5))
}
