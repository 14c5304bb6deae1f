package runner

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/sample"
	"transportbench/core/lab/judge/check"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

type evidence = check.Evidence

// good is a run of six repeats of two clients that passes every check.
func good(t *testing.T) evidence {
	t.Helper()
	cfg := config.Default()
	cfg.Duration, cfg.ReadRatio = config.Duration(time.Second), 0.5
	r := &result.Result{
		Config:   cfg,
		Setup:    result.Setup{Warmup: &result.Warmup{LastedMS: 175, Ended: result.WarmupSteady}},
		Overhead: record.Overhead{PerOpNS: 10, ClientNS: 6, DaemonNS: 4, StampNS: 40},
		Placement: []result.Placement{
			{Rank: 0, CPUs: []int{0}, Affinity: []string{"0"}, Idle: config.IdleSpin},
			{Rank: 1, CPUs: []int{1, 2}, Affinity: []string{"1", "2"}, Idle: config.IdleSpin},
		},
	}
	for i := range 6 {
		repeat := result.Repeat{
			Index: i,
			Ranks: []record.Report{
				{Daemons: []record.DaemonReport{daemonReport(time.Second, 2_000_000, &cfg)}},
				{SampleEvery: 100, Clients: []record.ClientReport{clientReport(time.Second),
					clientReport(time.Second)}},
			},
			Before: readings(50, 100, 20, 250), After: readings(74, 129, 20, 250),
			Overhead: &record.Overhead{PerOpNS: 10, ClientNS: 6, DaemonNS: 4, StampNS: 40},
			Machine:  result.MachineTime{Processors: 3, CoveredNS: 1e9},
		}
		require.NoError(t, sample.Fill(cfg, &repeat))
		r.Repeats = append(r.Repeats, repeat)
	}
	return evidence{Result: r, Pollers: 3, CPUs: 4, Closing: []error{nil, nil}}
}

// client is one client of the third repeat, and daemon its daemon.
func client(e *evidence) *record.ClientReport { return &e.Result.Repeats[2].Ranks[1].Clients[1] }
func daemon(e *evidence) *record.DaemonReport { return &e.Result.Repeats[2].Ranks[0].Daemons[0] }

// goodOpen is the same with an open loop of 2 million op/s.
func goodOpen(t *testing.T) evidence {
	t.Helper()
	e := good(t)
	e.Result.Config.Rate = 2e6
	for i := range e.Result.Repeats {
		repeat := &e.Result.Repeats[i]
		for j := range repeat.Ranks[1].Clients {
			repeat.Ranks[1].Clients[j].Open = &record.OpenReport{
				Scheduled: 1_000_000, Response: *timingOf(100, 1100), Lag: *timingOf(100, 50),
			}
		}
		require.NoError(t, sample.Fill(e.Result.Config, repeat))
	}
	return e
}

// goodProxied is a proxied mesh of two ranks that passes every check.
func goodProxied(t *testing.T) evidence {
	t.Helper()
	e := good(t)
	cfg := &e.Result.Config
	cfg.Topology = config.TopologyMeshProxied
	for i := range e.Result.Repeats {
		repeat := &e.Result.Repeats[i]
		for j := range 2 {
			repeat.Ranks[j] = record.Report{
				Rank: j, SampleEvery: 100,
				Clients: []record.ClientReport{meshed(clientReport(time.Second), cfg)},
				Daemons: []record.DaemonReport{daemonReport(time.Second, 1_000_000, cfg)},
			}
		}
		require.NoError(t, sample.Fill(*cfg, repeat))
	}
	return e
}

// large makes the values of a run large, and its medium TCP.
func large(e *evidence) {
	e.Result.Config.ValueSize = config.FixedSize(64 << 10)
	e.Result.Setup.Ranks = []record.RankSetup{{Connections: 2, Paths: []transport.Path{
		{Carrier: transport.MediumTCP, Facts: map[string]string{record.FactConnections: "6"}},
		{Carrier: transport.MediumTCP, Facts: map[string]string{record.FactConnections: "2"}},
	}}}
}

func TestGoodRunPassesEveryCheck(t *testing.T) {
	for name, e := range map[string]evidence{"closed": good(t), "open": goodOpen(t),
		"proxied": goodProxied(t)} {
		for _, c := range check.Run(e) {
			require.True(t, c.OK, "%s: %s: %s", name, c.Name, c.Message)
			require.NotEmpty(t, c.Message)
		}
	}
}

