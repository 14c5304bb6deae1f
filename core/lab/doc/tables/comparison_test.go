package tables

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/doc"
	"transportbench/core/lab/doc/doctest"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// A fact of the machine is no reason to doubt one row, and is written once.
func TestMachineFactsOnce(t *testing.T) {
	fact := result.Finding{Name: "spare_processor", Severity: result.Info,
		Message: "2 threads take all 2 processors", Scope: result.ScopeMachine}
	own := result.Finding{Name: "fairness", Severity: result.Warning, Message: "one is slow"}
	s := set.New()
	for _, transport := range []string{"shm", "erpc"} {
		s.Cells = append(s.Cells, set.Cell{
			Config:   map[string]string{"transport": transport, "profile": "kv"},
			Warnings: []result.Finding{fact, own},
		})
	}
	var out bytes.Buffer
	write(&out, Warnings(s))
	require.Equal(t, `warning: fairness: shm, erpc: one is slow

1 more finding:
info: this machine: spare_processor: 2 threads take all 2 processors
`, out.String())
	require.Equal(t, "1 warning", CellChecks(&s.Cells[0]).Text)
	write(&out, Oversubscribed(s))
	require.NotContains(t, out.String(), "OVERSUBSCRIBED")
	shared := fact
	shared.Name = "oversubscribed"
	for i := range s.Cells {
		s.Cells[i].Warnings = append(s.Cells[i].Warnings, shared)
	}
	out.Reset()
	write(&out, Tables(s))
	require.True(t, strings.HasPrefix(out.String(),
		"OVERSUBSCRIBED: 2 threads take all 2 processors. "), out.String())
	require.Equal(t, 1, strings.Count(out.String(), "OVERSUBSCRIBED"))
	s.Cells[0].Warnings = []result.Finding{fact}
	require.Equal(t, "ok", CellChecks(&s.Cells[0]).Text)
}

// A doubt about the stages concerns their table alone: rows do not count it, and lists fold it.
func TestStagesAreADetail(t *testing.T) {
	s := set.New()
	s.Cells = []set.Cell{{Config: map[string]string{"transport": "shm"}, Warnings: []result.Finding{
		{Name: "stages", Severity: result.Warning, Message: "they explain 80%"}}}}
	require.Equal(t, "ok", CellChecks(&s.Cells[0]).Text)
	for _, list := range []*doc.Doc{Warnings(s), FewWarnings(set.Warnings(s))} {
		var out bytes.Buffer
		write(&out, list)
		require.True(t, strings.HasPrefix(out.String(), "\n1 "), out.String())
	}
}

// The tables of a set with one rank and several have the slowdown.
func TestTablesHaveSlowdowns(t *testing.T) {
	s := set.New()
	for ranks, rate := range map[int]float64{1: 3e6, 2: 1.5e6} {
		r := sample("shm", "kv", rate)
		r.Config.Topology, r.Config.Ranks = config.TopologyMeshDirect, ranks
		r.Repeats = []result.Repeat{{Samples: map[string]float64{result.Throughput: rate}}}
		require.NoError(t, s.Add(r))
	}
	var out bytes.Buffer
	write(&out, Tables(s))
	require.Regexp(t, `shm ranks=2 +1\.50 M op/s +3\.00 M op/s +2\.00`, out.String())
}

// drawn describes a transport that drew windows in two states of the machine.
type drawn struct {
	transport         string
	near, far         int     // windows
	nearRate, farRate float64 // op/s
	nearRatio         float64 // p50 over the floor; far it is half
}

// setOf returns a set of cells with one load.
func setOf(t *testing.T, cells ...drawn) *set.Set {
	t.Helper()
	s := set.New()
	for _, c := range cells {
		require.NoError(t, s.Add(sampleOf(c)))
	}
	return s
}

func sampleOf(c drawn) *result.Result {
	r := sample(c.transport, "pingpong", 1e6)
	r.Config.InFlight, r.Repeats = 1, nil
	r.Config.Repeats = c.near + c.far
	for i := range c.near + c.far {
		distance, rate, ratio := 300+float64(i)/10, c.farRate, c.nearRatio/2
		if i >= c.far {
			distance, rate, ratio = 50+float64(i)/10, c.nearRate, c.nearRatio
		}
		r.Repeats = append(r.Repeats,
			result.Repeat{Launch: i, StartedAt: time.Unix(int64(i), 0),
				Samples: map[string]float64{
					result.Throughput: rate, result.LatencyP50: 1e9 / rate,
					result.Floor: 1e9 / rate / ratio, result.FloorRatio: ratio,
					result.Bare: 1e9 / rate / 2, result.BareRatio: 2,
				}, Before: result.Readings{CoreDistance: distance},
				After: result.Readings{CoreDistance: distance}})
	}
	return r
}

