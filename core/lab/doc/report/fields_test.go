package report

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// twoStates returns a set of closed loops with 1 and 32 calls in flight, whose windows were in two
// states of the machine, and whose calls have stages.
func twoStates(t *testing.T) *set.Set {
	t.Helper()
	dir := t.TempDir()
	for i, inFlight := range []int{1, 32} {
		r := fake(t, load{transport: "shm", inFlight: inFlight, size: 32}, 8, 1, uint64(i))
		for j := range r.Repeats {
			repeat := &r.Repeats[j]
			repeat.Before.CoreDistance, repeat.After.CoreDistance = 50, 52
			repeat.Samples[result.FloorRatio], repeat.Samples[result.OpTimeRatio] = 5, 5
			if j >= 5 {
				repeat.Samples[result.FloorRatio], repeat.Samples[result.OpTimeRatio] = 2, 2
				repeat.Before.CoreDistance, repeat.After.CoreDistance = 400, 410
				repeat.Samples[result.Throughput] /= 2
			}
			repeat.Samples[result.LibraryRatio], repeat.Samples[result.BareRatio] = 1.5, 1.31
			c := &repeat.Ranks[1].Clients[0]
			latency := record.NewHistogram()
			latency.Record(1000)
			c.Latency, c.MeanNS, c.InFlightNS = latency.Encode(), 1000, 1000*c.Ops()
			c.StageNS, c.Stages = 20, map[string]record.TimingReport{}
			for _, name := range record.DirectStages {
				c.Stages[name] = record.TimingReport{Histogram: oneTime(), MeanNS: 150, Samples: 10}
			}
			repeat.Stalls = []result.Stall{
				{AtNS: 1e6, ForNS: 2e6, Threads: []string{"client 0 of rank 1"},
					Cause: result.CauseSwitch}}
		}
		put(t, filepath.Join(dir, fmt.Sprintf("%04d.json", i)), r)
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	return s
}

func TestStatesAndRatiosByLoad(t *testing.T) {
	p := build(t, twoStates(t))
	for name, in := range map[string]int{result.FloorRatio: 0, result.LibraryRatio: 0,
		result.OpTimeRatio: 1} {
		at := slices.IndexFunc(p.doc.Metrics, func(m metricColumn) bool { return m.Name == name })
		require.NotNil(t, p.doc.Metrics[at].Values[in], name)
		require.Nil(t, p.doc.Metrics[at].Values[1-in], "%s means nothing for the other load", name)
	}
	for _, states := range p.doc.Cells.States {
		var rates [2]float64
		_, err := fmt.Sscanf(states, "near %f M op/s, 5.00 x the floor (5 windows); "+
			"far %f M op/s, 2.00 x the floor (3 windows)", &rates[0], &rates[1])
		require.NoError(t, err, states)
		require.InEpsilon(t, 2, rates[0]/rates[1], 0.2)
	}

	b := newTab(t)
	b.open(rendered(t, p))
	text := eval[string](b, `document.getElementById("all-table").innerText`)
	for _, want := range []string{"x library", "1.50", "p50/bare", "1.31", "states", "near",
		"5.00 x the floor (5 windows); far", "2.00 x the floor (3 windows)", "service p50"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "p99", "closed loops have no tails")
	require.Contains(t, eval[string](b, `document.getElementById("strip").innerText`),
		"in 5 near windows")
	eval[bool](b, `(() => { location.hash = "#cell-0"; return true; })()`)
	b.await(`document.getElementById("page").innerText.includes("Analysis")`)
	page := eval[string](b, `document.getElementById("page").innerText`)
	require.Contains(t, page,
		"2.00 ms, 1.00 ms into window 1: client 0 of rank 1: the scheduler ran another thread")
	require.Contains(t, page, "request: medium")
	require.Contains(t, page,
		"over 5 near windows, as in the tables; by state of the machine: 5 near, 3 far")
	require.NotContains(t, page, "[object")
	require.Contains(t, page, "taking it cost such a call 20.0 ns")
}

// The floor of the medium, of 121 ns, is drawn inside of the two transfers.
func TestMediumInsideTheTransfers(t *testing.T) {
	p := build(t, twoStates(t))
	require.Equal(t, "Operation", p.phases[0].Title)
	var texts []string
	var before bar
	for _, bar := range p.phases[0].Loads[0].Rows[0].Bars {
		texts = append(texts, bar.Text)
		if bar.Inset {
			require.Equal(t, before.X, bar.X)
			require.InEpsilon(t, 60.5/150, bar.W/before.W, 1e-9)
		}
		before = bar
	}
	require.Equal(t, []string{
		"client: 150 ns, 15.0%", "request: 150 ns, 15.0%", "request: medium: 60.5 ns, 6.05%",
		"serve: 150 ns, 15.0%", "flush: 150 ns, 15.0%",
		"response: 150 ns, 15.0%", "response: medium: 60.5 ns, 6.05%",
		"client_return: 150 ns, 15.0%", "unexplained: 100 ns, 10.0%",
	}, texts)
	table := p.doc.Tables.Stacks[0].Table
	require.Contains(t, table.Open, ">medium</th>")
	require.Contains(t, table.Rows[0], ">121 ns</td>", "the table has both halves")
}