func TestChecksFail(t *testing.T) {
	cases := []checkCase{
		{"verified", func(e *evidence) {
			client(e).Failures = map[string]uint64{"wrong-key": 2,
				"bad-checksum": 1}
		},
			3, "1 responses bad-checksum, 2 responses wrong-key"},
		{"verified", func(e *evidence) {
			client(e).Failures = map[string]uint64{"short": 3}
			client(e).VerifiedKeys -= 3
		}, 3, "3 responses short"},
		{"verified", func(e *evidence) { client(e).Lost = 4 }, 4,
			"4 calls unanswered long after the window: the transport lost them"},
		{"verified", func(e *evidence) { client(e).VerifiedKeys -= 5 }, 5,
			"5 responses not checked"},
		{"verified", func(e *evidence) { daemon(e).Rejected = 6 }, 6, "6 requests rejected"},
		{"verified", func(e *evidence) {
			daemon(e).Device = &record.DeviceReport{Values: 9,
				Verified: 3, Wrong: 2}
		}, 2, "2 values wrong in device memory"},
		{"verified", func(e *evidence) { daemon(e).Device = &record.DeviceReport{Values: 9} }, 9,
			"9 values in device memory of which none was copied back"},
		{"verified", func(e *evidence) { client(e).VerifiedSums-- }, 0, "checksums verified for"},
		{"verified", func(e *evidence) {
			e.Result.Config.VerifyEvery = 10
			client(
				e).VerifiedSums = 0
		}, 0, "checksums verified for"},
		{"verified", func(e *evidence) {
			sink(e)
			daemon(e).ChecksummedBytes = 0
		}, 2_000_000, "2000000 values sunk of which no checksum was verified"},
		{"verified", func(e *evidence) {
			each(e, func(r *result.Repeat) { r.Ranks[1].Clients = make([]record.ClientReport, 2) })
		}, 0, "no operation was completed"},
		{"stopped_early", func(e *evidence) { e.Result.Repeats[4].Ranks[0].Stopped = true }, 1,
			"1 windows ended"},
		{"served", func(e *evidence) { daemon(e).Served++ }, 1,
			"issued 12000000 requests and the daemons served 12000001"},
		{"served", func(e *evidence) { client(e).Issued += 1_200_000 }, 1_200_000,
			"1200000 were served twice or not at all, and throughput may be 9.1% off"},
		{"served", func(e *evidence) { // what one window has too much, another has too little
			e.Result.Repeats[0].Ranks[0].Daemons[0].Served += 2
			e.Result.Repeats[1].Ranks[0].Daemons[0].Served -= 2
		}, 4, "in the windows, 4 were"},
		{"clock", func(e *evidence) { each(e, func(r *result.Repeat) { stretch(r, 1.01) }) },
			0.0099, "the clock runs slow: by the kernel's clock, the windows were 0.99% longer"},
		{"clock", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Ranks[0].Daemons[0].Thread.ClockNS = 950e6
				for i := range r.Ranks[1].Clients {
					r.Ranks[1].Clients[i].Thread.ClockNS = 950e6
				}
			})
		}, 0.05, "the windows were 5% longer"},
		{"clock", func(e *evidence) { each(e, func(r *result.Repeat) { stretch(r, 0.99) }) },
			0.0101, "all times are that much too high"},
		{"window", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Ranks[0].Daemons[0].ElapsedNS, r.Ranks[0].Daemons[0].Thread.CPUNS = 1_300e6,
					1_300e6
			})
		}, 0.333, "33% of the threads' windows were over 5% longer or shorter than configured: " +
			"threads had no processor when their window ended, and throughput may be 10% off"},
		{"window", func(e *evidence) {
			each(e, func(r *result.Repeat) { r.Ranks[0].Daemons[0].ElapsedNS = 700e6 })
		}, 0.333, "longer or shorter"},
		{"mean", func(e *evidence) { each(e, func(r *result.Repeat) { sampledMean(r, 1040) }) },
			0.04, "the sampled calls were slower than the others: percentiles may be 4% high"},
		{"mean", func(e *evidence) { each(e, func(r *result.Repeat) { sampledMean(r, 800) }) }, 0.2,
			"percentiles may be 20% low"},
		{"mean", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Latency = ""
				for j := range r.Ranks[1].Clients {
					r.Ranks[1].Clients[j].Samples = 0
				}
			})
		}, 0, "no latency was sampled"},
		{"mean", func(e *evidence) { e.Result.Repeats[0].Latency = "rubbish" }, math.MaxFloat64,
			"decoding histogram"},
		{"ceiling", func(e *evidence) {
			large(e)
			each(e, func(r *result.Repeat) {
				r.Before.Medium, r.After.Medium = &transport.Floor{RoundTrip: 1e6},
					&transport.Floor{RoundTrip: 1e6}
			})
		}, 0.001, "in the slowest of 6 windows: not all were moved"},
		{"floor_beaten", func(e *evidence) {
			for i := range 2 {
				r := &e.Result.Repeats[i]
				r.Before.Medium, r.After.Medium = &transport.Floor{RoundTrip: 1250},
					&transport.Floor{RoundTrip: 1250}
			}
			each(e, func(*result.Repeat) {})
		}, 0.333, "in 2 of 6 windows the transport was faster than the floor of its medium, by " +
			"20% at most: the core distances show one state"},
		{"floor_beaten", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Before.Medium = &transport.Floor{RoundTrip: 2000}
				r.After.Medium, r.After.CoreDistance = &transport.Floor{RoundTrip: 2000}, 0
			})
		}, 1, "by 50% at most: the probes were disturbed, or saw another state"},
		{"floor_beaten", func(e *evidence) {
			e.Result.Config.InFlight = 2
			each(e, func(r *result.Repeat) {
				r.Before.Rate, r.After.Rate = &transport.Floor{PerOp: 1000},
					&transport.Floor{PerOp: 1000}
			})
		}, 1, "by 50% at most"},
		{"witness", func(e *evidence) { witnessed(e, 6, 1.6) }, 1,
			"beside 6 of 6 windows the readings of sockperf differ by over 1.5x"},
		{"sampling_cost", func(e *evidence) { sampleOneIn(e, 1) }, 0.04,
			"takes 4% of the clients' time, and throughput may be that much low"},
		{"probes", func(e *evidence) {
			e.Result.Repeats[1].After.Failures = []result.ProbeFailure{{
				Kind: transport.ProbeMedium, Caller: record.Thread{Rank: 1, Daemon: -1},
				Daemon: record.Thread{Client: -1},
				Times:  4, Error: errProbeLate.Error(), GivenUp: true,
			}}
		}, 1, "the medium probe between client 0 of rank 1 and daemon 0 of rank 0: it did not " +
			"end within 3s"},
		{"starved", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Remeasured = []result.Window{{Starved: "nothing was completed in 1s"}}
			})
		}, 0.5, "6 windows measured nothing and were measured again, and 0 remained (nothing was " +
			"completed in 1s); the others"},
		{"empty_windows", func(e *evidence) {
			e.Result.Repeats[2].Remeasured = []result.Window{{Empty: "nothing was completed in 1s"}}
		}, 1, "1 windows were empty and were measured again (nothing was completed in 1s): the " +
			"metrics leave them out"},
		{"traffic", func(e *evidence) {
			r := &e.Result.Repeats[2]
			r.Stalls = []result.Stall{{AtNS: 2e8, ForNS: r.Clients()[0].ElapsedNS / 2,
				Threads: []string{"client 0 of rank 1"}, Cause: result.CauseNoTraffic}}
			e.Result.Placement = []result.Placement{{Rank: 1, Host: "h2", CPUs: []int{0}}}
		}, 0.5, "from 200ms of window 3, no response came to client 0 of rank 1 on h2; " +
			"1 of 6 windows have such a stall"},
		{"mixed", func(e *evidence) {
			for i := range 2 {
				r := &e.Result.Repeats[i]
				r.Mixed, r.Remeasured = true, make([]result.Window, maxRemeasure)
				r.Samples[result.LatencyP50] = 5000
			}
			e.Result.Repeats[2].Samples[result.LatencyP50] = 1500
			e.Result.Repeats[3].Samples[result.LatencyP50] = 1500
		}, 0.333, "2 of 6 windows are mixed: the core distance changed by more " +
			"than 2x around them; 4 windows were measured again; without them p50 is 1.25 us " +
			"instead of 1.50 us"},
		{"disturbed_windows", func(e *evidence) {
			for i := range 2 {
				e.Result.Repeats[i].Ranks[1].Clients[1].Thread.CPUNS = 100e6 * uint64(i+1)
			}
		}, 0.333, "2 of 6 windows are disturbed, so tables leave them out: other programs " +
			"or the hypervisor had the processor of a polling thread for 90% of window 1"},
		{"steal",
			func(e *evidence) { each(e, func(r *result.Repeat) { r.Machine.StealNS = 60e6 }) },
			0.02, "for 2% of the time: throughput may be 2% low"},
		{"preempted", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Ranks[1].Clients[1].Thread.CPUNS,
					r.Ranks[1].Clients[1].Thread.Involuntary = 880e6, 30
			})
		}, 0.04, "for 4% of the time (10 switches a second): throughput may be 4% low, and the " +
			"tails include it; another program runs there"},
		{"preempted", func(e *evidence) {
			e.CPUs = e.Pollers
			each(e, func(r *result.Repeat) { r.Ranks[0].Daemons[0].Thread.CPUNS = 850e6 })
		}, 0.05, "no processor is left"},
		{"fairness", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Ranks[1].Clients[1].Reads, r.Ranks[1].Clients[1].Writes = 0, 100_000
			})
		}, 0.1 / 0.55, "0.18 of the median client's rate; latencies are those of the others"},
		{"storm", func(e *evidence) {
			e.Result.Config.Traffic = "storm:10"
			each(e, func(r *result.Repeat) {
				r.Ranks[1].Storm = &record.StormReport{Due: 10,
					Connections: 8}
			})
		}, 0.2, "48 of the 60 connections due were made and dropped; connecting takes longer " +
			"than the rate allows"},
		{"storm", func(e *evidence) {
			e.Result.Config.Traffic = "storm:10"
			e.Result.Repeats[0].Ranks[1].Storm = &record.StormReport{Due: 20, Connections: 19,
				Failed: 1, Error: "no device", Leaked: 2}
		}, 0.05, "19 of the 20 connections due were made and dropped; 1 failed: no device; they " +
			"left 2 descriptors behind"},
		{"relay", func(e *evidence) {
			e.Result.ImpairedBy = result.Relay
			each(e, func(r *result.Repeat) {
				r.Network = &result.NetworkCounters{BusyNS: r.Machine.CoveredNS -
					r.Machine.CoveredNS/10}
			})
		}, 0.9, "busy for 90% of the time: it limits throughput"},
		{"collections", func(e *evidence) { e.Result.Repeats[1].Ranks[1].Process.Collections = 3 },
			3, "ran 3 times in 1 windows"},
		{"oversubscribed", func(e *evidence) { e.Oversubscribed, e.Pollers = true, 17 }, 17,
			"17 polling threads have 4"},
		{"spare_processor", func(e *evidence) { e.CPUs = e.Pollers }, 0,
			"3 polling threads take all 3 processors"},
		{"virtual_machine", func(e *evidence) {
			e.Result.Environment.Identity.Virtualisation = "kvm"
		}, 1, "a virtual machine (kvm)"},
		{"pinned", func(e *evidence) { e.Result.Placement[1].Affinity[1] = "0-3" }, 1,
			"1 of 3 polling threads are not pinned"},
		{"pinned", func(e *evidence) { e.Result.Placement[1].Affinity = nil }, 2, "2 of 3"},
		{"pinned", func(e *evidence) {
			e.Result.Config.Pin = false
			e.Result.Placement[0].CPUs, e.Result.Placement[1].CPUs = []int{-1}, []int{-1, -1}
		}, 3, "not pinned, as configured"},
		{"machines", func(e *evidence) {
			e.Result.Hosts = []result.Host{{Name: "h0", Machine: "a"}, {Name: "h1", Machine: "b"},
				{Name: "h2", Machine: "a"}}
		}, 2, "3 hosts on 2 machines: h0, h2 share one"},
		{"machines", func(e *evidence) {
			e.Result.Hosts = []result.Host{{Name: "h0", Machine: "a"}, {Name: "h1", Machine: "b"}}
			e.Result.Hosts[1].Environment.Identity.Kernel = "7.1"
		}, 2, "the hosts differ, so the slower one decides: kernel  on h0 and 7.1 on h1"},
		{"closed",
			func(e *evidence) { e.Closing = []error{nil, errors.New("rank 1: close: stuck")} }, 1,
			"rank 1: close: stuck"},
		{"strangers", func(e *evidence) {
			client(e).Transport = []transport.Stat{
				{Name: "strangers", Means: transport.MeansStranger, Value: 20_000},
				{Name: "forged", Means: transport.MeansStranger, Value: 4_000}}
		}, 0.002, "24000 packets or connections of strangers came"},
		{"interval", func(e *evidence) { e.Result.Repeats = e.Result.Repeats[:5] }, 5,
			"use --repeats 6 or more"},
		{"interval", func(e *evidence) { e.Result.Config.Launches = 1 }, 6,
			"within one process start (--launches 1)"},
		{"complete", func(e *evidence) {
			e.Result.Incomplete, e.Result.IncompleteReason = true,
				"failed after 6 of 10 repeats: rank 1: run: broken"
		}, 6, "rank 1: run: broken"},
		{"drift", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				slope(r, func(i int) uint64 { return 45_000 + 500*uint64(i) })
			})
		}, 0.1315, "rises by 13% within a window, so throughput is about 6.6% low"},
		{"drift", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				slope(r, func(i int) uint64 { return 100_000 - 2000*uint64(i) })
			})
		}, -0.294, "falls by 29%"},
		{"loop_timing_cost", func(e *evidence) {
			each(e, func(r *result.Repeat) { r.Ranks[0].Daemons[0].PhaseNS = 330 })
		}, 0.0206,
			"one in 64 loops takes 2.1% of the daemons' time, and throughput may be that much low"},
		{"warmup", func(e *evidence) {
			e.Result.Config.Warmup = config.Duration(time.Second)
			e.Result.Setup.Warmup = &result.Warmup{LastedMS: 1002, Ended: result.WarmupLimit}
		}, 1, "in 1 of 1 process starts, the throughput was not steady within 1s"},
	}
	cases = append(cases, checkCase{"stages", func(e *evidence) {
		for i := range e.Result.Repeats {
			for _, c := range e.Result.Repeats[i].Clients() {
				c.Stages[record.StageServe] = *timingOf(10, 66)
			}
		}
	}, 0.104, "explain 89.6% of the mean service time of calls"})
	openCases := []checkCase{
		{"rate", func(e *evidence) {
			each(e, func(r *result.Repeat) { r.Ranks[1].Clients[0].Reads -= 20_010 })
		}, 1, "in 6 of 6 windows, down to 99% of the operations due were completed"},
		{"schedule_lag", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Ranks[1].Clients[0].Open.Lag = *timingOf(
					400, 5500)
			})
		}, 5500, "response_p50 may be up to 5.5 us (100%) high, and response_p99 without stalls " +
			"may be up to 5.5 us (100%) high, because the client's thread was busy or asleep"},
		{"schedule_lag", func(e *evidence) {
			e.Oversubscribed = true
			each(e, func(r *result.Repeat) {
				r.Ranks[1].Clients[0].Open.Lag = *timingOf(
					100, 9000)
			})
		}, 9000, "threads share processors"},
	}
	proxiedCases := []checkCase{
		{"stages", func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Ranks[0].Clients[0].Stages[record.StageNames[1]] = *timingOf(10, 1350)
			})
		}, 0.357, "explain 135.7%"},
		{"served", func(e *evidence) { e.Result.Repeats[1].Ranks[1].Daemons[0].Proxy.Remote-- }, 1,
			"took 1000000 requests from clients, 500000 for its rank, and forwarded 499999"},
		{"served", func(e *evidence) { e.Result.Repeats[1].Ranks[1].Daemons[0].Requests++ }, 1,
			"and served 1000001 in all"},
		{"served", func(e *evidence) {
			e.Result.Repeats[1].Ranks[1].Daemons[0].Delegation = &record.DelegationReport{Sent: 7,
				Served: 6}
		}, 1, "it had 500000 of other ranks and 6 of other daemons, passed 7 on to those"},
		{"served", func(e *evidence) { e.Result.Repeats[1].Ranks[1].Daemons[0].Served-- }, 1,
			"served twice or not at all"},
	}
	covered, run := map[string]bool{}, map[string]bool{}
	for _, group := range []struct {
		good  func(*testing.T) evidence
		cases []checkCase
	}{{good, cases}, {good, pathCases}, {goodOpen, openCases}, {goodProxied, proxiedCases}} {
		for _, c := range group.cases {
			covered[c.check] = true
			t.Run(c.check, func(t *testing.T) {
				e := group.good(t)
				c.edit(&e)
				for _, one := range check.Run(e) {
					run[one.Name] = true
				}
				got := findCheck(t, e, c.check)
				require.False(t, got.OK, got.Message)
				require.InDelta(t, c.value, got.Value, 1e-3*max(1, math.Abs(c.value)))
				require.Contains(t, got.Message, c.message)
				require.NotContains(t, got.Message, "\n")
				require.Contains(t, got.Message, got.Effect)
				require.Contains(t, got.Message, got.Remedy)
			})
		}
	}
	for name := range run {
		require.True(t, covered[name], "no case in which %s fails", name)
	}
}

