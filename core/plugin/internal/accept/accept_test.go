package accept_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/plugin/internal/accept"
	"transportbench/core/transport"
)

func TestHonestRanksPass(t *testing.T) {
	for name, edit := range map[string]func(*config.Config){"direct": nil, "proxied": proxied,
		"open loop": openLoop, "mixed": mixed, "classes": classes} {
		t.Run(name, func(t *testing.T) {
			h := honestRank(plan(edit))
			for i := range h.Report.Clients {
				h.Report.Clients[i].Thread.Sharing = len(h.Report.Clients)
			}
			report, err := drive(h.plugin().connect(t), h.Plan, transport.ProbeMedium)
			require.NoError(t, err)
			require.Equal(t, h.Report, report)
		})
	}
}

// lies has plugins that are honest but for one value, by the field that the error names.
var lies = []struct {
	field string
	edit  func(*config.Config)
	lie   func(*honest)
}{
	{"prepared.workers.rank", nil, func(h *honest) { h.Prepared.Workers.Rank = 0 }},
	{"prepared.workers.daemons", nil, func(h *honest) {
		h.Prepared.Workers.Daemons = [][]byte{{1}}
	}},
	{"prepared.workers.clients", nil, func(h *honest) { h.Prepared.Workers.Clients = nil }},
	{"prepared.workers.clients[0]", nil, func(h *honest) { h.Prepared.Workers.Clients[0] = nil }},
	{"prepared.workers.clients[0]", nil,
		func(h *honest) { h.Prepared.Workers.Clients[0] = make([]byte, 100<<10) }},
	{"prepared.workers.clients", proxied,
		func(h *honest) { h.Prepared.Workers.Clients = [][]byte{{1}} }},
	{"prepared.workers.shared", nil, func(h *honest) {
		h.Prepared.Workers.Shared = make([]byte,
			100<<10)
	}},
	{"prepared.pid", nil, func(h *honest) { h.Prepared.PID = -1 }},
	{"prepared.cpus", nil, func(h *honest) { h.Prepared.CPUs = nil }},
	{"prepared.cpus[0]", nil, func(h *honest) { h.Prepared.CPUs[0] = "\x1b[2J" }},
	{"prepared.properties.provider", nil, func(h *honest) { h.Prepared.Properties.Provider = "" }},
	{`prepared.properties.reference["ib-dev"]`, nil, func(h *honest) {
		h.Prepared.Properties.Reference = map[string]string{"ib-dev": strings.Repeat("x", 5000)}
	}},
	{"prepared.properties.limits.max_payload", nil,
		func(h *honest) { h.Prepared.Properties.Limits.MaxPayload = -1 }},
	{"prepared.properties.limits.peers", nil,
		func(h *honest) { h.Prepared.Properties.Limits.Peers = math.MinInt }},

	{"overhead.per_op_ns", nil, func(h *honest) { h.Overhead.PerOpNS = -1 }},
	{"overhead.client_ns", nil, func(h *honest) { h.Overhead.ClientNS = 1e300 }},
	{"overhead.stamp_ns", nil, func(h *honest) { h.Overhead.StampNS = -0.5 }},

	{"floor.per_op_ns", nil, func(h *honest) { h.Floor.PerOp = 3 }},
	{"floor.round_trip_ns", nil, func(h *honest) { h.Floor.RoundTrip = -120 }},
	{"floor.round_trip_ns", nil, func(h *honest) { h.Floor.RoundTrip = 1e-9 }},
	{"floor.round_trip_ns", nil, func(h *honest) { h.Floor.RoundTrip = 1e18 }},
	{"floor.samples", nil, func(h *honest) { h.Floor.Samples = 0 }},
	{"floor.name", nil, func(h *honest) { h.Floor.Name = "" }},

	{"progress.ops", nil, func(h *honest) { h.Progress[1].Ops = 0 }},
	{"progress.ops", nil, func(h *honest) { h.Progress[1].Ops = math.MaxUint64 }},
	{"progress.elapsed", nil, func(h *honest) { h.Progress[0].Elapsed = -1 }},
	{"progress.elapsed", nil, func(h *honest) { h.Progress[1].Elapsed = 0 }},
	{"progress.elapsed", nil, func(h *honest) { h.Progress[2].Elapsed = time.Hour }},
	{"progress.recent_p50_ns", nil, func(h *honest) { h.Progress[1].RecentP50 = -1 }},

	{"report.rank", nil, func(h *honest) { h.Report.Rank = 7 }},
	{"report.clients", nil, func(h *honest) {
		h.Report.Clients = append(h.Report.Clients,
			h.Report.Clients[0])
	}},
	{"report.clients", nil, func(h *honest) { h.Report.Clients = nil }},
	{"report.daemons", nil, func(h *honest) { h.Report.Daemons = make([]record.DaemonReport, 1) }},
	{"report.sample_every", nil, func(h *honest) { h.Report.SampleEvery = 1 << 40 }},
	{"report.process.clock", nil, func(h *honest) { h.Report.Process.Clock = "sundial" }},
	{"report.process.threads", nil, func(h *honest) { h.Report.Process.Threads = -1 }},
	{"report.process.clock_step_ns", nil, func(h *honest) { h.Report.Process.ClockStepNS = -1 }},
	{"report.process.cpu_ns", nil, func(h *honest) { h.Report.Process.CPUNS = math.MaxUint64 }},

	{"report.clients[0].elapsed_ns", nil, client(func(c *record.ClientReport) { c.ElapsedNS = 0 })},
	{"report.clients[0].elapsed_ns", nil,
		client(func(c *record.ClientReport) { c.ElapsedNS = uint64(time.Hour) })},
	{"report.clients[0].reads", nil,
		client(func(c *record.ClientReport) { c.Reads, c.Issued = elapsed+1, 2*elapsed })},
	{"report.clients[0].writes", nil,
		client(func(c *record.ClientReport) { c.Writes = math.MaxUint64 })},
	{"report.clients[0].issued", nil, client(func(c *record.ClientReport) { c.Issued = 19 })},
	{"report.clients[0].issued", nil,
		client(func(c *record.ClientReport) { c.Issued = math.MaxUint64 })},
	{"report.clients[0].lost", nil,
		client(func(c *record.ClientReport) { c.Lost = math.MaxUint64 })},
	{"report.clients[0].drained", nil, client(func(c *record.ClientReport) { c.Drained = 1e6 })},
	{"report.clients[0].payload_bytes", nil,
		client(func(c *record.ClientReport) { c.PayloadBytes = 1e6 })},
	{"report.clients[0].verified_keys", nil,
		client(func(c *record.ClientReport) { c.VerifiedKeys = 21 })},
	{"report.clients[0].verified_checksums", nil,
		client(func(c *record.ClientReport) { c.VerifiedSums = math.MaxUint64 })},
	{`report.clients[0].failures["stale"]`, nil,
		client(func(c *record.ClientReport) {
			c.Failures = map[string]uint64{"stale": math.MaxUint64}
		})},
	{"report.clients[0].empty_polls", nil,
		client(func(c *record.ClientReport) { c.EmptyPolls = 41 })},
	{"report.clients[0].in_flight_ns", nil,
		client(func(c *record.ClientReport) { c.InFlightNS = 1e9 })},
	{"report.clients[0].busy_ns", nil,
		client(func(c *record.ClientReport) { c.BusyNS = math.MaxUint64 })},
	{"report.clients[0].latency", nil, client(func(c *record.ClientReport) { c.Latency = "" })},
	{"report.clients[0].latency", nil, client(func(c *record.ClientReport) { c.Latency = "AAAA" })},
	{"report.clients[0].latency's records", nil,
		client(func(c *record.ClientReport) { c.Latency = timing(9).Histogram })},
	{"report.clients[0].mean_ns", nil, client(func(c *record.ClientReport) { c.MeanNS = -1 })},
	{"report.clients[0].latency's records", nil,
		client(func(c *record.ClientReport) { c.Samples = 21 })},
	{"report.clients[0].samples", nil,
		client(func(c *record.ClientReport) { c.Samples, c.Latency = 21, timing(21).Histogram })},
	{"report.clients[0].read_latency", nil,
		client(func(c *record.ClientReport) { c.ReadLatency = "" })},
	{"report.clients[0].write_latency's records", nil,
		client(func(c *record.ClientReport) {
			c.ReadLatency, c.WriteLatency = c.Latency,
				c.Latency
		})},
	{"report.clients[0].latency's longest", nil, client(func(c *record.ClientReport) {
		h := record.NewHistogram()
		for range 10 {
			h.Record(record.HistogramMax)
		}
		c.Latency = h.Encode()
	})},
	{"report.clients[0].thread.sharing", classes,
		client(func(c *record.ClientReport) { c.Thread.Sharing = 4 })},
	{"report.clients[0].local", nil,
		client(func(c *record.ClientReport) { c.Local = new(record.TimingReport) })},
	{"report.clients[0].remote", proxied, client(func(c *record.ClientReport) { c.Remote = nil })},
	{"report.clients[0].open_loop", nil,
		client(func(c *record.ClientReport) { c.Open = new(record.OpenReport) })},
	{"report.clients[0].open_loop", openLoop,
		client(func(c *record.ClientReport) { c.Open = nil })},
	{"report.clients[0].open_loop.scheduled", openLoop,
		client(func(c *record.ClientReport) { c.Open.Scheduled = 1e9 })},
	{"report.clients[0].open_loop.lag.histogram", openLoop,
		client(func(c *record.ClientReport) { c.Open.Lag.Histogram = "" })},
	{"report.clients[0].open_loop.steps", openLoop,
		client(func(c *record.ClientReport) { c.Open.Steps = make([]record.TimingReport, 7) })},
	{"report.clients[0].open_loop.steps[0].histogram", openLoop,
		client(func(c *record.ClientReport) {
			c.Open.Steps = make([]record.TimingReport, record.Steps)
		})},
	{"report.clients[0].iterations", nil,
		client(func(c *record.ClientReport) { c.Iterations = new(record.TimingReport) })},
	{"report.clients[0].stages", nil,
		client(func(c *record.ClientReport) { c.Stages["warp"] = timing(1) })},
	{`report.clients[0].stages["serve"].histogram's records`, nil,
		client(func(c *record.ClientReport) {
			c.Stages["serve"] = record.TimingReport{Histogram: timing(1).Histogram,
				Samples: math.MaxUint64}
		})},
	{"report.clients[0].operations", nil,
		client(func(c *record.ClientReport) {
			c.Operations = map[string]record.OperationReport{
				"read": {}}
		})},
	{"report.clients[0].operations", mixed,
		client(func(c *record.ClientReport) { c.Operations["steal"] = record.OperationReport{} })},
	{`report.clients[0].operations["read"].count`, mixed, client(func(c *record.ClientReport) {
		c.Operations["read"] = record.OperationReport{Count: 21, Latency: timing(10)}
	})},
	{"report.clients[0].kinds", nil,
		client(func(c *record.ClientReport) {
			c.Kinds = make([]record.OperationReport,
				record.CallKinds)
		})},
	{"report.clients[0].kinds", nil, kinds(1000)},
	{"report.clients[0].kinds in sum", nil, kinds(int(record.CallKinds), 15, 15)},
	{"report.clients[0].kinds in sum", nil, kinds(int(record.CallKinds), 15)},
	{"report.clients[0].slices", nil,
		client(func(c *record.ClientReport) { c.Slices = make([]uint64, 1000) })},
	{"report.clients[0].slices in sum", nil,
		client(func(c *record.ClientReport) { c.Slices[0], c.Slices[1] = 2, math.MaxUint64 })},
	{"report.clients[0].thread.cpu_ns", nil,
		client(func(c *record.ClientReport) { c.Thread.CPUNS = uint64(time.Hour) })},
	{"report.clients[0].thread.monotonic_ns", nil,
		client(func(c *record.ClientReport) { c.Thread.MonotonicNS = math.MaxUint64 })},
	{"report.clients[0].thread.gaps[0].for_ns", nil,
		client(func(c *record.ClientReport) { c.Thread.Gaps[0].ForNS = math.MaxUint64 })},
	{"report.clients[0].thread.clock_ns", nil,
		client(func(c *record.ClientReport) { c.Thread.ClockNS = 1 << 63 })},
	{"report.clients[0].silences[0].for_ns", nil,
		client(func(c *record.ClientReport) { c.Silences = []record.Gap{{ForNS: 1 << 63}} })},
	{"report.clients[0].silences", nil,
		client(func(c *record.ClientReport) { c.Silences = make([]record.Gap, 30000) })},
	{"report.clients[0].thread.gaps", nil,
		client(func(c *record.ClientReport) { c.Thread.Gaps = make([]record.Gap, 65) })},
	{"report.clients[0].transport[0].value", nil,
		client(func(c *record.ClientReport) { c.Transport[0].Value = math.MaxUint64 })},
	{"report.clients[0].transport[1].name", nil,
		client(func(c *record.ClientReport) { c.Transport = append(c.Transport, c.Transport[0]) })},
	{"report.clients[0].series[0].values", nil,
		client(func(c *record.ClientReport) { c.Series[0].Values = make([]float64, 21) })},
	{"report.clients[0].trace", nil,
		client(func(c *record.ClientReport) { c.Trace = make([]transport.Transfer, 2) })},
	{"report.clients[0].trace[0].lane", nil,
		client(func(c *record.ClientReport) { c.Trace[0].Lane = "" })},
	{"report.clients[0].trace[0].size", nil,
		client(func(c *record.ClientReport) { c.Trace[0].Size = -1 })},
	{"report.clients[0].trace[0].steps", nil,
		client(func(c *record.ClientReport) { c.Trace[0].Steps = make([]transport.Step, 17) })},
	{"report.clients[0].trace[0].steps", nil,
		client(func(c *record.ClientReport) { c.Trace[0].Steps[1].Begin = 4 })},
	{"report.clients[0].trace[0].end_unix_ns", nil,
		client(func(c *record.ClientReport) { c.Trace[0].End = 5 })},

	{"report.setup.open_ns", nil, setup(func(s *record.RankSetup) { s.OpenNS = math.MaxUint64 })},
	{"report.setup.workers_ns", nil, setup(func(s *record.RankSetup) { s.WorkersNS = 1 << 60 })},
	{"report.setup.register_ns", nil, setup(func(s *record.RankSetup) { s.RegisterNS = 61 })},
	{"report.setup.registered_bytes", nil,
		setup(func(s *record.RankSetup) { s.RegisteredBytes = 1 << 60 })},
	{"report.setup.connections", nil, setup(func(s *record.RankSetup) { s.Connections = 31 })},
	{"report.setup.connect_ns", nil,
		setup(func(s *record.RankSetup) { s.ConnectNS = math.MaxUint64 })},
	{"report.setup.connect_max_ns", nil, setup(func(s *record.RankSetup) { s.ConnectMaxNS = 31 })},
	{"report.setup.connect_all_ns", nil,
		setup(func(s *record.RankSetup) { s.ConnectAllNS = math.MaxUint64 })},
	{"report.setup.first_calls", nil, setup(func(s *record.RankSetup) { s.FirstCalls = 3 })},
	{"report.setup.first_call_ns", nil, setup(func(s *record.RankSetup) { s.FirstCallNS = 9 })},
	{"report.setup.first_call_max_ns", nil,
		setup(func(s *record.RankSetup) { s.FirstCallMaxNS = math.MaxUint64 })},

	{"report.setup.paths[0].carrier", nil,
		setup(func(s *record.RankSetup) { s.Paths = []transport.Path{{}} })},
	{"report.setup.paths[0].port", nil,
		setup(func(s *record.RankSetup) {
			s.Paths = []transport.Path{{Carrier: "verbs", Port: -1}}
		})},
	{"report.setup.paths[0].overhead_bytes", nil,
		setup(func(s *record.RankSetup) {
			s.Paths = []transport.Path{{Carrier: "tcp", Overhead: -1}}
		})},
	{"report.setup.paths[0].local", nil, setup(func(s *record.RankSetup) {
		s.Paths = []transport.Path{{Carrier: "tcp", Local: strings.Repeat("1", 1000)}}
	})},
	{`report.setup.paths[0].facts["lanes"]`, nil, setup(func(s *record.RankSetup) {
		s.Paths = []transport.Path{{Carrier: "tcp",
			Facts: map[string]string{"lanes": strings.Repeat("x", 5000)}}}
	})},
	{"report.setup.paths", nil,
		setup(func(s *record.RankSetup) { s.Paths = make([]transport.Path, 1025) })},
	{"report.carried.counters[0].kind", nil,
		func(h *honest) { h.Report.Carried.Counters[0].Kind = "pigeon" }},
	{"report.carried.counters[0].name", nil,
		func(h *honest) { h.Report.Carried.Counters[0].Name = "" }},
	{"report.carried.counters[0].sent_bytes", nil,
		func(h *honest) { h.Report.Carried.Counters[0].Sent = math.MaxUint64 }},
	{"report.carried.counters", nil, func(h *honest) {
		h.Report.Carried.Counters = make([]record.Counter, 1025)
	}},

	{"report.daemons[0].elapsed_ns", proxied,
		daemon(func(d *record.DaemonReport) { d.ElapsedNS = 0 })},
	{"report.daemons[0].requests", proxied,
		daemon(func(d *record.DaemonReport) { d.Requests = math.MaxUint64 })},
	{"report.daemons[0].puts", proxied, daemon(func(d *record.DaemonReport) { d.Puts = 11 })},
	{"report.daemons[0].empty_loops", proxied,
		daemon(func(d *record.DaemonReport) { d.EmptyLoops = 31 })},
	{"report.daemons[0].stored_bytes", proxied,
		daemon(func(d *record.DaemonReport) { d.StoredBytes = 1e6 })},
	{"report.daemons[0].served", proxied,
		daemon(func(d *record.DaemonReport) { d.Served = math.MaxUint64 })},
	{"report.daemons[0].proxy", proxied, daemon(func(d *record.DaemonReport) { d.Proxy = nil })},
	{"report.daemons[0].delegation", proxied,
		daemon(func(d *record.DaemonReport) { d.Delegation = &record.DelegationReport{} })},
	{"report.daemons[0].proxy.held", proxied,
		daemon(func(d *record.DaemonReport) { d.Proxy.Held = math.MaxUint64 })},
	{"report.daemons[0].phases", proxied,
		daemon(func(d *record.DaemonReport) { d.Phases["sleep"] = timing(1) })},
	{`report.daemons[0].phases["poll"].histogram`, proxied,
		daemon(func(d *record.DaemonReport) {
			d.Phases["poll"] = record.TimingReport{Samples: 1}
		})},
	{"report.daemons[0].phase_every", proxied,
		daemon(func(d *record.DaemonReport) { d.PhaseEvery = -64 })},
}

