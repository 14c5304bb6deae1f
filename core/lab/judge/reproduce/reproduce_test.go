package reproduce

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/record"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/published"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/results"
)

// TestDocuments checks that every description can be read, and that its rows have figures.
func TestDocuments(t *testing.T) {
	names := Names(results.Files)
	require.Contains(t, names, "kvstore")
	for _, name := range names {
		d, err := Load(results.Files, name)
		require.NoError(t, err)
		c, err := d.Compare(set.New())
		require.NoError(t, err)
		require.NotEmpty(t, c.Tables)
		figures := 0
		for _, table := range c.Tables {
			for _, l := range table.Lines {
				require.Equal(t, -1, l.Cell)
				for i, f := range l.Theirs.Figures {
					require.Nil(t, l.Ours.Figures[i])
					if f != nil {
						figures++
					}
				}
			}
		}
		require.Greater(t, figures, 3, name)
		for _, full := range []string{"", "-full"} {
			require.Equal(t, d.Sweep, results.Sweep("reproduce/"+name+full) != nil, name+full)
		}
	}
	_, err := Load(results.Files, "kvstor")
	require.ErrorContains(t, err, `did you mean "kvstore"?`)
}

// TestCompare checks figures, ratios and marks of a row that was measured.
func TestCompare(t *testing.T) {
	d, err := Load(results.Files, "shm")
	require.NoError(t, err)
	s := set.New()
	add := func(micro, size string, samples map[string][]float64) {
		s.Cells = append(s.Cells, set.Cell{Config: map[string]string{"transport": "shm",
			"micro": micro, "value_size": size},
			Status: set.Measured, Environment: -1, Samples: samples})
	}
	add("allocate/dev-shm/make", "1048576", map[string][]float64{"latency_p50": {5000}})
	add("allocate/arena/size-classes", "1048576", map[string][]float64{"latency_p50": {50}})
	add("transfer/copy-in", "4096", map[string][]float64{"goodput": {10e9}})
	add("transfer/memcpy", "4096", map[string][]float64{"goodput": {40e9}})
	c, err := d.Compare(s)
	require.NoError(t, err)
	table := &c.Tables[0]
	line := func(name string) *Line {
		for i := range table.Lines {
			if table.Lines[i].Name == name {
				return &table.Lines[i]
			}
		}
		t.Fatalf("no line %q", name)
		return nil
	}
	allocation := line("allocation, 3 system calls")
	require.Equal(t, &Figure{Value: 5000, Unit: "ns", samples: []float64{5000}},
		allocation.Ours.Figures[0])
	require.Equal(t, []string{"no interval, for which 6 repeats are needed"},
		allocation.Doubts)
	require.Equal(t, &Figure{Value: 10e3, To: 50e3, Unit: "ns"}, allocation.Theirs.Figures[0])
	speedup := line("speed-up, claimed 100")
	require.Equal(t, &Figure{Value: 100, Unit: "ratio"}, speedup.Ours.Figures[0])
	require.Equal(t, &Figure{Value: 20, To: 500, Unit: "ratio"}, speedup.Theirs.Figures[0])
	require.Empty(t, line("speed-up, claimed 100").Verdict, "without intervals")
	require.InDelta(t, 4, line("memory transfer, 4 KiB").Ours.XFloor, 1e-9)
	require.Equal(t, "not measured", line("memory transfer, 64 MiB").Missing)
	counted := &Row{Name: "ring", Ours: []string{"micro=transfer/memcpy"}, Needs: "counters"}
	ipc := &Table{Columns: []Column{{Name: "IPC", Ours: []string{"counters.ipc"}}}}
	l, err := d.line(s, state.Shown{}, ipc, counted)
	require.NoError(t, err)
	require.Equal(t, "needs counters", l.Missing, "it was measured without this figure")
	require.NotEmpty(t, table.Wrong)
	require.Contains(t, table.Wrong[0].Cells, "memory transfer, 4 KiB")
}

