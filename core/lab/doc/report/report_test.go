package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/lab/doc/export"
	"transportbench/core/lab/doc/report/cellpage"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/format"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// The figures of the page are of the samples that export writes, and formatted as in the terminal.
func TestFiguresAreThoseOfExport(t *testing.T) {
	for name, s := range map[string]*set.Set{"committed": committed(t),
		"fixture": fakeSet(t, loads(), 7, 1)} {
		t.Run(name, func(t *testing.T) {
			s.Sort()
			var text bytes.Buffer
			require.NoError(t, export.CSV(&text, s))
			rows, err := csv.NewReader(&text).ReadAll()
			require.NoError(t, err)
			p := build(t, s)
			var onPage document
			unpacked(t, rendered(t, p), "data", &onPage)
			require.Len(t, onPage.Cells.Names, len(s.Cells))
			for _, m := range onPage.Shown {
				for i, v := range metricIn(t, p.doc, m.Name).Values {
					if v == nil {
						require.Nil(t, m.Median[i])
						continue
					}
					require.Equal(t, format.Value(*v), m.Text[i])
					require.Equal(t, format.Interval(*v), m.Interval[i])
				}
			}
			shown := state.ShownOf(s)

			repeat := columnOf(t, rows[0], "repeat")
			cell, compared := -1, 0
			exported := make([]map[string][]float64, len(s.Cells))
			for _, row := range rows[1:] {
				if row[repeat] == "0" {
					cell++
					exported[cell] = map[string][]float64{}
				}
				for i := repeat + 1; i < len(row); i++ {
					if row[i] == "" {
						continue
					}
					v, err := strconv.ParseFloat(row[i], 64)
					require.NoError(t, err)
					metric, _, _ := strings.Cut(rows[0][i], " ")
					exported[cell][metric] = append(exported[cell][metric], v)
				}
			}
			for i, want := range exported {
				require.Equal(t, want, s.Cells[i].Samples, p.doc.Cells.Label[i])
				for _, m := range p.doc.Metrics {
					if len(want[m.Name]) == 0 {
						require.Nil(t, m.Values[i])
						continue
					}
					if shown.Cell(&s.Cells[i]).Void(m.Name) {
						require.Nil(t, m.Values[i])
						continue
					}
					// the percentile of all windows together
					if strings.HasPrefix(m.Name, "response_") {
						p, known := s.Cells[i].Pooled[m.Name]
						require.Equal(t, known, m.Values[i] != nil)
						if known {
							require.Equal(t, p.Value, m.Values[i].Median)
						}
						continue
					}
					summary := result.Summarize(m.Name, want[m.Name])
					if c := &s.Cells[i]; shown.State(c) != "" {
						summary, _ = shown.Cell(c).Metric(m.Name)
					}
					require.Equal(t, summary, *m.Values[i])
					compared++
				}
			}
			require.Greater(t, compared, 50)
		})
	}
}

func columnOf(t *testing.T, header []string, name string) int {
	t.Helper()
	for i, h := range header {
		if h == name {
			return i
		}
	}
	t.Fatalf("no column %q", name)
	return 0
}

// A spectrum has the percentiles of the merged histograms, as export's tables do, and ends where
// fewer than ten samples remain.
func TestSpectrumIsOfMergedHistograms(t *testing.T) {
	s := fakeSet(t, loads()[:1], 6, 1)
	p := build(t, s)
	d := detailsIn(t, rendered(t, p), p.doc)[0]
	results, err := s.Results(&s.Cells[0])
	require.NoError(t, err)
	var encoded []string
	for _, r := range results[0].Repeats {
		encoded = append(encoded, r.Latency)
	}
	merged, err := result.Histograms(encoded...)
	require.NoError(t, err)
	require.EqualValues(t, 24000, merged.Count())
	for i, v := range d.Service {
		require.Equal(t, merged.Quantile(cellpage.Grid()[i]), v)
	}
	last := cellpage.Grid()[len(d.Service)-1]
	require.GreaterOrEqual(t, 24000*(1-last), 10.0)
	require.Less(t, 24000*(1-cellpage.Grid()[len(d.Service)]), 10.0)
	require.Empty(t, d.Response)
}

// Closed and open loops never share a curve; one has service times, the other response times.
func TestLoopsStayApart(t *testing.T) {
	s := fakeSet(t, loads(), 6, 1)
	p := build(t, s)
	seen := map[bool]int{}
	for _, c := range p.doc.Curves {
		require.Equal(t, c.Open, strings.HasPrefix(c.Metric, "response_"), c.Label)
		for _, point := range c.Points {
			require.Equal(t, c.Open, s.Cells[point.Cell].OpenLoop(), c.Label)
			require.Equal(t, c.Series, p.doc.Cells.Series[point.Cell])
		}
		seen[c.Open] += len(c.Points)
	}
	require.Equal(t, 9, seen[true])
	require.Equal(t, 21, seen[false])
}