// A finding has its effect on the figures and the remedy as data.
func TestFindingsAreData(t *testing.T) {
	e := good(t)
	sampleOneIn(&e, 1)
	f := findCheck(t, e, "sampling_cost")
	require.Equal(t, "throughput may be that much low", f.Effect)
	require.Equal(t, "use a higher --sample-every", f.Remedy)
	f = findCheck(t, good(t), "sampling_cost")
	require.Empty(t, f.Effect+f.Remedy)
}

// checkCase is an edit of a good run that makes a check fail.
type checkCase struct {
	check   string
	edit    func(*evidence)
	value   float64
	message string
}

func findCheck(t *testing.T, e evidence, name string) result.Finding {
	t.Helper()
	for _, c := range check.Run(e) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s", name)
	return result.Finding{}
}

// each edits every repeat of a run and computes its samples anew.
func each(e *evidence, edit func(*result.Repeat)) {
	for i := range e.Result.Repeats {
		r := &e.Result.Repeats[i]
		edit(r)
		_ = sample.Fill(e.Result.Config, r) // some edits make histograms unreadable
	}
}

// sink makes a run one of the sink, whose daemons verified one value in ten.
func sink(e *evidence) {
	e.Result.Config.Service, e.Result.Config.VerifyEvery = config.ServiceSink, 10
	for i := range e.Result.Repeats {
		for j := range e.Result.Repeats[i].Ranks[1].Clients {
			c := &e.Result.Repeats[i].Ranks[1].Clients[j]
			c.Writes, c.Reads, c.VerifiedSums = c.Ops(), 0, 0
		}
		e.Result.Repeats[i].Ranks[0].Daemons[0].ChecksummedBytes = 6_400_000
	}
}