// TestCompareIntervals: figures and ratios of enough repeats have an interval and a verdict, and a
// reader is warned of repeats that lie far apart.
func TestCompareIntervals(t *testing.T) {
	d, err := Load(results.Files, "shm")
	require.NoError(t, err)
	s := set.New()
	for micro, samples := range map[string][]float64{
		"allocate/dev-shm/make":        {5000, 5100, 5200, 4900, 4800, 12000},
		"allocate/arena/size-classes":  {50, 51, 52, 49, 48, 50},
		"lookup/linear/100/hit":        {60, 61, 62, 63, 64, 65},
		"lookup/arithmetic/100/hit":    {60, 61, 62, 63, 64, 65},
		"lookup/arithmetic/10000/miss": {1},
	} {
		s.Cells = append(s.Cells, set.Cell{Config: map[string]string{"transport": "shm",
			"micro": micro, "value_size": "1048576"}, Status: set.Measured, Environment: -1,
			Samples: map[string][]float64{"latency_p50": samples}})
	}
	c, err := d.Compare(s)
	require.NoError(t, err)
	table := &c.Tables[0]
	at := slices.IndexFunc(table.Lines, func(l Line) bool {
		return l.Name == "speed-up, claimed 100"
	})
	require.Equal(t, "5.05 us (4.80 to 12.0)", table.Lines[0].Ours.Figures[0].String())
	require.Equal(t, []string{"the repeats lie apart by more than a factor of 2"},
		table.Lines[0].Doubts)
	require.Equal(t, "by the 95% interval: time is larger (published 20.0 to 500, overlapping the "+
		"interval)", table.Lines[at].Verdict)
	require.Equal(t, table.Lines[0].Doubts, table.Lines[at].Doubts, "of the two rows")
	speedup := table.Lines[at].Ours.Figures[0]
	require.InDelta(t, 101, speedup.Value, 1e-9)
	require.Less(t, *speedup.Low, 101.0)
	require.Greater(t, *speedup.High, 101.0)
	ours, _, texts := table.Remarks()
	require.NotEmpty(t, ours[at])
	require.Contains(t, strings.Join(texts, "\n"), "by the 95% interval: time is larger")
	at = slices.IndexFunc(table.Lines, func(l Line) bool {
		return l.Name == "speed-up, claimed 10 to 100"
	})
	require.Equal(t, "by the 95% interval: time cannot be told apart (published 10.0 to 200, "+
		"outside the interval)", table.Lines[at].Verdict)
}

// TestCompareShownWindows: figures are of the windows that tables show, and a relation of lines in
// two states of the machine is doubted.
func TestCompareShownWindows(t *testing.T) {
	d, err := Load(results.Files, "shm")
	require.NoError(t, err)
	s := set.New()
	add := func(micro string, near, far int, nearTime, farTime float64) {
		c := set.Cell{Config: map[string]string{"transport": "shm", "micro": micro,
			"value_size": "1048576"}, Status: set.Measured, Environment: -1}
		var times []float64
		for i := range near + far {
			distance, time := 50+float64(i)/10, nearTime
			if i >= near {
				distance, time = 300+float64(i)/10, farTime
			}
			c.Windows = append(c.Windows,
				set.Window{DistanceBefore: distance, DistanceAfter: distance})
			times = append(times, time+float64(i))
		}
		c.Samples = map[string][]float64{result.LatencyP50: times}
		s.Cells = append(s.Cells, c)
	}
	add("allocate/dev-shm/make", 7, 8, 5000, 9000)
	add("allocate/arena/size-classes", 8, 2, 50, 90)
	add("lookup/linear/100/hit", 8, 2, 60, 90)
	add("lookup/arithmetic/100/hit", 8, 2, 60, 90)
	c, err := d.Compare(s)
	require.NoError(t, err)
	line := func(name string) *Line {
		at := slices.IndexFunc(c.Tables[0].Lines, func(l Line) bool { return l.Name == name })
		return &c.Tables[0].Lines[at]
	}
	far, near := line("allocation, 3 system calls"), line("allocation from an arena")
	require.Equal(t, "8 far", far.Windows)
	require.Equal(t, "9.01 us (9.01 to 9.01)", far.Ours.Figures[0].String())
	require.Equal(t, "8 near", near.Windows)
	require.Len(t, near.Ours.Figures[0].samples, 8)
	require.Equal(t, []string{"the windows differ in the state of the machine: 8 far and 8 near"},
		line("speed-up, claimed 100").Doubts)
	require.Empty(t, line("speed-up, claimed 10 to 100").Doubts)
}

// TestRelations: a relation lies within its interval, which is of another estimate, and rows may
// have differences.
func TestRelations(t *testing.T) {
	side := func(samples ...float64) Side {
		m := result.Summarize("latency_p50", samples)
		return Side{Figures: []*Figure{{Value: m.Median, Unit: "ns", Low: m.Low, High: m.High,
			samples: samples}}}
	}
	// Chance decides which of two kinds of windows is in the middle of a side.
	windows := func(slow int) []float64 {
		return append(slices.Repeat([]float64{100}, 40-slow),
			slices.Repeat([]float64{900}, slow)...)
	}
	a, b := side(windows(19)...), side(windows(21)...)
	for _, relation := range []relation{ratio, difference} {
		s := Side{Figures: make([]*Figure, 1)}
		s.relate(a, b, relation)
		f := s.Figures[0]
		require.LessOrEqual(t, *f.Low, f.Value)
		require.GreaterOrEqual(t, *f.High, f.Value)
	}
	s := Side{Figures: make([]*Figure, 1)}
	s.relate(side(14, 15, 16, 17, 18, 19), side(4, 5, 6, 7, 8, 9), difference)
	require.Equal(t, "ns", s.Figures[0].Unit)
	require.InDelta(t, 10, s.Figures[0].Value, 1e-9)
	require.Equal(t, "by the 95% interval: time is larger",
		(&Line{Ours: s, Theirs: Side{Figures: make([]*Figure, 1)}}).verdict([]string{"time"},
			difference.same))
}

