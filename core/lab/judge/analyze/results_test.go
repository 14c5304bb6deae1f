package analyze

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/transport"
)

// timings caches what timing returned: histograms are large, and tests use the same ones many
// times.
var timings = map[string]record.TimingReport{}

// timing returns a timing with the given number of samples of each time.
func timing(t require.TestingT, counts map[uint64]int) record.TimingReport {
	key := fmt.Sprint(counts)
	if made, known := timings[key]; known {
		return made
	}
	h := record.NewHistogram()
	sum, n := 0.0, 0
	for ns, count := range counts {
		for range count {
			h.Record(ns)
		}
		sum += float64(ns) * float64(count)
		n += count
	}
	encoded := h.Encode()
	timings[key] = record.TimingReport{Histogram: encoded, MeanNS: sum / float64(n),
		Samples: uint64(n)}
	return timings[key]
}

func always(t require.TestingT, ns uint64) record.TimingReport {
	return timing(t, map[uint64]int{ns: 1000})
}

// measured returns the result of one client with 4 calls in flight of 3.9 us each, a million in a
// second, and one daemon. Of its million loop iterations, 800,000 find nothing in 100 ns; the
// others take 4.6 us and serve five requests each.
func measured(t require.TestingT) *result.Result {
	cfg := config.Default()
	cfg.InFlight, cfg.Duration = 4, config.Duration(time.Second)
	const second = 1_000_000_000
	r := &result.Result{
		ID: result.NewID(), Config: cfg, Overhead: record.Overhead{PerOpNS: 100, VerifyNS: 20,
			StampNS: 30},
		Plugin: result.Plugin{Name: "shm", Provider: "memfd"},
	}
	for i := range 6 {
		latency := timing(t, map[uint64]int{3900: 1000})
		repeat := result.Repeat{
			Index: i, Latency: latency.Histogram,
			Samples: map[string]float64{result.Throughput: 1e6, result.Floor: 1000,
				result.LatencyP50: 3900, result.FloorRatio: 3.9},
			Ranks: []record.Report{
				{Rank: 0, Daemons: []record.DaemonReport{{
					ElapsedNS: second, Loops: 1_000_000, EmptyLoops: 800_000, Requests: 1_000_000,
					Flushes: 200_000,
					Thread:  record.ThreadReport{CPUNS: second, Involuntary: 7},
					Phases: map[string]record.TimingReport{
						"poll": always(t, 300), "serve": always(t, 400), "flush": always(t, 200),
						record.PhaseLoop:       timing(t, map[uint64]int{100: 8000, 4600: 2000}),
						record.PhaseTurnaround: always(t, 2000),
					},
				}}},
				{Rank: 1, Clients: []record.ClientReport{{
					ElapsedNS: second, Reads: 600_000, Writes: 400_000, Polls: 400_000,
					EmptyPolls: 200_000,
					Latency:    latency.Histogram, MeanNS: 3900, Samples: 1000,
					Thread: record.ThreadReport{CPUNS: second, Voluntary: 3},
				}}},
			},
			Before: result.Readings{Medium: &transport.Floor{RoundTrip: 1000}},
			After:  result.Readings{Medium: &transport.Floor{RoundTrip: 1000}},
		}
		r.Repeats = append(r.Repeats, repeat)
	}
	r.Summary = result.SummarizeRepeats(r.Repeats)
	return r
}

func analysed(t *testing.T, edit func(*result.Result)) *Analysis {
	t.Helper()
	r := measured(t)
	if edit != nil {
		edit(r)
	}
	a, err := Results([]*result.Result{r})
	require.NoError(t, err)
	return a
}

// each edits the daemon and the client of every repeat.
func each(r *result.Result, edit func(*record.DaemonReport, *record.ClientReport)) {
	for i := range r.Repeats {
		edit(&r.Repeats[i].Ranks[0].Daemons[0], &r.Repeats[i].Ranks[1].Clients[0])
	}
}

func near(t *testing.T, want, got float64, what ...any) {
	t.Helper()
	require.InEpsilon(t, want, got, 0.002, what...) // a histogram's bin
}

func TestLaw(t *testing.T) {
	a := analysed(t, nil)
	near(t, 3.9, a.Law.Found)
	require.Equal(t, 4.0, a.Law.Configured)
	near(t, 0.025, a.Law.Residual)
	near(t, 3900, a.Law.Latency)
	require.Nil(t, analysed(t, func(r *result.Result) { r.Config.Rate = 1e6 }).Law)
}

