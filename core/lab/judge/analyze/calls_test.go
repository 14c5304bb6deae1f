package analyze

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// staged gives each client the stages of calls of 4 us, in order, which explain all but 100 ns.
func staged(t *testing.T, ns ...uint64) func(*result.Result) {
	return func(r *result.Result) {
		each(r, func(_ *record.DaemonReport, c *record.ClientReport) {
			c.InFlightNS, c.StageNS = 4000*c.Ops(), 25
			c.Stages = map[string]record.TimingReport{}
			for i, name := range record.DirectStages {
				c.Stages[name] = always(t, ns[i])
			}
		})
		for i := range r.Repeats {
			r.Repeats[i].Samples[result.LatencyMean] = 4000
		}
	}
}

// The parts of a call add up to the exact mean, and half of the floor of 1 us lies inside each of
// the two transfers.
func TestPartsOfACall(t *testing.T) {
	a := analysed(t, staged(t, 100, 900, 400, 200, 2000, 300))
	b := a.Breakdowns[0]
	require.Equal(t, "operation", b.Name)
	near(t, 4000, b.Whole)
	var labels []string
	sum := 0.0
	for _, p := range b.Parts {
		labels = append(labels, p.Label())
		sum += p.Mean
	}
	require.Equal(t, []string{"client", "request: medium", "request", "serve", "flush",
		"response: medium", "response", "client_return", Unexplained}, labels)
	near(t, 4000, sum)
	near(t, 500, b.Parts[1].Mean)
	near(t, 400, b.Parts[2].Mean)
	near(t, 500, b.Parts[5].Mean)
	near(t, 1500, b.Parts[6].Mean)
	require.InDelta(t, 100, b.Parts[8].Mean, 5)
	require.Contains(t, b.Note,
		"taken of 6.00 K of 6.00 M calls; taking it cost such a call 25.0 ns, which is subtracted")
	require.Empty(t, a.Missing)
	i := slices.IndexFunc(a.Overheads, func(o Overhead) bool { return o.Name == "flush" })
	near(t, 200, a.Overheads[i].PerOp, "as measured, not as estimated from the batch")

	// A transfer that is shorter than half of the floor is all medium.
	a = analysed(t, staged(t, 100, 300, 400, 200, 2000, 300))
	near(t, 300, a.Breakdowns[0].Parts[1].Mean)
	require.Zero(t, a.Breakdowns[0].Parts[2].Mean)

	// Between hosts there are halves of round trips.
	a = analysed(t, func(r *result.Result) {
		staged(t, 100, 900, 400, 200, 2000, 300)(r)
		each(r, func(_ *record.DaemonReport, c *record.ClientReport) {
			c.Stages, c.NoStages = nil, "rank 0 is on another host"
		})
	})
	b = a.Breakdowns[0]
	require.Equal(t, "request: medium", b.Parts[0].Label())
	near(t, 2000, b.Parts[2].Mean, "the turnaround")
	require.Contains(t, b.Note, "rank 0 is on another host")
}

// In every cell of the standard comparison, the parts explain at least 95% of the exact mean in the
// median window, with the medium inside both transfers, and the note says what the stamps cost.
func TestPartsExplainTheStandardComparison(t *testing.T) {
	s, err := set.Load("../../../../results/v0.5.0/amd-epyc-2core-vm")
	require.NoError(t, err)
	for i := range s.Cells {
		c := &s.Cells[i]
		name := fmt.Sprintf("%s %s in_flight=%s", c.Transport(), c.Config["profile"],
			c.Config["in_flight"])
		results, err := s.Results(c)
		require.NoError(t, err, name)
		var unexplained []float64
		for _, r := range results {
			for i := range r.Repeats {
				one := *r
				one.Repeats = r.Repeats[i : i+1]
				a, err := Results([]*result.Result{&one})
				require.NoError(t, err, name)
				b := a.Breakdowns[0]
				require.Equal(t, operationName, b.Name, name)
				if b.Note == "" {
					continue // no call was sampled
				}
				require.Contains(t, b.Note, "taking it cost such a call", name)
				inside := map[string]bool{}
				for _, p := range b.Parts {
					if p.Inside != "" {
						inside[p.Inside] = true
					}
				}
				want := map[string]bool{}
				// the machine kept its state
				if _, known := r.Repeats[i].Samples[result.Floor]; known {
					want = map[string]bool{record.StageRequest: true, record.StageResponse: true}
				}
				require.Equal(t, want, inside, name)
				unexplained = append(unexplained, math.Abs(b.Parts[len(b.Parts)-1].Share))
			}
		}
		require.Greater(t, len(unexplained), len(c.Windows)/2, name)
		require.LessOrEqual(t, record.Median(unexplained), 0.05, "%s: %.3f", name, unexplained)
	}
}