// TestWarningsBesideAContradiction: a row that contradicts itself keeps its other warnings.
func TestWarningsBesideAContradiction(t *testing.T) {
	d := &Document{Published: &published.Document{Rows: []published.Row{{Name: "theirs",
		Contradiction: "1 is not 2",
		Config:        map[string]string{"transport": "shm"},
		Limits:        []published.Limit{{What: "1", Value: 2, Limit: 1, Unit: "ns"}},
		Ratios: []published.Ratio{{What: "speed-up:", From: []float64{10, 50},
			To: []float64{1}, Unit: "ns", Claimed: []float64{20, 50}}},
	}}}}
	var wrong set.WarningGroups
	d.warn(&wrong, &Row{Name: "ours", Theirs: []string{"theirs"}})
	list := wrong.List()
	require.Len(t, list, 2, "%+v", list)
	require.Equal(t, "1 is not 2", list[0].Message)
	require.Contains(t, list[1].Message, "speed-up")
}

// TestRemarks: each text has a mark of its own, also the 30th.
func TestRemarks(t *testing.T) {
	table := &ComparedTable{}
	for i := range 30 {
		table.Lines = append(table.Lines, Line{Name: strconv.Itoa(i),
			Missing: "needs " + strconv.Itoa(i), Doubts: []string{"shared"}})
	}
	marks, _, texts := table.Remarks()
	require.Equal(t, "a b", marks[0])
	require.Equal(t, "c b", marks[1])
	require.Equal(t, "ae b", marks[29])
	require.Len(t, texts, 31)
	require.Equal(t, "ae: needs 29", texts[30])
}

// TestOversubscribed: a row says that its threads took turns, even if it needs no hardware.
func TestOversubscribed(t *testing.T) {
	s := set.New()
	s.Cells = append(s.Cells, set.Cell{Config: map[string]string{"transport": "shm"},
		Status: set.Measured, Environment: -1, Samples: map[string][]float64{"throughput": {1}},
		Warnings: []result.Finding{{Name: "oversubscribed", Severity: result.Warning}}})
	l, err := new(Document).line(s, state.Shown{}, &Table{}, &Row{Name: "16 clients",
		Ours: []string{"transport=shm"}})
	require.NoError(t, err)
	require.Contains(t, l.Doubts, "more polling threads than processors")
}

// TestFigures reads figures that no metric has from a result.
func TestFigures(t *testing.T) {
	h := record.NewHistogram()
	for _, ns := range []uint64{900, 1900, 2900, 3900} {
		h.Record(ns)
	}
	stage := record.TimingReport{Histogram: h.Encode(), MeanNS: 2400, Samples: h.Count()}
	stages := map[string]record.TimingReport{}
	for _, name := range record.StageNames {
		stages[name] = stage
	}
	thread := record.ThreadReport{Counters: map[string]uint64{"instructions": 300, "cycles": 100}}
	repeat := result.Repeat{Ranks: []record.Report{{
		Daemons: []record.DaemonReport{{Thread: thread, Loops: 100, Requests: 10,
			BusyNS: 250, ElapsedNS: 1000,
			Proxy: &record.ProxyReport{FromClients: 5, Incoming: 5}}},
		Clients: []record.ClientReport{{Thread: thread, Stages: stages,
			Remote: &record.TimingReport{Histogram: h.Encode(), MeanNS: 2400,
				Samples: h.Count()}}},
	}}}
	cell := &set.Cell{Config: map[string]string{"transport": "copyrpc"}, Status: set.Measured,
		Environment: -1,
		Samples:     map[string][]float64{"throughput": {1e6, 2e6, 2e6, 2e6, 2e6, 4e6}},
		Results:     []*result.Result{{Repeats: []result.Repeat{repeat}}}}
	f := &figures{set: set.New(), cell: cell}
	for name, want := range map[string]float64{"remote.2000": 0.5, "counters.ipc": 3,
		"op_time": 500, "loops.per_request": 20, "loops.busy": 0.25,
		"stages.daemon_to_flush":                       2400,
		"stages.client_to_daemon+completion_to_client": 4800} {
		got, err := f.figure(name)
		require.NoError(t, err, name)
		require.InDelta(t, want, got.Value, 1e-6, name)
	}
	cell.Samples["counters.ipc"] = []float64{1.5}
	got, err := f.figure("counters.ipc")
	require.NoError(t, err)
	require.InDelta(t, 1.5, got.Value, 1e-9, "of a microbenchmark")
	got, err = f.figure("op_time")
	require.NoError(t, err)
	require.Equal(t, []float64{250, 500, 500, 500, 500, 1000}, got.samples)
	for _, name := range []string{"counters.llc_miss", "writes.messages", "phases.loop.p50",
		"floor"} {
		got, err := f.figure(name)
		require.NoError(t, err, name)
		require.Nil(t, got, name)
	}
}