// sampleOneIn sets the latency sampling of all windows.
func sampleOneIn(e *evidence, n int) {
	for i := range e.Result.Repeats {
		e.Result.Repeats[i].Ranks[1].SampleEvery = n
	}
}

// slope replaces the slices of a window's clients.
func slope(r *result.Repeat, at func(slice int) uint64) {
	for i := range r.Ranks[1].Clients {
		c := &r.Ranks[1].Clients[i]
		c.Slices = slices.Clone(c.Slices)
		for j := range c.Slices {
			c.Slices[j] = at(j)
		}
	}
}

// slopeOf replaces the slices of all clients.
func slopeOf(e *evidence, at func(slice int) uint64) {
	for i := range e.Result.Repeats {
		slope(&e.Result.Repeats[i], at)
	}
}

// stretch sets the windows' length by the kernel's clock to a multiple of the measured one.
func stretch(r *result.Repeat, by float64) {
	for i := range r.Ranks {
		for j := range r.Ranks[i].Clients {
			r.Ranks[i].Clients[j].Thread.MonotonicNS = uint64(
				by * float64(r.Ranks[i].Clients[j].ElapsedNS))
		}
		for j := range r.Ranks[i].Daemons {
			r.Ranks[i].Daemons[j].Thread.MonotonicNS = uint64(
				by * float64(r.Ranks[i].Daemons[j].ElapsedNS))
		}
	}
}