func TestObjectiveChoosesTheStrip(t *testing.T) {
	objective, err := analyze.ParseObjective("p99<3us")
	require.NoError(t, err)
	s := fakeSet(t, loads(), 6, 1)
	p, err := Build(context.Background(), []*set.Set{s},
		Options{Objective: &objective, Compare: compare.Defaults()})
	require.NoError(t, err)
	chosen := 0
	for _, c := range p.doc.Curves {
		if c.Peak < 0 || c.Open {
			continue
		}
		chosen++
		m := metricIn(t, p.doc, result.LatencyP99)
		throughput := metricIn(t, p.doc, result.Throughput)
		require.Less(t, m.Values[c.Peak].Median, 3000.0)
		for _, point := range c.Points {
			if *m.Values[point.Cell].High < 3000 {
				require.LessOrEqual(t, throughput.Values[point.Cell].Median,
					throughput.Values[c.Peak].Median)
			}
		}
	}
	require.Positive(t, chosen)
	require.Contains(t, string(rendered(t, p)), "Most throughput with p99&lt;3us")
}

func metricIn(t *testing.T, doc *document, name string) *metricColumn {
	t.Helper()
	for i := range doc.Metrics {
		if doc.Metrics[i].Name == name {
			return &doc.Metrics[i]
		}
	}
	t.Fatalf("no metric %s", name)
	return nil
}

func TestTitleSaysMachineVersionAndDate(t *testing.T) {
	p := build(t, fakeSet(t, loads()[:2], 6, 1))
	require.Equal(t, "Some CPU, 8 cores, bare metal, version 0.3.0, 2026-03-04", p.Title())
	require.Contains(t, string(rendered(t, p)),
		"<title>Some CPU, 8 cores, bare metal, version 0.3.0, 2026-03-04 · transportbench</title>")
}

func TestSeveralSets(t *testing.T) {
	old, new, far := fakeSet(t, loads(), 10, 1), fakeSet(t, loads(), 10, 1.3),
		fakeSet(t, loads(), 10, 1)
	old.Source, new.Source, far.Source = "results/v1/box", "results/v2/box", "results/v3/box"
	far.Environments[0].Identity["cpu"] = "Other CPU"
	p := build(t, old, new, far)
	require.Equal(t, "v1", p.doc.Sets[0].Name)
	require.Len(t, p.doc.Diffs, 2)
	report := p.doc.Diffs[1].Report
	require.NotNil(t, report)
	for i, c := range report.Changes {
		at := p.doc.Diffs[1].Cells[i]
		require.Equal(t, 1, p.doc.Cells.Set[at])
		if c.Metric == result.Throughput && !new.Cells[at-len(far.Cells)].OpenLoop() {
			require.Equal(t, compare.Worse, c.Verdict, c.Cell)
			require.Equal(t, metricIn(t, p.doc, result.Throughput).Values[at].Median, c.New.Median)
		}
	}
	require.Nil(t, p.doc.Diffs[0].Report)
	require.Contains(t, p.doc.Diffs[0].Refused, "cpu (Some CPU and Other CPU)")
	require.Equal(t, "v2 → v3", p.doc.Diffs[0].Sides)
	page := string(rendered(t, p))
	require.Contains(t, page, "Not compared: the results differ in cpu")
	require.Contains(t, page, `class="verdict worse">WORSE`)
	for _, side := range []string{"v1", "v2"} {
		require.Equal(t, 1, strings.Count(page, `<p class="note">`+side+
			": measured by transportbench 0.3.0 (revision r), 2026-03-04, 10 repeats of each of "))
	}
}

// Of sets of several machines, the cells of each machine are compared and ranked, and what one set
// alone has of a machine is said once.
func TestSetsOfSeveralMachines(t *testing.T) {
	mixed := func(source string, slower float64, machines ...string) *set.Set {
		s := set.New()
		s.Source = source
		for at, cpu := range machines {
			for _, name := range []string{"shm", "copyrpc"} {
				l := load{name, "client-server", 4, 32, 0}
				r := fake(t, l, 10, slower*float64(1+at), uint64(at))
				r.Environment.Identity.CPU = cpu
				require.NoError(t, s.Add(r))
			}
		}
		return s
	}
	old := mixed("results/v1/all", 1, "CPU A", "CPU B", "CPU C")
	new := mixed("results/v2/all", 1.3, "CPU B", "CPU A")
	p := build(t, old, new)
	require.Len(t, p.doc.Diffs, 3)
	for _, cpu := range []string{"CPU A", "CPU B"} {
		d := p.doc.Diffs[slices.IndexFunc(p.doc.Diffs, func(d diff) bool {
			return d.Machine == cpu
		})]
		require.Equal(t, "v1 → v2, "+cpu, d.Sides)
		require.Empty(t, d.Refused)
		require.Empty(t, d.Report.Across)
		for _, cell := range d.Cells {
			of := p.doc.Environments[p.doc.Cells.Environment[cell]]
			require.Equal(t, cpu, of.Identity["cpu"])
		}
	}
	require.Equal(t, "2 cells of CPU C, on which v1 alone was measured", p.doc.Diffs[2].Refused)
	require.Equal(t, 1, strings.Count(string(rendered(t, p)), "Not compared: "))
	require.NoError(t, p.Incomparable())
	ranked := map[int]bool{}
	for _, r := range p.doc.Rankings {
		for _, l := range r.Loads {
			for _, c := range l.Cells {
				ranked[c.Cell] = true
			}
		}
	}
	require.Len(t, ranked, 10, "each cell of each machine")
}