func TestUtilization(t *testing.T) {
	e, err := gather([]*result.Result{measured(t)})
	require.NoError(t, err)
	s := e.utilization()
	near(t, 0.92, s.daemon) // 200,000 x 4.6 us in a second
	near(t, 4600, s.busyIteration)
	require.InEpsilon(t, 100, s.emptyIteration, 0.01) // bins of 4.6 us are 0.1% wide
	near(t, 5, s.batch)
	near(t, 0.98, s.client) // 200,000 empty polls of 100 ns
	near(t, 0.1, s.harness)

	// A client that waits for the next operation of a schedule is busy when it finds responses.
	open := measured(t)
	open.Config.Rate = 1e6
	e, err = gather([]*result.Result{open})
	require.NoError(t, err)
	require.Equal(t, float64(unknown), e.utilization().client)
	each(open, func(_ *record.DaemonReport, c *record.ClientReport) { c.BusyNS = 1e7 })
	e, err = gather([]*result.Result{open})
	require.NoError(t, err)
	near(t, 0.01, e.utilization().client)
	near(t, 10, e.utilization().clientPerOp)
	a, err := Results([]*result.Result{open})
	require.NoError(t, err)
	require.Contains(t, a.Verdict.Evidence,
		"clients busy 1% of their processor time: 50.0% of 2.40 M polls found nothing")

	// Timed iterations took 50 ns more than the average of all.
	longer := measured(t)
	each(longer, func(d *record.DaemonReport, _ *record.ClientReport) {
		d.Phases[record.PhaseLoop] = timing(t, map[uint64]int{150: 8000, 4650: 2000})
	})
	e, err = gather([]*result.Result{longer})
	require.NoError(t, err)
	require.InEpsilon(t, 4600, e.utilization().busyIteration, 0.01)
	require.InEpsilon(t, 100, e.utilization().emptyIteration, 0.01)
}

func TestVerdicts(t *testing.T) {
	check := func(name string) func(r *result.Result) {
		return func(r *result.Result) {
			r.Checks = append(r.Checks, result.Finding{Name: name, Severity: result.Warning,
				Value: 8000, Limit: 2, Message: "so it is"})
		}
	}
	idle := func(r *result.Result) { // 200,000 iterations of 2 us, and empty ones of 750 ns
		each(r, func(d *record.DaemonReport, c *record.ClientReport) {
			d.Phases[record.PhaseLoop] = timing(t, map[uint64]int{750: 8000, 2000: 2000})
			c.EmptyPolls = 390_000 // of 750 ns: busy 71%
		})
	}
	for _, test := range []struct {
		name string
		edit func(*result.Result)
		want Bound
		text []string
	}{
		{"both are busy, the client more", nil, ByClients,
			[]string{"busy 98%", "100 ns are benchmark overhead", "other side is busy 92%"}},
		{"daemon", func(r *result.Result) {
			each(r, func(_ *record.DaemonReport, c *record.ClientReport) {
				c.EmptyPolls = 3_000_000
			})
		},
			ByDaemons, []string{"busy 92%", "920 ns for each operation",
				"5.00 requests per loop iteration"}},
		{"nobody is busy", func(r *result.Result) {
			idle(r)
			for i := range r.Repeats {
				r.Repeats[i].Samples[result.RateFloor] = 250
			}
		}, ByTransport, []string{"4 calls in flight, 3.90 us each",
			"the medium needs 250 ns for an operation", "4.00 times as high", `"turnaround", 51%`}},
		{"one call in flight", func(r *result.Result) { r.Config.InFlight = 1 }, ByTransport,
			[]string{"1.00 us of that", "3.90 times as high"}},
		{"oversubscribed", check("oversubscribed"), ByProcessors,
			[]string{"8000 polling threads share 2 processors", "2.00 us", "1.00 M op/s at most"}},
		{"disturbed", func(r *result.Result) {
			each(r, func(d *record.DaemonReport, c *record.ClientReport) {
				d.Thread.CPUNS, c.Thread.CPUNS = 4e8, 4e8
			})
		},
			ByProcessors, []string{"had a processor only 40% of the time"}},
		{"late", func(r *result.Result) { r.Config.Rate = 1e6; check("schedule_lag")(r) },
			BySchedule, []string{"so it is"}},
		{"behind", func(r *result.Result) { r.Config.Rate = 2e6; check("rate")(r) }, ByTransport,
			[]string{"Reached 1.00 M op/s of the offered 2.00 M op/s: so it is"}},
		{"kept", func(r *result.Result) { r.Config.Rate = 1e6 }, ByLoad,
			[]string{"offered 1.00 M op/s were reached"}},
	} {
		v := analysed(t, test.edit).Verdict
		require.Equal(t, test.want, v.Bound, "%s: %s", test.name, v.Message)
		require.LessOrEqual(t, len(v.Why), 60, "%s: %q is too long for a table", test.name, v.Why)
		for _, text := range test.text {
			require.Contains(t, v.Message, text, test.name)
		}
		require.NotEmpty(t, v.Evidence)
	}
	untimed := func(r *result.Result) {
		each(r, func(d *record.DaemonReport, _ *record.ClientReport) { d.Phases = nil })
	}
	a := analysed(t, untimed)
	require.Equal(t, ByNothing, a.Verdict.Bound)
	require.Contains(t, a.Missing[0], "none was sampled")
}