// misleading lists transports that figures over all windows rank wrongly: quick is the fastest in
// each state and nearest to the floor, but drew the far cores more often, where the ratio of any
// transport is smaller.
var misleading = []drawn{
	{"slow", 4, 6, 2e6, 1e6, 9},
	{"quick", 3, 7, 3e6, 1.5e6, 8},
	{"slowest", 10, 0, 1.6e6, 0, 10},
}

// All rows of a load show the windows in one state, though the median over all windows would rank
// them otherwise. The table by state has the ratio in each.
func TestRowsInCommonState(t *testing.T) {
	s := setOf(t, misleading...)
	for _, wrong := range []string{"quick", "slow"} { // over all windows
		i := slices.IndexFunc(s.Cells, func(c set.Cell) bool { return c.Transport() == wrong })
		require.Less(t, s.Cells[i].Median(result.Throughput), 1.6e6)
	}
	var out bytes.Buffer
	write(&out, Comparison(s))
	rows, byState, found := strings.Cut(out.String(), "by state of the machine")
	require.True(t, found, out.String())
	require.Regexp(t, `(?s) p50 +far op/s .*`+
		`quick +memfd +3 near +3\.00 M op/s +- +333 ns +1\.50 M +41\.7 ns +8\.00 +167 ns +2\.00 .*`+
		`slow +memfd +4 near +2\.00 M op/s +- +500 ns +1\.00 M +55\.6 ns +9\.00 +250 ns +2\.00 .*`+
		`slowest +memfd +10 near +1\.60 M op/s +1\.60 to 1\.60 +625 ns +- +62\.5 ns +10\.0 +312 ns +2\.00 .*state: the windows of a row`, rows)
	require.NotContains(t, rows, "near op/s  ", "all rows show that state")
	require.Regexp(t,
		`(?s)quick +3\.00 M op/s +333 ns +8\.00 +1\.50 M op/s +667 ns +4\.00 +3 near, 7 far.*slow .*slowest +1\.60 M op/s +625 ns +10\.0 +- +- +- +10 near`, byState)

	out.Reset()
	write(&out, Comparison(setOf(t, drawn{"quick", 10, 0, 3e6, 0, 8})))
	require.NotContains(t, out.String(), "state", "there is one state only")
}

// A cell without readings of the machine's state, such as a published one, does not hide the common
// state of the others.
func TestRowWithoutState(t *testing.T) {
	s := setOf(t, misleading...)
	published := set.Cell{Config: maps.Clone(s.Cells[0].Config), Status: set.Published,
		Samples: map[string][]float64{result.Throughput: {1.8e6}}}
	published.Config["transport"] = "paper"
	s.Cells = append(s.Cells, published)
	var out bytes.Buffer
	write(&out, Comparison(s))
	require.Regexp(t,
		`(?s)quick +memfd +3 near .*slow +memfd +4 near .*paper +- +1\.80 M op/s +-.*slowest +memfd +10 near `, out.String())
}

// If no state is common to all rows of a load, their order is that of `diff --along transport`.
func TestOrderWithoutCommonState(t *testing.T) {
	s := setOf(t, drawn{"unlucky", 0, 10, 0, 0.9e6, 8}, drawn{"lucky", 10, 0, 1.5e6, 0, 8},
		drawn{"both", 5, 5, 1e6, 0.4e6, 9})
	var out bytes.Buffer
	write(&out, Comparison(s))
	require.Regexp(t,
		`(?s)unlucky +memfd +all 10 +900 K op/s .*lucky +memfd +all 10 +1\.50 M op/s .*both +memfd +all 10 `, out.String())
	ranking, err := compare.Along(s, "transport", compare.Defaults())
	require.NoError(t, err)
	var order []string
	for _, c := range ranking.Groups[0].List {
		order = append(order, c.Value)
	}
	require.Equal(t, []string{"unlucky", "lucky", "both"}, order)
}