func setup(lie func(*record.RankSetup)) func(*honest) {
	return func(h *honest) { lie(h.Report.Setup) }
}

func client(lie func(*record.ClientReport)) func(*honest) {
	return func(h *honest) { lie(&h.Report.Clients[0]) }
}

// kinds returns a lie about so many kinds of calls, the first of which have counts.
func kinds(n int, counts ...uint64) func(*honest) {
	return func(h *honest) {
		h.Plan.Kinds = []record.CallKind{record.CallBetween}
		c := &h.Report.Clients[0]
		c.Kinds = make([]record.OperationReport, n)
		for i := range c.Kinds {
			c.Kinds[i].Latency = timing(0)
		}
		for i, count := range counts {
			c.Kinds[i].Count = count
		}
	}
}

func daemon(lie func(*record.DaemonReport)) func(*honest) {
	return func(h *honest) { lie(&h.Report.Daemons[0]) }
}

func TestEveryLieIsRefused(t *testing.T) {
	for _, l := range lies {
		t.Run(l.field, func(t *testing.T) {
			h := honestRank(plan(l.edit))
			l.lie(h)
			requireInvalid(t, l.field, h.plugin(), h.Plan, transport.ProbeMedium)
		})
	}
	t.Run("a negative rate floor", func(t *testing.T) {
		h := honestRank(plan(nil))
		h.Floor = transport.Floor{Name: "stream", PerOp: -2, Samples: 10}
		requireInvalid(t, "floor.per_op_ns", h.plugin(), h.Plan, transport.ProbeRate)
	})
}