func TestLimit(t *testing.T) {
	l := analysed(t, nil).Limit
	require.Equal(t, []string{"daemons", "round trip", "benchmark overhead"},
		[]string{l.Bounds[0].Name, l.Bounds[1].Name, l.Bounds[2].Name})
	near(t, 1e6/0.92, l.Throughput)
	near(t, 0.92, l.Share)
	near(t, 4e6, l.Bounds[1].Throughput) // 4 calls, 1 us each
	near(t, 1e7, l.Bounds[2].Throughput) // 100 ns per operation

	open := analysed(t, func(r *result.Result) { r.Config.Rate = 0.5e6 }).Limit
	require.Equal(t, "load", open.Bounds[0].Name)

	// Four clients share one daemon, so its medium has four calls to carry.
	shared := analysed(t, func(r *result.Result) {
		r.Config.InFlight, r.Config.Clients = 1, 4
		for i := range r.Repeats {
			r.Repeats[i].Samples[result.RateFloor] = 500
		}
	}).Limit
	i := slices.IndexFunc(shared.Bounds,
		func(b LimitBound) bool { return b.Name == "medium's rate" })
	require.GreaterOrEqual(t, i, 0)
	near(t, 2e6, shared.Bounds[i].Throughput)
}

func TestBreakdowns(t *testing.T) {
	a := analysed(t, nil)
	operation := a.Breakdowns[0]
	require.Equal(t, "operation", operation.Name)
	near(t, 3900, operation.Whole)
	near(t, 1000, operation.Parts[0].Mean)
	near(t, 2000, operation.Parts[1].Mean)
	require.Equal(t, Unexplained, operation.Parts[2].Name)
	near(t, 900, operation.Parts[2].Mean)
	near(t, 900.0/3900, operation.Parts[2].Share)

	loop := a.Breakdowns[1]
	near(t, 1000, loop.Whole)
	near(t, 100, loop.Parts[3].Mean) // 1000 minus 300, 400 and 200
	require.Contains(t, loop.Title, "80.0% of 6.00 M found nothing")

	cpu := a.Breakdowns[2]
	near(t, 2000, cpu.Whole)
	near(t, 900, cpu.Parts[1].Mean)
	for _, b := range a.Breakdowns {
		total := 0.0
		for _, p := range b.Parts {
			total += p.Share
		}
		near(t, 1, total, b.Name)
	}
}

// A mesh of two ranks, each with a client whose requests are half remote.
func proxied(t require.TestingT) *result.Result {
	r := measured(t)
	r.Config.Topology = config.TopologyMeshProxied
	for i := range r.Repeats {
		for j := range r.Repeats[i].Ranks {
			d, c := r.Repeats[i].Ranks[0].Daemons[:1:1], r.Repeats[i].Ranks[1].Clients[:1:1]
			if j == 0 {
				d[0].Proxy = &record.ProxyReport{FromClients: 1_000_000, Local: 500_000,
					Remote: 500_000, Responses: 500_000, Incoming: 500_000, Held: 1000}
				d[0].Phases["scan"] = always(t, 100)
				local, remote := always(t, 1800), always(t, 6000)
				c[0].Local, c[0].Remote = &local, &remote
				c[0].Stages = map[string]record.TimingReport{}
				for k, ns := range []uint64{400, 200, 4800, 300} {
					c[0].Stages[record.StageNames[k]] = always(t, ns)
				}
			}
			r.Repeats[i].Ranks[j].Daemons, r.Repeats[i].Ranks[j].Clients = d, c
		}
	}
	return r
}

func TestStagesOfARemoteRequest(t *testing.T) {
	a, err := Results([]*result.Result{proxied(t)})
	require.NoError(t, err)
	b := a.Breakdowns[0]
	require.Equal(t, "remote request", b.Name)
	near(t, 6000, b.Whole)
	means := map[string]float64{}
	for _, p := range b.Parts {
		means[p.Name] = p.Mean
	}
	near(t, 400, means["client_to_daemon"])
	near(t, 200, means["daemon_to_flush"])
	near(t, 1000, means["medium"])
	near(t, 2000, means["far turnaround"])
	near(t, 1800, means["transport"]) // 4800 minus both
	near(t, 300, means["completion_to_client"])
	near(t, 300, means[Unexplained]) // 6000 minus 5700

	// Half at 1.8 us and half at 6 us are 3.9 us: four in flight complete 1.026 M.
	near(t, 4/3.9e-6, a.Model.Expected)
	near(t, 1e6, a.Model.Measured)
	near(t, 0.5, a.Model.RemoteShare)
	near(t, 0.5, a.Model.Transported)
	// 8 calls of 2 clients; half of the calls take at least 1 us.
	for _, bound := range a.Limit.Bounds {
		if bound.Name == "round trip" {
			near(t, 16e6, bound.Throughput)
		}
	}
	overheads := map[string]Overhead{}
	for _, l := range a.Overheads {
		overheads[l.Name] = l
	}
	near(t, 200, overheads["flush"].PerOp)
	near(t, 200.0/6000, overheads["flush"].Share)
	near(t, 100, overheads["scan"].PerOp) // one iteration per request
	require.Contains(t, overheads["back_pressure"].Message,
		"in 12.0 K loop iterations (0.1%) daemons held their clients back")
}