// On the logarithmic axis, no change is in the middle, and half and double are equally far from it.
func TestChangesOnTheAxis(t *testing.T) {
	change := func(v, low, high float64) compare.Change {
		return compare.Change{Cell: "c", Metric: "m", Better: result.Higher, Change: &v, Low: &low,
			High: &high, Verdict: compare.Ambiguous, Floor: 0.02}
	}
	d := diff{Report: &compare.Report{
		Changes: []compare.Change{change(1, 0.9, 1.1), change(-0.5, -0.6, -0.4)}},
		Cells: []int{0, 1}}
	l := changesOf(&d, "m")
	require.InDelta(t, 50, l.Zero, 1e-9)
	require.InDelta(t, 100, l.Rows[0].X+l.Rows[1].X, 1e-9)
	require.Greater(t, l.Rows[0].X, 85.0)
	for _, r := range l.Rows {
		require.Less(t, r.BandX, 50.0)
		require.InDelta(t, math.Log(0.98)/math.Log(1.02), (r.BandX-50)/(r.BandX+r.BandW-50), 1e-9,
			"the band is that of the verdicts")
	}
	require.Equal(t, "0%", l.Ticks[len(l.Ticks)/2].Text)
}

// A diff may begin with a table of transports over all loads. The rows of the table of changes are
// linked to cells all the same.
func TestTransportsBeforeTheChanges(t *testing.T) {
	change := func(cell string) compare.Change {
		return compare.Change{Cell: cell, Metric: "m", Better: result.Higher,
			Verdict: compare.Ambiguous}
	}
	b := builder{names: []string{"old", "new"}, doc: new(document)}
	b.doc.Diffs = []diff{{New: 1, Cells: []int{7}, Report: &compare.Report{
		Transports: []compare.Change{change("all of shm"), change("all of tcpx")},
		Changes:    []compare.Change{change("shm echo")}}}}
	list := b.changeTables()
	require.Len(t, list, 1)
	require.Contains(t, string(list[0].HTML), "all of tcpx")
	rows := fmt.Sprint(list[0].Table.Rows)
	require.Contains(t, rows, "shm echo")
	require.NotContains(t, rows, "all of")
	drawn := changesOf(&b.doc.Diffs[0], "m").Rows
	require.Len(t, drawn, 3, "the drawing has those over all loads, too")
	require.Equal(t, "all of shm", drawn[0].Label)
}

// Names from result files are never markup.
func TestHostileNames(t *testing.T) {
	page := string(rendered(t, build(t, hostileSet(t))))
	require.NotRegexp(t, `(?i)<img|<iframe|<svg onload|javascript:`, page)
	scripts := regexp.MustCompile(`(?i)<script[^>]*>`).FindAllString(page, -1)
	for _, tag := range scripts[:len(scripts)-1] {
		require.Regexp(t, `^<script type="text/plain" id="[a-z0-9-]+">$`, tag)
	}
	require.Equal(t, "<script>", scripts[len(scripts)-1])
	require.Equal(t, len(scripts), strings.Count(page, "</script>"))
	require.Contains(t, page, "&lt;script&gt;hacked=1")
}

const attack = `"'><script>hacked=1</script><img src=x onerror="hacked=1"><svg onload=hacked=1>`

// hostileSet has markup wherever a result has text.
func hostileSet(t testing.TB) *set.Set {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set<script>hacked=1<")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for _, size := range []int{32, 64} {
		r := fake(t, load{attack, "mesh-proxied", 4, size, 0}, 6, 1, 1)
		r.Plugin.Version, r.Plugin.Provider = attack, attack
		r.Plugin.Notes, r.Plugin.Libraries = map[string]string{attack: attack},
			map[string]string{attack: attack}
		r.Config.Options = map[string]string{attack: attack + strconv.Itoa(size)}
		r.Config.Profile = attack
		r.Environment.Identity.CPU, r.Environment.Volatile.Governor = attack, attack
		r.Argv = []string{attack}
		r.Tool.Version = attack
		r.Checks[1].Name, r.Checks[1].Message = attack, attack
		r.Repeats[0].Samples[attack] = 3
		r.Summary = result.SummarizeRepeats(r.Repeats)
		put(t, filepath.Join(dir, strconv.Itoa(size)+".json"), r)
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	s.Cells = append(s.Cells, set.Cell{Config: map[string]string{"transport": attack,
		"value_size": attack}, Status: set.Failed, Reason: attack, Environment: -1,
		Samples: map[string][]float64{}})
	return s
}