// sampledMean sets the mean of the sampled latencies; the exact one is 1000 ns.
func sampledMean(r *result.Repeat, ns float64) {
	for i := range r.Ranks[1].Clients {
		r.Ranks[1].Clients[i].MeanNS = ns
	}
}

// witnessed gives every window readings of a witness, of which those beside the first n differ by a
// ratio.
func witnessed(e *evidence, n int, ratio float64) {
	e.Result.Witness = &result.Witness{Tool: "sockperf"}
	for i := range e.Result.Repeats {
		r := &e.Result.Repeats[i]
		r.Before.Witness, r.After.Witness = &transport.Floor{RoundTrip: 1000},
			&transport.Floor{RoundTrip: 1400}
		if i < n {
			r.After.Witness.RoundTrip = 1000 * ratio
		}
	}
}

// One bad window of six is no reason to warn about the medians.
func TestChecksAllowForOneWindow(t *testing.T) {
	for check, edit := range map[string]func(*evidence){
		"mean": func(e *evidence) { sampledMean(&e.Result.Repeats[2], 5000) },
		"drift": func(e *evidence) {
			slope(&e.Result.Repeats[2],
				func(i int) uint64 { return 1000 * uint64(i) })
		},
		"ceiling": func(e *evidence) {
			large(e)
			// of 4 sockets
			each(e, func(r *result.Repeat) {
				r.Samples[result.LatencyMean] = 0.13 * r.Samples[result.Floor]
			})
			e.Result.Repeats[2].Samples[result.LatencyMean] = 1
		},
		"floor_beaten": func(e *evidence) {
			e.Result.Repeats = slices.Concat(e.Result.Repeats, good(t).Result.Repeats)
			e.Result.Repeats[2].Samples[result.FloorRatio] = 0.9
		},
		"witness": func(e *evidence) {
			e.Result.Repeats = slices.Concat(e.Result.Repeats, good(t).Result.Repeats)
			witnessed(e, 1, 1.6)
		},
		"mixed": func(e *evidence) { e.Result.Repeats[2].Mixed = true },
		// A disturbed window has a check of its own.
		"preempted":         func(e *evidence) { client(e).Thread.CPUNS = 100e6 },
		"disturbed_windows": func(e *evidence) { client(e).Thread.CPUNS = 100e6 },
		"steal":             func(e *evidence) { e.Result.Repeats[2].Samples[result.Steal] = 0.05 },
		"fairness": func(e *evidence) {
			client(e).Reads, client(e).Writes = 0, 100_000
			each(e, func(*result.Repeat) {})
		},
		"window": func(e *evidence) { daemon(e).ElapsedNS = 1_300e6 },
		"clock":  func(e *evidence) { daemon(e).Thread.MonotonicNS = 1_500e6 },
	} {
		e := good(t)
		edit(&e)
		c := findCheck(t, e, check)
		require.True(t, c.OK, "%s: %s", check, c.Message)
	}
}

// Stolen time counts from three ticks of the kernel's accounting and half of the interval of the
// throughput.
func TestStealBeyondNoise(t *testing.T) {
	e := good(t)
	each(&e, func(r *result.Repeat) { r.Machine.StealNS = 60e6 })
	require.False(t, findCheck(t, e, "steal").OK)
	for i := range e.Result.Repeats {
		e.Result.Repeats[i].Samples[result.Throughput] *= 1 + float64(i%2)/10
	}
	c := findCheck(t, e, "steal")
	require.True(t, c.OK, c.Message)
	require.InDelta(t, 0.0476, c.Limit, 1e-3)

	// Steal that makes the throughput scatter is no excuse for itself.
	e = good(t)
	for i := range e.Result.Repeats {
		r := &e.Result.Repeats[i]
		share := 0.08 * float64(i%2)
		r.Machine.StealNS = 60e6
		r.Samples[result.Steal] = share
		r.Samples[result.Throughput] *= 1 - share
	}
	c = findCheck(t, e, "steal")
	require.False(t, c.OK, c.Message)
	require.InDelta(t, 0.01, c.Limit, 1e-6)

	for stolen, ok := range map[uint64]bool{20e6: true, 30e6: false} {
		e = good(t)
		e.Result.Repeats[0].Machine.StealNS = stolen
		for i := range e.Result.Repeats {
			e.Result.Repeats[i].Samples[result.Steal] = 0.03
		}
		require.Equal(t, ok, findCheck(t, e, "steal").OK, stolen)
	}
}

// One disturbance gives one warning: threads without their processors also make windows overlong
// and rates drift. Steal is not counted twice either.
func TestOneCauseOneWarning(t *testing.T) {
	failed := func(e evidence) (names []string) {
		for _, c := range check.Run(e) {
			if !c.OK {
				names = append(names, c.Name)
			}
		}
		return names
	}
	e := good(t)
	each(&e, func(r *result.Repeat) {
		r.Ranks[0].Daemons[0].ElapsedNS, r.Ranks[0].Daemons[0].Thread.MonotonicNS = 1_300e6, 1_300e6
		slope(r, func(i int) uint64 { return 100_000 - 2000*uint64(i) })
	})
	e.Result.Setup.Warmup.Ended = result.WarmupLimit
	require.Equal(t, []string{"preempted"}, failed(e))
	c := findCheck(t, e, "drift")
	require.Contains(t, c.Message, "not judged: preempted explains it: the rate falls by")

	e = good(t)
	each(&e, func(r *result.Repeat) {
		r.Machine.StealNS = 150e6 // 5% of three processors
		for i := range r.Ranks[1].Clients {
			r.Ranks[1].Clients[i].Thread.CPUNS = 940e6
		}
		r.Ranks[0].Daemons[0].Thread.CPUNS = 940e6
	})
	require.Equal(t, []string{"steal"}, failed(e))
}