func TestOverheads(t *testing.T) {
	a := analysed(t, func(r *result.Result) {
		each(r, func(d *record.DaemonReport, c *record.ClientReport) { c.BackPressure = 1000 })
		for i := range r.Repeats { // counted in each window
			c := &r.Repeats[i].Ranks[1].Clients[0]
			c.Transport = []transport.Stat{
				{Name: "ring_full", Help: "no slot", Means: transport.MeansShortage, Value: 1000},
				{Name: "posted", Value: 10}, {Name: "full_peak", Value: 10, Level: true}}
		}
	})
	overheads := map[string]Overhead{}
	for _, l := range a.Overheads {
		overheads[l.Name] = l
	}
	// Of five replies in 2 us, one waits for the other four, another for three...
	near(t, 800, overheads["flush"].PerOp)
	near(t, 0.001, overheads["back_pressure"].Share)
	near(t, 0.001, overheads["ring_full"].Share) // 1000 in each repeat of a million
	require.NotContains(t, overheads, "posted")
	require.NotContains(t, overheads, "full_peak")
	near(t, 100, overheads["benchmark overhead"].PerOp)
	require.Equal(t, "flush", a.Overheads[0].Name, "the largest first")

	none := analysed(t, nil)
	require.Contains(t, none.Overheads[len(none.Overheads)-1].Message,
		"accepted every message of clients and daemons")
}

func TestEvents(t *testing.T) {
	a := analysed(t, func(r *result.Result) {
		each(r, func(_ *record.DaemonReport, c *record.ClientReport) {
			c.Thread.Counters = map[string]uint64{"cycles": 3_000_000_000,
				"instructions": 6_000_000_000, "llc_load_misses": 500_000}
			c.Thread.Migrations = 2
		})
		r.Repeats[0].Ranks[0].Process.NoCounters = "no rights"
	})
	daemon, client := a.Threads[0], a.Threads[1]
	require.Equal(t, "daemon 0", daemon.Thread)
	require.Nil(t, daemon.IPC)
	require.Equal(t, 7.0, daemon.PerSecond["involuntary_switches"])
	require.Equal(t, 2.0, *client.IPC)
	require.Equal(t, map[string]float64{"cycles": 3000, "instructions": 6000,
		"llc_load_misses": 0.5}, client.PerOp)
	require.Equal(t, 2.0, client.PerSecond["migrations"])
	require.Equal(t, "no rights", a.NoCounters)
}

func TestFindings(t *testing.T) {
	a := analysed(t, func(r *result.Result) {
		r.Checks = []result.Finding{{Name: "drift", Severity: result.Warning, Message: "it fell"},
			{Name: "verified", OK: true, Severity: result.Error}}
	})
	require.Equal(t, []result.Finding{{Name: "drift", Severity: result.Warning,
		Message: "it fell"}}, a.Findings)
}

func TestResultsRefuses(t *testing.T) {
	_, err := Results(nil)
	require.Error(t, err)
	r := measured(t)
	r.Repeats, r.IncompleteReason = nil, "it was interrupted"
	_, err = Results([]*result.Result{r})
	require.ErrorContains(t, err, "it was interrupted")
	r = measured(t)
	each(r, func(_ *record.DaemonReport, c *record.ClientReport) { c.Reads, c.Writes = 0, 0 })
	_, err = Results([]*result.Result{r})
	require.ErrorContains(t, err, "no completed operation")
	r = measured(t)
	each(r, func(d *record.DaemonReport, _ *record.ClientReport) {
		d.Phases[record.PhaseLoop] = record.TimingReport{Histogram: "rubbish"}
	})
	_, err = Results([]*result.Result{r})
	require.Error(t, err)
}

// Several results of one configuration count as more repeats.
func TestResultsPoolsRepeats(t *testing.T) {
	a, err := Results([]*result.Result{measured(t), measured(t)})
	require.NoError(t, err)
	require.Equal(t, 12, a.Repeats)
	near(t, 3.9, a.Law.Found)
}