// A cell whose result cannot be read has no details, but the reason.
func TestUnreadableResults(t *testing.T) {
	s := fakeSet(t, loads()[:2], 6, 1)
	require.NoError(t, os.Remove(filepath.Join(s.Source, s.Cells[0].Files[0].Name)))
	p := build(t, s)
	require.Contains(t, strings.Join(detailsIn(t, rendered(t, p), p.doc)[0].Parts, ""),
		"results of this cell cannot be read")
	require.NotNil(t, metricIn(t, p.doc, result.Throughput).Values[0])
}

func TestNothingToReport(t *testing.T) {
	_, err := Build(context.Background(), []*set.Set{set.New()}, Options{})
	require.EqualError(t, err, "there is no cell to report on")
}

// Published figures are on the page like others, without intervals.
func TestPublishedFigures(t *testing.T) {
	paths, err := filepath.Glob("../../../../results/published/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var sets []*set.Set
	for _, path := range paths {
		s, err := set.Load(path)
		require.NoError(t, err)
		sets = append(sets, s)
	}
	p := build(t, sets...)
	require.Contains(t, p.Title(), "published figures")
	for _, m := range p.doc.Metrics {
		for _, v := range m.Values {
			require.True(t, v == nil || v.Low == nil)
		}
	}
	rendered(t, p)
}

// The limit of the file's size, with histograms, phases and ten repeats in every cell.
func TestSizeOfTwoHundredCells(t *testing.T) {
	if fabrictest.Race {
		t.Skip("the size is the same without the race detector, and takes a tenth of the time")
	}
	var list []load
	for i := 0; len(list) < 200; i++ {
		for _, l := range loads() {
			l.inFlight += i
			if len(list) < 200 {
				list = append(list, l)
			}
		}
	}
	page := rendered(t, build(t, fakeSet(t, list, 10, 1)))
	require.Less(t, len(page), 2_000_000)
	t.Logf("%d bytes", len(page))
}

func TestTraces(t *testing.T) {
	require.Equal(t, []float64{0.5, 1.5}, meanTrace([][]float64{{1, 3}, {10, 30}}))
	require.Nil(t, meanTrace([][]float64{{0, 0}}))
	require.Equal(t, []float64{0.5, 1, 1.5}, relative([]float64{5, 10, 15}))
}

// A check that is not judged has no mark, whatever its value.
func TestTrustOfChecksThatAreNotJudged(t *testing.T) {
	dir := t.TempDir()
	for i, judged := range []bool{true, false} {
		r := fake(t, loads()[i], 6, 1, 1)
		if drift := &r.Checks[1]; !judged {
			drift.OK, drift.NotJudged = true, true
		}
		put(t, filepath.Join(dir, fmt.Sprint(i, ".json")), r)
	}
	s, err := set.Load(dir)
	require.NoError(t, err)
	for _, row := range build(t, s).trust {
		require.Equal(t, map[string]int{"drift": 1, "mean": 2}[row.Check], row.Judged, row.Check)
	}
}

func TestLimitScale(t *testing.T) {
	require.InDelta(t, 50, limitScale(1), 1e-9)
	require.InDelta(t, 75, limitScale(10), 1e-9)
	require.InDelta(t, 25, limitScale(0.1), 1e-9)
	require.InDelta(t, 100, limitScale(1e9), 1e-9)
	require.InDelta(t, 0, limitScale(0), 1e-9)
}

func TestDay(t *testing.T) {
	require.Empty(t, day(time.Time{}))
	require.Equal(t, "100%", percent(1))
	require.Equal(t, "12.0%", percent(0.12))
	require.Equal(t, "5.00 us", measureText(5000, "ns"))
	require.Equal(t, "1 core", format.Count(1, "core"))
}

// A doubt about the stages of a call is no warning of the cell's figures.
func TestStagesAreADetail(t *testing.T) {
	stages := result.Finding{Name: "stages", Severity: result.Warning}
	other := result.Finding{Name: "mean", Severity: result.Warning}
	require.Zero(t, warnings([]result.Finding{stages}))
	require.Equal(t, result.Info, worst([]result.Finding{stages}))
	require.Equal(t, 1, warnings([]result.Finding{stages, other}))
	require.Equal(t, result.Warning, worst([]result.Finding{stages, other}))
}