// The mean of few latencies that vary much may deviate by chance.
func TestMeanAllowsForSampling(t *testing.T) {
	e := good(t)
	wide := record.NewHistogram()
	for i := range uint64(50) {
		wide.Record(100 + 100*i)
	}
	text := wide.Encode()
	each(&e, func(r *result.Repeat) {
		for i := range r.Ranks[1].Clients {
			r.Ranks[1].Clients[i].Latency, r.Ranks[1].Clients[i].Samples = text, 50
		}
		sampledMean(r, 1080)
	})
	f := findCheck(t, e, "mean")
	require.True(t, f.OK, f.Message)
	require.Greater(t, f.Value, f.Limit)
	require.Contains(t, f.Message, "may be chance")

	// A deviation of 12% misleads even if it is chance.
	each(&e, func(r *result.Repeat) { sampledMean(r, 1120) })
	require.False(t, findCheck(t, e, "mean").OK)

	// The median over six windows is known better than one window: 9% over the square root of 6.
	narrow := record.NewHistogram()
	for i := range uint64(50) {
		narrow.Record(480 + 21*i)
	}
	text = narrow.Encode()
	each(&e, func(r *result.Repeat) {
		for i := range r.Ranks[1].Clients {
			r.Ranks[1].Clients[i].Latency = text
		}
		sampledMean(r, 1060)
	})
	require.False(t, findCheck(t, e, "mean").OK)
	e.Result.Repeats = e.Result.Repeats[:1]
	require.True(t, findCheck(t, e, "mean").OK)
}

// A sink verifies values by its daemons. Of few, and of empty ones, none may be due.
func TestVerifiedSink(t *testing.T) {
	e := good(t)
	sink(&e)
	require.True(t, findCheck(t, e, "verified").OK)
	for _, edit := range []func(*evidence){
		func(e *evidence) { e.Result.Config.VerifyEvery = 20_000 },
		func(e *evidence) { e.Result.Config.ValueSize = config.FixedSize(0) },
		func(e *evidence) { daemon(e).Device = &record.DeviceReport{Values: 9, Verified: 3} },
	} {
		e := good(t)
		sink(&e)
		daemon(&e).ChecksummedBytes = 0
		edit(&e)
		f := findCheck(t, e, "verified")
		require.True(t, f.OK, f.Message)
	}
}

func TestChecksThatDoNotApply(t *testing.T) {
	find := func(e evidence, name string) result.Finding { return findCheck(t, e, name) }
	e := good(t)
	e.Result.Config.VerifyEvery = 10
	client(&e).VerifiedSums = 50_000
	c := find(e, "verified")
	require.True(t, c.OK)
	require.Contains(t, c.Message, "checksums were sampled")

	for i := range e.Result.Repeats {
		for _, r := range e.Result.Repeats[i].Ranks {
			for j := range r.Clients {
				r.Clients[j].Reads, r.Clients[j].Writes = 0, r.Clients[j].Reads+r.Clients[j].Writes
			}
		}
	}
	c = find(e, "verified")
	require.True(t, c.OK)
	require.Contains(t, c.Message, "daemons verified one value in 10 in full")
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
		{"mean", goodOpen, func(e *evidence) {
			each(e, func(r *result.Repeat) { r.Ranks[1].Clients[0].InFlightNS = 0 })
		}, "the exact mean is not known"},
		{"clock", good, func(e *evidence) { each(e, func(r *result.Repeat) { stretch(r, 0) }) },
			"timed by one clock only"},
		{"floor_beaten", good, func(e *evidence) {
			each(e, func(r *result.Repeat) { r.Before.Medium, r.Before.Rate = nil, nil })
		}, "no floor was measured"},
		{"floor_beaten", good, func(e *evidence) {
			each(e, func(r *result.Repeat) { r.Before.Medium, r.Before.Rate.PerOp = nil, 1e6 })
		}, "the floor of a round trip was not measured"},
		{"floor_beaten", good, func(e *evidence) {
			e.Result.Config.InFlight = 2
			each(e, func(r *result.Repeat) { r.Before.Rate, r.After.Rate = nil, nil })
		}, "the rate floor was not measured, and the floor of a round trip does not compare with " +
			"several calls in flight"},
		{"floor_beaten", goodOpen, func(e *evidence) {
			e.Result.Config.InFlight = 2
			each(e, func(*result.Repeat) {})
		}, "an open loop takes as long for an operation as its schedule says"},
		{"witness", good, func(e *evidence) { e.Result.Witness = new(result.Witness) },
			"has no readings"},
		{"floor_beaten", goodProxied, nil, "do not cross the medium"},
		{"floor_beaten", good, func(e *evidence) { e.Result.Config.Network = "loss=1%" },
			"at random"},
		{"ceiling", good, nil, "values below 64KiB"},
		{"ceiling", good, func(e *evidence) {
			large(e)
			e.Result.Setup.Ranks[0].Paths[0].Carrier = transport.MediumMemory
		}, "values need not move in memory"},
		{"steal", good, func(e *evidence) {
			each(e, func(r *result.Repeat) { r.Machine.Processors = 0 })
		}, "does not report"},
		{"mixed", good, func(e *evidence) {
			each(e, func(r *result.Repeat) { r.After.CoreDistance = 0 })
		}, "was not measured"},
		{"preempted", good, func(e *evidence) {
			client(e).Thread.CPUNS = 1
			e.Result.Placement[0].Idle = config.IdleYield
		}, "the threads yield"},
		{"served", good, func(e *evidence) {
			each(e, func(r *result.Repeat) {
				r.Ranks[0].Daemons[0].Served, r.Ranks[1].Clients[0].Issued,
					r.Ranks[1].Clients[1].Issued = 0, 0, 0
			})
		}, "no request was issued"},
		{"schedule_lag", goodOpen, func(e *evidence) {
			for i := range e.Result.Repeats {
				e.Result.Repeats[i].Lag = ""
			}
		}, "no lag was sampled"},
		{"stages", good, func(e *evidence) {
			for i := range e.Result.Repeats {
				for _, r := range e.Result.Repeats[i].Ranks {
					for j := range r.Clients {
						r.Clients[j].Stages = nil
					}
				}
			}
		}, "no call has timed stages"},
		{"stages", goodProxied, func(e *evidence) {
			for i := range e.Result.Repeats {
				for _, r := range e.Result.Repeats[i].Ranks {
					r.Clients[0].Stages = nil
				}
			}
		}, "no call has timed stages"},
		{"drift", good, func(e *evidence) {
			for i := range e.Result.Repeats {
				e.Result.Repeats[i].Ranks[1].Clients[1].Slices = nil
			}
		}, "the windows have no slices"},
		{"loop_timing_cost", good, func(e *evidence) {
			for i := range e.Result.Repeats {
				e.Result.Repeats[i].Ranks[0].Daemons[0].PhaseEvery = 0
			}
		}, "no loop was timed"},
		{"warmup", good, func(e *evidence) { e.Result.Setup.Warmup = nil }, "there was no warm-up"},
	} {
		e := c.good(t)
		if c.edit != nil {
			c.edit(&e)
		}
		got := findCheck(t, e, c.check)
		require.True(t, got.OK && got.NotJudged, c.check)
		require.Contains(t, got.Message, c.says)
		require.Contains(t, got.Message, "not judged")
	}
}