// A floor of 0 is no reading, which the runner takes again.
func TestNoReading(t *testing.T) {
	h := honestRank(plan(nil))
	h.Floor = transport.Floor{Name: "ping-pong"}
	_, err := drive(h.plugin().connect(t), h.Plan, transport.ProbeMedium)
	require.NoError(t, err)
}

// requireInvalid requires an error that names the field.
func requireInvalid(t *testing.T, field string, p fakePlugin, plan record.Plan,
	kind transport.ProbeKind) {
	t.Helper()
	_, err := drive(p.connect(t), plan, kind)
	var invalid *record.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field)
	require.NotEmpty(t, invalid.Value)
	require.NotEmpty(t, invalid.Bound)
	require.False(t, strings.ContainsFunc(err.Error(),
		func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err.Error())
}

// What Go's types cannot hold, or what is no answer at all.
func TestImpossibleText(t *testing.T) {
	h := honestRank(plan(nil))
	report := text("report", h.Report)
	for name, c := range map[string]struct{ field, text string }{
		"NaN": {"run", strings.Replace(report, `"mean_ns":100`, `"mean_ns":NaN`, 1)},
		"infinity": {"report.clients.mean_ns",
			strings.Replace(report, `"mean_ns":100`, `"mean_ns":1e999`, 1)},
		"negative": {"report.clients.elapsed_ns",
			strings.Replace(report, `"elapsed_ns":1000`, `"elapsed_ns":-1`, 1)},
		"too large": {"report.clients.reads",
			strings.Replace(report, `"reads":10`, `"reads":18446744073709551616`, 1)},
		"fraction": {"report.clients.reads",
			strings.Replace(report, `"reads":10`, `"reads":0.5`, 1)},
		"other type": {"report.clients.latency",
			strings.Replace(report, `"latency":"`, `"latency":7,"x":"`, 1)},
		"cut":             {"run", report[:len(report)/2]},
		"empty":           {"run", ""},
		"nothing":         {"run", "{}"},
		"null":            {"run", "null"},
		"deep":            {"run", strings.Repeat(`{"error":{"causes":[`, 5000)},
		"no report":       {"run", `{"report":null,"error":{"text":"x"}}`},
		"longer than all": {"run", `{"report":{},"x":"` + strings.Repeat("y", 9<<20) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEqual(t, report, c.text)
			p := h.plugin()
			p["Run"][len(p["Run"])-1] = c.text
			requireInvalid(t, c.field, p, h.Plan, transport.ProbeMedium)
		})
	}
}