// The summary of the standard comparison fits a screen of 120 columns: a row for each cell with its
// interval and both states, if windows were in both, verdicts, and at most three findings.
func TestSummaryFitsAScreen(t *testing.T) {
	summary := func(path string) []string {
		s, err := set.Load("../../../../" + path)
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, doc.WriteText(&out, Tables(s).Folded("-v"), doc.Screen{Width: 120}))
		lines := strings.Split(out.String(), "\n")
		require.LessOrEqual(t, len(lines), len(s.Cells)+20, out.String())
		for _, column := range []string{"load", "transport", "state", "95% interval", "p50",
			"op/floor", "checks"} {
			require.Contains(t, lines[0], column)
		}
		return lines
	}
	require.Contains(t, summary("results/v0.8.0/amd-epyc-2core-vm")[0], "far op/s")
	lines := summary(doctest.Standard)
	rows := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !strings.HasPrefix(line, "kv ")
	})
	require.Regexp(t, `^kv +shm `, rows[0])
	require.Regexp(t, `^kv track=matched +erpc `, rows[8], "below the load that it has in common")
}

// The tables of the standard comparison fit a terminal of 160 columns.
func TestComparisonFitsATerminal(t *testing.T) {
	requireFits(t, 160, Comparison)
}

// requireFits checks that what write prints of the standard comparison fits a terminal.
func requireFits(t *testing.T, columns int, of func(*set.Set) *doc.Doc) {
	t.Helper()
	s, err := set.Load("../../../../results/v0.5.0/amd-epyc-2core-vm")
	require.NoError(t, err)
	var out bytes.Buffer
	write(&out, of(s))
	require.Greater(t, strings.Count(out.String(), "\n"), len(s.Cells))
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")),
			columns, line)
	}
}

// An interval over repeats of one launch says so.
func TestIntervalWithinLaunch(t *testing.T) {
	for _, within := range []bool{true, false} {
		r := sample("shm", "kv", 1e6)
		r.Config.Repeats, r.Repeats = 6, nil
		if within {
			r.Config.Launches = 1
		}
		for i := range 6 {
			launch := i
			if within {
				launch = 0
			}
			r.Repeats = append(r.Repeats,
				result.Repeat{Launch: launch, Samples: map[string]float64{result.Throughput: 1e6 +
					float64(i)}})
		}
		var one, table bytes.Buffer
		write(&one, Result(r))
		s := set.New()
		require.NoError(t, s.Add(r))
		write(&table, Comparison(s))
		for _, text := range []string{one.String(), table.String()} {
			require.Equal(t, within, strings.Contains(text, "within one process start"), text)
		}
	}
}

// The table of a single result and chosen columns show the windows that the comparison shows.
func TestWindowsOfAResult(t *testing.T) {
	r := sampleOf(drawn{"shm", 7, 3, 2e6, 1e6, 3})
	var out bytes.Buffer
	write(&out, Result(r))
	require.Contains(t, out.String(), "\nwindows: 7 near of 10\n")
	require.Regexp(t, `throughput +2\.00 M op/s`, out.String())
	require.Regexp(t, `floor_ratio +3\.00 `, out.String())
	require.Regexp(t, `latency_p99 +1\.41 us`, out.String(), "measured once")
}

// A ratio is void if the windows that a row shows beat the floor, whatever those of other states
// do.
func TestVoidByState(t *testing.T) {
	s := setOf(t, drawn{"above", 6, 4, 2e6, 1e6, 1.8}, drawn{"below", 6, 4, 2e6, 1e6, 0.9})
	beaten := result.Finding{Name: set.FloorBeaten, Severity: result.Warning,
		Message: "over all windows"}
	for i := range s.Cells {
		s.Cells[i].Warnings = append(s.Cells[i].Warnings, beaten)
	}
	shown := state.ShownOf(s)
	rows := shownCells([]*set.Cell{&s.Cells[0], &s.Cells[1]}, shown)
	require.Equal(t, "6 near", shown.Windows(&s.Cells[0]))
	require.Equal(t, "1.80", Figure(rows[0], result.FloorRatio).Text, "0.9 in the far windows")
	require.Equal(t, "ok", CellChecks(rows[0]).Text)
	require.Equal(t, "void", Figure(rows[1], result.FloorRatio).Text)
	require.Equal(t, "1 warning", CellChecks(rows[1]).Text)
	require.NotEqual(t, "void", Figure(rows[1], result.BareRatio).Text)
	ratios := shown.Ratios(&s.Cells[0])
	require.Len(t, ratios, 1)
	require.Equal(t, "near", ratios[0].State)
	require.Empty(t, shown.Ratios(&s.Cells[1]))
	var out bytes.Buffer
	write(&out, Warnings(s))
	require.Contains(t, out.String(), "floor_beaten: below: in 6 of 6 windows the transport was")
	require.NotContains(t, out.String(), "above")
	out.Reset()
	write(&out, Figures("", rows[1], []string{result.FloorRatio}))
	require.Regexp(t, `floor_ratio +void +- +6 `, out.String())
}