// In a run that failed in its first window, only the checks of completeness fail.
func TestChecksOfNoRepeat(t *testing.T) {
	for _, e := range []evidence{good(t), goodOpen(t), goodProxied(t)} {
		e.Result.Repeats, e.Result.Incomplete, e.Result.IncompleteReason = nil, true,
			"failed after 0 of 6 repeats"
		for _, c := range check.Run(e) {
			require.Equal(t, c.Name != "complete" && c.Name != "verified" && c.Name != "interval",
				c.OK, "%s: %s", c.Name, c.Message)
		}
	}
}

func TestRateAllowsForCallsInFlight(t *testing.T) {
	e := goodOpen(t)
	e.Result.Config.InFlight = 64
	for i := range e.Result.Repeats {
		for j := range e.Result.Repeats[i].Ranks[1].Clients {
			c := &e.Result.Repeats[i].Ranks[1].Clients[j]
			// A short window: 1000 calls were due, and 30 completed after it.
			c.Open.Scheduled, c.Reads, c.Writes, c.Drained = 1000, 970, 0, 30
		}
	}
	require.True(t, findCheck(t, e, "rate").OK)
	// the others were never issued
	each(&e, func(r *result.Repeat) { r.Ranks[1].Clients[0].Drained = 0 })
	f := findCheck(t, e, "rate")
	require.False(t, f.OK)
	require.Contains(t, f.Message, "use a lower --rate")
	// more than can be in flight
	each(&e, func(r *result.Repeat) {
		r.Ranks[1].Clients[0].Reads, r.Ranks[1].Clients[0].Drained = 500, 1000
	})
	f = findCheck(t, e, "rate")
	require.False(t, f.OK)
	require.NotContains(t, f.Remedy, "other programs")
	each(&e, func(r *result.Repeat) { r.Ranks[0].Daemons[0].Thread.CPUNS = 400e6 })
	require.Contains(t, findCheck(t, e, "rate").Remedy, "stop other programs, which took")
}

// TestRateByWindows has windows that fall behind: some warn, and half of them are an error.
func TestRateByWindows(t *testing.T) {
	for behind, want := range []struct {
		ok       bool
		severity result.Severity
		message  string
	}{
		{true, "", "the load was kept: in each window"},
		{false, result.Warning, "in 1 of 6 windows the load was not kept (at least 67% of"},
		{false, result.Warning, "in 2 of 6 windows the load was not kept"},
		{false, result.Error, "the load was not kept: in 3 of 6 windows, down to 67%"},
		{false, result.Error, "in 4 of 6 windows"},
	} {
		e := goodOpen(t)
		require.Len(t, e.Result.Repeats, 6)
		for i := range behind {
			c := &e.Result.Repeats[i].Ranks[1].Clients[0]
			c.Open.Scheduled = 2 * (c.Ops() + c.Drained + c.Lost + 1)
		}
		f := findCheck(t, e, "rate")
		require.Equal(t, want.ok, f.OK)
		require.Contains(t, f.Message, want.message)
		require.InDelta(t, float64(behind)/6, f.Value, 1e-9)
		for _, check := range check.Run(e) {
			if check.Name == "rate" && !want.ok {
				require.Equal(t, want.severity, check.Severity)
			}
		}
	}
}

// TestScheduleLag has operations that started late, beside response times with a median of 10 us
// and a p99 of 100 us. Each is compared with its like.
func TestScheduleLag(t *testing.T) {
	of := func(n, p50, tail uint64) string { // 3% are in the tail
		h := record.NewHistogram()
		for i := range n {
			if i < 3*n/100 {
				h.Record(tail)
			} else {
				h.Record(p50)
			}
		}
		return h.Encode()
	}
	for _, c := range []struct {
		name             string
		median, tail     uint64 // lag
		stalled          float64
		busy             uint64 // ns of a client's working iteration
		ok               bool
		says, doesNotSay string
	}{
		{"clean", 90, 200, 0, 500, true, "0.9% and 0.2% of such response times", "may be"},
		{"moves p50", 2000, 2000, 0, 500, false, "response_p50 may be up to 2 us (20%) high",
			"response_p99"},
		{"moves p99", 90, 20_000, 0, 500, false,
			"response_p99 without stalls may be up to 20 us (20%) high", "response_p50"},
		{"in stalls", 90, 80_000, 0.04, 500, true, "as stalls took 4% of the time", "may be"},
		{"in part in stalls", 90, 80_000, 0.01, 500, false, "response_p99", "response_p50"},
		{"waits for the iteration", 2000, 20_000, 0, 8000, true,
			"half of the operations started within 2 us", "may be"},
		{"iterations as long as responses", 9990, 9990, 0, 20_000, false,
			"response_p50 may be up to 9.99 us (100%) high", "response_p99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := goodOpen(t)
			each(&e, func(r *result.Repeat) {
				for i := range r.Ranks[1].Clients {
					client := &r.Ranks[1].Clients[i]
					client.Polls, client.EmptyPolls, client.BusyNS = 1000, 500, 500*c.busy
					client.Thread.GapLimitNS, client.Thread.GapNS = 20_000,
						uint64(c.stalled*float64(client.ElapsedNS))
				}
				for i := range r.Ranks[0].Daemons {
					r.Ranks[0].Daemons[i].Thread.GapLimitNS = 20_000
				}
			})
			for i := range e.Result.Repeats {
				r := &e.Result.Repeats[i]
				r.Lag, r.Response = of(1000, c.median, c.tail), of(1000, 10_000, 100_000)
			}
			f := findCheck(t, e, "schedule_lag")
			require.Equal(t, c.ok, f.OK, f.Message)
			require.Equal(t, c.ok, f.Value <= f.Limit, "%g, limit %g", f.Value, f.Limit)
			require.Contains(t, f.Message, c.says)
			require.NotContains(t, f.Message, c.doesNotSay)
		})
	}
}