// A rank that fails may report less, and its failure is the error.
func TestFailureWinsOverItsReport(t *testing.T) {
	for name, edit := range map[string]func(*record.Report){
		"nothing recorded": func(r *record.Report) { *r = record.Report{} },
		"no time": func(r *record.Report) {
			r.Clients[0].ElapsedNS, r.Clients[0].Reads, r.Clients[0].Writes = 0, 0, 0
		},
		"an invalid report": func(r *record.Report) { r.Clients[0].Reads = math.MaxUint64 },
	} {
		t.Run(name, func(t *testing.T) {
			h := honestRank(plan(nil))
			edit(&h.Report)
			p := h.plugin()
			last := len(p["Run"]) - 1
			p["Run"][last] = strings.TrimSuffix(p["Run"][last], "}") +
				`,"error":{"text":"the cable is out"}}`
			report, err := drive(p.connect(t), h.Plan, transport.ProbeMedium)
			require.EqualError(t, err, "the cable is out")
			require.LessOrEqual(t, len(report.Clients), 1)
		})
	}
}

func TestDescriptions(t *testing.T) {
	info := func() *transport.Info {
		return &transport.Info{
			Name: "shm", Version: "1", Providers: []string{"memfd"},
			Limits: transport.Limits{MaxPayload: 64},
			Options: []transport.Option{
				{Name: "ring", Type: transport.TypeString, Default: "a",
					Allowed: []string{"a", "b"}},
				{Name: "tx-depth", Type: transport.TypeInt, Default: "8", Min: 1, Max: 64},
			},
			Matched: map[string]string{"ring": "b"},
			Choose:  "for tests", Groups: []transport.Group{transport.GroupRDMA,
				transport.GroupMemory},
		}
	}
	require.NoError(t, accept.Info(info()))
	old := info()
	old.Choose, old.Groups = "", nil
	require.NoError(t, accept.Info(old), "a plugin of an earlier version")
	for field, lie := range map[string]func(*transport.Info){
		"info.name":             func(i *transport.Info) { i.Name = "../../bin/sh" },
		"info.providers[0]":     func(i *transport.Info) { i.Providers[0] = "" },
		"info.limits.in_flight": func(i *transport.Info) { i.Limits.InFlight = -1 },
		"info.options[0].name":  func(i *transport.Info) { i.Options[0].Name = "a=b" },
		"info.options[1].name":  func(i *transport.Info) { i.Options[1].Name = "ring" },
		// ParseOptions panics
		"info.options[0].type":    func(i *transport.Info) { i.Options[0].Type = "prose" },
		"info.options[1].min":     func(i *transport.Info) { i.Options[1].Min = 65 },
		"info.options[1].default": func(i *transport.Info) { i.Options[1].Default = "99" },
		"info.matched":            func(i *transport.Info) { i.Matched["ring"] = "c" },
		"info.options": func(i *transport.Info) {
			i.Options = make([]transport.Option, 1025)
		},
		"info.limits.max_payload": func(i *transport.Info) { i.Limits.MaxPayload = math.MinInt },
		"info.providers":          func(i *transport.Info) { i.Providers = make([]string, 1025) },
		"info.options[0].default": func(i *transport.Info) { i.Options[0].Default = "c" },
		"info.choose":             func(i *transport.Info) { i.Choose = strings.Repeat("x", 257) },
		"info.groups[0]":          func(i *transport.Info) { i.Groups[0] = "FPGA" },
		"info.groups[1]":          func(i *transport.Info) { i.Groups[1] = i.Groups[0] },
	} {
		t.Run(field, func(t *testing.T) {
			i := info()
			lie(i)
			var invalid *record.InvalidError
			require.ErrorAs(t, accept.Info(i), &invalid)
			require.Equal(t, field, invalid.Field)
		})
	}
}