// A window in which the harness was quick exceeds the limit that follows from the harness of
// another window, but not its own.
func TestHarnessLimitIsOfTheSameWindow(t *testing.T) {
	a := analysed(t, func(r *result.Result) {
		r.Overhead = record.Overhead{PerOpNS: 1250} // a limit of 800 K op/s, as 1.x took it
		for i := range r.Repeats {
			// Three windows at 1 M op/s with 800 ns each, and three at 500 K op/s with 1600 ns.
			slow := i%2 == 1
			overhead := record.Overhead{PerOpNS: 850, ClientNS: 800, DaemonNS: 50}
			if slow {
				overhead = record.Overhead{PerOpNS: 1700, ClientNS: 1600, DaemonNS: 100}
				c := &r.Repeats[i].Ranks[1].Clients[0]
				c.Reads, c.Writes = c.Reads/2, c.Writes/2
				r.Repeats[i].Ranks[0].Daemons[0].Requests /= 2
			}
			r.Repeats[i].Overhead = &overhead
		}
	})
	i := slices.IndexFunc(a.Limit.Bounds,
		func(b LimitBound) bool { return b.Name == "benchmark overhead" })
	near(t, (1250e3+625e3)/2, a.Limit.Bounds[i].Throughput)
	require.LessOrEqual(t, a.Limit.Share, 1.0)

	e, err := gather([]*result.Result{measured(t)})
	require.NoError(t, err)
	require.Len(t, e.windows, 6)
	near(t, 100, e.clientHarness(), "1.x has one for all windows")
	for _, w := range e.windows {
		near(t, 100, w.clientHarness())
	}
}

func TestProcessorTime(t *testing.T) {
	require.Nil(t, analysed(t, nil).Processor)
	busy := func(r *result.Result) {
		each(r, func(d *record.DaemonReport, c *record.ClientReport) {
			d.BusyNS, c.BusyNS = 6e8, 4e8
		})
	}
	a := analysed(t, func(r *result.Result) {
		busy(r)
		for i := range r.Repeats {
			r.Repeats[i].Ranks[0].Process.CPUNS = 1_500_000_000 // half a second of it in helpers
			r.Repeats[i].Ranks[1].Process.CPUNS = 1_000_000_000
			for name, v := range map[string]float64{result.CPUPerOp: 2000, result.BusyPerOp: 1000,
				result.ProcessCPUPerOp: 2500, result.KernelPerOp: 30} {
				r.Repeats[i].Samples[name] = v
			}
		}
	})
	require.Equal(t, "processor time of an operation: 2.00 us of the polling threads, 1.00 us of "+
		"it in iterations that found work; "+
		"2.50 us of the processes, with helper threads; 30.0 ns of the kernel", a.Processor.Message)
	i := slices.IndexFunc(a.Breakdowns, func(b Breakdown) bool { return b.Name == processorName })
	parts := map[string]float64{}
	for _, p := range a.Breakdowns[i].Parts {
		parts[p.Name] = p.Mean
	}
	near(t, 2500, a.Breakdowns[i].Whole)
	require.Equal(t, map[string]float64{"benchmark overhead": 100, "clients": 300, "daemons": 600,
		"client spinning": 600, "daemon spinning": 400, "helpers": 500, Unexplained: 0}, parts)
	require.Empty(t, a.Breakdowns[i].Note)

	open := analysed(t, func(r *result.Result) { busy(r); r.Config.Rate = 1e6 })
	i = slices.IndexFunc(open.Breakdowns, func(b Breakdown) bool { return b.Name == processorName })
	require.Contains(t, open.Breakdowns[i].Note, "spins until its next operation is due")
}