func TestDriftAllowsForCountingNoise(t *testing.T) {
	e := good(t)
	slopeOf(&e, func(i int) uint64 { return 20 + uint64(i) }) // thirds of 270 and 438 operations
	sampleOneIn(&e, 1)
	require.False(t, findCheck(t, e, "drift").OK)
	sampleOneIn(&e, 100) // as many may have been counted in the next slice
	require.True(t, findCheck(t, e, "drift").OK)
	slopeOf(&e, func(i int) uint64 { return uint64(i) % 7 })
	sampleOneIn(&e, 1)
	require.True(t, findCheck(t, e, "drift").OK)
}

// Each launch chooses its own sampling, so that of one does not count for the operations of others.
func TestSamplingOfEachWindow(t *testing.T) {
	e := good(t)
	e.Result.Repeats[0].Ranks[1].SampleEvery = 1 // 4% of this window's time, 0.7% of all
	c := findCheck(t, e, "sampling_cost")
	require.True(t, c.OK, c.Message)
	require.InEpsilon(t, 0.04/6+0.0004*5/6, c.Value, 1e-3)
	require.Contains(t, c.Message, "one in 1 to 100 operations")

	slopeOf(&e, func(i int) uint64 { return 20 + uint64(i) }) // thirds of 270 and 438 operations
	require.True(t, findCheck(t, e, "drift").OK,
		"five of six windows may have counted as many in the next slice")
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
	for i := range e.Result.Repeats {
		for _, r := range e.Result.Repeats[i].Ranks {
			r.Clients[0].Remote = &record.TimingReport{Histogram: text, MeanNS: slow.Mean(),
				Samples: slow.Count()}
		}
	}
	f := findCheck(t, e, "stages")
	require.Greater(t, f.Value, f.Limit)
	require.True(t, f.OK, f.Message)
	require.Contains(t, f.Message, "may be off by")
}

// TestStagesBesideHeldCalls has calls of 1 us and few of 1 ms, which make two thirds of the mean.
// The stages are judged beside the others, open loop or not.
func TestStagesBesideHeldCalls(t *testing.T) {
	for stage, ok := range map[uint64]bool{166: true, 133: false} {
		for name, e := range map[string]evidence{"closed": good(t), "open": goodOpen(t)} {
			h := record.NewHistogram()
			for i := range 500 {
				h.Record(1000 + 999_000*uint64(i/499))
			}
			each(&e, func(r *result.Repeat) {
				for i := range r.Ranks[1].Clients {
					c := &r.Ranks[1].Clients[i]
					c.Latency, c.MeanNS, c.InFlightNS = h.Encode(), h.Mean(), 3*c.InFlightNS
					c.Thread.GapLimitNS = 20_000
					for _, name := range record.DirectStages {
						c.Stages[name] = *timingOf(10, stage)
					}
				}
			})
			f := findCheck(t, e, "stages")
			require.Equal(t, ok, f.OK, "%s: %s", name, f.Message)
			require.InDelta(t, 1-6*float64(stage)/1000, f.Value, 2e-3, name)
			require.Contains(t, f.Message, "without those of over 25 us, which add 200% to it")
		}
	}
}

// Stamps that slow sampled calls by a lot in most windows make the stages doubtful; in one window
// the sample may have caught slow calls.
func TestStagesOfSlowedCalls(t *testing.T) {
	for slow, want := range map[uint64]struct {
		windows int
		ok      bool
	}{
		200: {10, true}, // 20%
		230: {10, false},
		300: {1, true},
	} {
		e := good(t)
		require.GreaterOrEqual(t, len(e.Result.Repeats), 3)
		for i := range min(want.windows, len(e.Result.Repeats)) {
			for _, c := range e.Result.Repeats[i].Clients() {
				for _, name := range record.DirectStages {
					c.Stages[name] = *timingOf(10, slow)
				}
			}
		}
		f := findCheck(t, e, "stages")
		require.Equal(t, want.ok, f.OK, f.Message)
		if !want.ok {
			require.Contains(t, f.Message, "in half of the windows the stamps slow sampled calls "+
				"by 38% or more, which is left out, but more than 25% need not be alike")
		}
	}
}

// Threads that lost their processor before or after a window make no fault of the clock.
func TestClockOfStarvedThreads(t *testing.T) {
	e := good(t)
	each(&e, func(r *result.Repeat) {
		stretch(r, 1.15)
		for i := range r.Ranks {
			for j := range r.Ranks[i].Clients {
				r.Ranks[i].Clients[j].Thread.ClockNS = r.Ranks[i].Clients[j].Thread.MonotonicNS
			}
			for j := range r.Ranks[i].Daemons {
				r.Ranks[i].Daemons[j].Thread.ClockNS = r.Ranks[i].Daemons[j].Thread.MonotonicNS
			}
		}
	})
	require.True(t, findCheck(t, e, "clock").OK)
}

// The time of an operation of an open loop is that of its schedule.
func TestOpenLoopHasNoRatioOfTimes(t *testing.T) {
	for _, rate := range []config.Rate{0, 1e6, config.RateMax} {
		e := good(t)
		e.Result.Config.Rate, e.Result.Config.InFlight = rate, 8
		r := &e.Result.Repeats[0]
		require.NoError(t, sample.Fill(e.Result.Config, r))
		require.Contains(t, r.Samples, result.RateFloor)
		_, has := r.Samples[result.OpTimeRatio]
		require.Equal(t, rate != 1e6, has)
	}
}