func TestMeasurements(t *testing.T) {
	require.NoError(t, accept.Measurement(&transport.Measurement{Name: "read", Latency: 12,
		Samples: 3}))
	for field, m := range map[string]transport.Measurement{
		"measurement.name":       {},
		"measurement.latency_ns": {Name: "read", Latency: -1},
		"measurement.rate":       {Name: "read", Rate: math.Inf(1)},
		"measurement.bandwidth":  {Name: "read", Bandwidth: math.NaN()},
		"measurement.samples":    {Name: "read", Samples: -1},
		"measurement.size":       {Name: "read", Size: -1},
	} {
		var invalid *record.InvalidError
		require.ErrorAs(t, accept.Measurement(&m), &invalid)
		require.Equal(t, field, invalid.Field)
	}
}

// FuzzReports sends arbitrary bytes as the report of a window. What passes must be possible.
func FuzzReports(f *testing.F) {
	h := honestRank(plan(nil))
	f.Add([]byte(text("report", h.Report)))
	for _, l := range lies {
		if lying := honestRank(plan(l.edit)); l.edit == nil {
			l.lie(lying)
			f.Add([]byte(text("report", lying.Report)))
		}
	}
	f.Add([]byte(`{"started":true}`))
	f.Add([]byte(`{"report":{},"error":{"text":"a","kind":"op","causes":[null]}}`))
	f.Add([]byte(`{"progress":{"ops":1,"elapsed":-5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rank := accept.New(replay{data})
		_, _ = rank.Prepare(context.Background(), h.Plan)
		report, err := rank.Run(context.Background(),
			record.Window{Duration: elapsed, SampleEvery: 8, Trace: 1}, func() {},
			func(p record.Progress) {
				require.GreaterOrEqual(t, p.Elapsed, time.Duration(0))
			})
		if err != nil {
			return
		}
		require.Equal(t, 1, report.Rank)
		require.Len(t, report.Clients, 1)
		require.Empty(t, report.Daemons)
		c := report.Clients[0]
		require.Positive(t, c.ElapsedNS)
		require.LessOrEqual(t, c.Ops(), c.ElapsedNS)
		require.LessOrEqual(t, c.Ops(), c.Issued)
		require.LessOrEqual(t, c.EmptyPolls, c.Polls)
		latency, err := record.DecodeHistogram(c.Latency)
		require.NoError(t, err)
		require.Equal(t, c.Samples, latency.Count())
		require.False(t, math.IsNaN(c.MeanNS) || math.IsInf(c.MeanNS, 0) || c.MeanNS < 0)
		for name, stage := range c.Stages {
			require.True(t, slices.Contains(record.DirectStages, name))
			require.LessOrEqual(t, stage.Samples, uint64(1<<62))
		}
	})
}

// replay decodes one message as the wire does, without a connection, which would cost most of the
// time.
type replay struct{ message []byte }

func (r replay) Run(_ context.Context, _ record.Window, _ func(), progress func(record.Progress)) (
	record.Report, error) {
	var m struct {
		Progress *record.Progress
		Report   *record.Report
	}
	if err := accept.Decode(r.message, "run", &m); err != nil {
		return record.Report{}, err
	}
	if m.Progress != nil {
		progress(*m.Progress)
	}
	if m.Report == nil {
		return record.Report{}, nil
	}
	return *m.Report, nil
}

func (replay) Prepare(context.Context, record.Plan) (record.Prepared, error) {
	return record.Prepared{}, nil
}
func (replay) Connect(context.Context, []record.RankWorkers) error { return nil }
func (replay) Overhead(context.Context, time.Duration) (record.Overhead, error) {
	return record.Overhead{}, nil
}
func (replay) Probe(context.Context, record.Probe) (transport.Floor, error) {
	return transport.Floor{}, nil
}
func (replay) Advance(context.Context, record.State) error { return nil }
func (replay) Close(context.Context) error                 { return nil }

// FuzzDescriptions checks that no description makes the host panic, whatever passes.
func FuzzDescriptions(f *testing.F) {
	f.Add(
		[]byte(
			`{"name":"shm","options":[{"name":"ring","type":"string","allowed":["a"],"default":"a"}],"matched":{"ring":"a"}}`))
	f.Add([]byte(`{"name":"shm","options":[{"name":"ring","type":"prose"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var info transport.Info
		if json.Unmarshal(data, &info) != nil || accept.Info(&info) != nil {
			return
		}
		_, err := transport.ParseOptions(info.Options, nil)
		require.NoError(t, err)
	})
}

// BenchmarkReport checks the report of a rank with 1,024 clients.
func BenchmarkReport(b *testing.B) {
	h := honestRank(plan(func(cfg *config.Config) { cfg.Clients = 1024 }))
	rank := accept.New(decoded{report: h.Report})
	_, err := rank.Prepare(b.Context(), h.Plan)
	require.ErrorContains(b, err, "prepared", "the plan is known nevertheless")
	for b.Loop() {
		_, err := rank.Run(b.Context(), record.Window{Duration: elapsed, SampleEvery: 8, Trace: 1},
			nil, nil)
		require.NoError(b, err)
	}
}

// decoded returns a report as it is.
type decoded struct {
	replay
	report record.Report
}

func (d decoded) Run(context.Context, record.Window, func(), func(record.Progress)) (record.Report,
	error) {
	time.Sleep(elapsed)
	return d.report, nil
}