func TestStalls(t *testing.T) {
	require.Nil(t, analysed(t, nil).Stalls)
	a := analysed(t, func(r *result.Result) {
		r.Repeats[1].Stalls = []result.Stall{
			{AtNS: 120e6, ForNS: 74e6, Threads: []string{"client 0 of rank 1",
				"daemon 0 of rank 0"}, Cause: result.CauseMachine},
			{AtNS: 3e6, ForNS: 2e6, Threads: []string{"client 0 of rank 1"},
				Cause: result.CauseSwitch},
		}
		for range 10 {
			r.Repeats[4].Stalls = append(r.Repeats[4].Stalls,
				result.Stall{ForNS: 1e6, Threads: []string{"client 0 of rank 1"},
					Cause: result.CauseSwitch})
		}
	})
	require.Equal(t, 12, a.Stalls.Count)
	near(t, 86e6, a.Stalls.Total)
	require.Equal(t, map[result.Cause]float64{result.CauseMachine: 74e6, result.CauseSwitch: 12e6},
		a.Stalls.Causes)
	require.Len(t, a.Stalls.Longest, longestStalls)
	require.Equal(t, "74.0 ms, 120 ms into window 2: client 0 of rank 1, daemon 0 of rank 0: "+
		"several ranks at once, so the machine",
		a.Stalls.Longest[0].Message)
}

// stalled has calls that took 3.96 us, but for the few that a stall of 10 ms held up, which bring
// the mean to 4 us.
func stalled(t *testing.T, c *record.ClientReport) {
	latency := always(t, 3960)
	c.Latency, c.MeanNS = latency.Histogram, latency.MeanNS
	c.Thread.GapLimitNS, c.Thread.Gaps = 20_000, []record.Gap{{AtNS: 1000, ForNS: 10e6}}
}

// A stall delays a few calls, and in one window the sample contains one of them. The stages of the
// other calls and what the stall adds make up the mean.
func TestStallsAreAPartOfTheMean(t *testing.T) {
	edit := func(r *result.Result) {
		staged(t, 100, 900, 400, 200, 2000, 300)(r)
		each(r, func(_ *record.DaemonReport, c *record.ClientReport) { stalled(t, c) })
		stages := r.Repeats[2].Ranks[1].Clients[0].Stages
		stages[record.StageResponse] = timing(t, map[uint64]int{2000: 999, 10_000_000: 1})
		stages[record.StageFlush] = timing(t, map[uint64]int{200: 999, 10_000_000: 1})
	}
	a := analysed(t, edit)
	parts := map[string]float64{}
	for _, p := range a.Breakdowns[0].Parts {
		parts[p.Label()] = p.Mean
	}
	near(t, 1500, parts["response"])
	require.InEpsilon(t, 40, parts["stalls"], 0.002)
	require.InDelta(t, 4000-3900-40, parts[Unexplained], 5)
	require.Contains(t, a.Breakdowns[0].Note,
		"the stages are of calls of up to 39.8 us, and stalls what slower ones add")
	flush := slices.IndexFunc(a.Overheads, func(o Overhead) bool { return o.Name == "flush" })
	require.InEpsilon(t, 200, a.Overheads[flush].PerOp, 0.01)

	// Parked threads wake up within the transfers.
	a = analysed(t, func(r *result.Result) {
		edit(r)
		r.Config.Idle = config.IdlePark
	})
	for _, p := range a.Breakdowns[0].Parts {
		if p.Name == record.StageRequest {
			require.Equal(t, "the transport, and waiting for a wake-up and for the daemon's poll",
				p.Help)
		}
	}
}

// Calls that are taken apart may be slower than others. The parts are reduced to the mean, and the
// note has by how much.
func TestObserverEffect(t *testing.T) {
	a := analysed(t, func(r *result.Result) {
		staged(t, 100, 900, 400, 200, 2400, 200)(r) // 4.2 us, and 40 ns of stalls
		each(r, func(_ *record.DaemonReport, c *record.ClientReport) { stalled(t, c) })
	})
	b := a.Breakdowns[0]
	require.Contains(t, b.Note, "it still took 6.1% longer than others")
	require.InDelta(t, 0, b.Parts[len(b.Parts)-1].Mean, 1)
}
