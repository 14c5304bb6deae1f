package inspect_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/doc/findings"
	"transportbench/core/lab/judge/analyze"
	"transportbench/core/lab/judge/state"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// timed adds latencies to cells, so they form a curve.
func timed(s *set.Set) {
	for i := range s.Cells {
		c := &s.Cells[i]
		c.Config["clients"] = "1"
		for range c.Samples[result.Throughput] {
			c.Samples[result.LatencyP99] = append(c.Samples[result.LatencyP99], float64(1000*(i+1)))
		}
	}
}

func TestAnalyzeExitCodes(t *testing.T) {
	curve := clitest.SetOf(t, timed, 1e6, 2e6, 2.5e6)
	open := clitest.SetOf(t, func(s *set.Set) {
		timed(s)
		for i := range s.Cells {
			c := &s.Cells[i]
			c.Config["rate"] = strconv.Itoa(1_010_000 * (i + 1))
			c.Config["in_flight"] = "32"
			c.Samples[result.ResponseP99] = c.Samples[result.LatencyP99]
		}
	}, 1e6, 2e6, 2.5e6)
	two := clitest.SetOf(t, timed, 1e6, 2e6)
	few := clitest.SetOf(t, func(s *set.Set) {
		timed(s)
		for i := range s.Cells {
			for name := range s.Cells[i].Samples {
				s.Cells[i].Samples[name] = s.Cells[i].Samples[name][:2]
			}
		}
	}, 1e6, 2e6, 2.5e6)
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte("{}"), 0o600))
	wrong := wronged(t)

	cmd := &clitest.Command{T: t}
	for _, test := range []struct {
		want int
		says string // on either stream
		args []string
	}{
		{app.ExitOK, "in flight", []string{clitest.CommittedCell(t, "shm")}},
		{app.ExitOK, "of its limit", []string{clitest.CommittedSet}},
		{app.ExitOK, "bound", []string{clitest.CommittedSet, "--cell", "shm,in_flight=1"}},
		{app.ExitOK, "low latency", []string{curve, "--knee"}},
		{app.ExitOK, "2.00 M op/s", []string{curve, "--slo", "p99<2.5us"}},
		{app.ExitOK, "sampled iterations by their time rank to 50 ns to 100 ns",
			[]string{clitest.CommittedSet, "--loops"}},
		{app.ExitUsage, "--loops: shows only the loops", []string{curve, "--loops", "--knee"}},
		{app.ExitTooLittle, "--loops: " + clitest.Published + "kvstore.json has no windows",
			[]string{clitest.Published + "kvstore.json", "--loops"}},
		{app.ExitOK, "shm p99<2.5us in_flight=2", []string{curve, "--slo", "p99<1.5us", "--slo",
			"p99<2.5us"}},
		{app.ExitOK, "in_flight=2 2 2.00 M op/s -",
			[]string{curve, "--columns", "in-flight,throughput,read_p50"}},
		{app.ExitTooLittle, "only medians meet read_p50<30ms",
			[]string{clitest.Published + "kvstore.json", "--slo", "read_p50<30ms", "--slo",
				"read_p50<60ms"}},
		{app.ExitThreshold, "p99<500ns none", []string{curve, "--slo", "p99<2.5us", "--slo",
			"p99<500ns"}},
		{app.ExitUsage, `--columns: unknown metric "tokns"; did you mean "tokens"?`,
			[]string{curve, "--columns", "tokns"}},
		{app.ExitUsage, "--columns: tokens is given twice",
			[]string{curve, "--columns", "tokens,tokens"}},
		{app.ExitUsage, "--columns: shows only a table",
			[]string{curve, "--columns", "tokens", "--knee"}},
		{app.ExitUsage, "--slo: with several objectives",
			[]string{curve, "--slo", "p99<2.5us", "--slo", "p99<500ns", "--target", "1M"}},
		{app.ExitOK, "at most 10 servers, each at least the offered 2.02 M op/s with " +
			"rate=2.02M", []string{open, "--slo", "p99<2.5us", "--target", "19M"}},
		{app.ExitOK, "10 servers (10 to 10), each 2.00 M op/s with in_flight=2; assumed: 0% of a " +
			"closed loop's throughput stays free", []string{curve, "--slo", "p99<2.5us", "--target",
			"19M", "--headroom", "0"}},
		{app.ExitOK, "20 servers (19 to 20), each",
			[]string{curve, "--slo", "p99<2.5us", "--target", "19M", "--headroom", "0.5"}},
		{app.ExitTooLittle,
			"curves are closed loops, whose clients send less when the server is slow",
			[]string{curve, "--target", "19M"}},
		{app.ExitUsage, "--headroom: \"1\" is not a share",
			[]string{curve, "--target", "19M", "--headroom", "1"}},
		{app.ExitUsage, "--headroom: has no effect without --target",
			[]string{curve, "--headroom", "0.5", "--knee"}},
		{app.ExitUsage, "takes one result", nil},
		{app.ExitUsage, "no such file", []string{"/nonexistent"}},
		{app.ExitUsage, "kind", []string{broken}},
		{app.ExitUsage, "not an objective", []string{curve, "--slo", "p99"}},
		{app.ExitUsage, "not a rate", []string{curve, "--target", "closed"}},
		{app.ExitUsage, "is not a rate", []string{curve, "--rate-metric", "latency-p99"}},
		{app.ExitUsage, "unknown metric", []string{curve, "--rate-metric", "through"}},
		{app.ExitUsage, "no cell", []string{curve, "--cell", "tcpx"}},
		{app.ExitUsage, "pattern", []string{curve, "--cell", "[", "--knee"}},
		{app.ExitUsage, `did you mean "clients"`, []string{clitest.CommittedCell(t, "shm"),
			"--what-if", "client_s=3"}},
		{app.ExitThreshold, "no load meets", []string{curve, "--slo", "p99<500ns"}},
		{app.ExitThreshold, "2.68 GB/s, not 20.0 GB/s", []string{clitest.Published + "tcpx.json"}},
		{app.ExitThreshold, "do not use these figures: 3 were wrong", []string{wrong}},
		{app.ExitTooLittle, "three usable loads", []string{two, "--knee"}},
		{app.ExitTooLittle, "6 repeats", []string{few, "--slo", "p99<2.5us"}},
		{app.ExitTooLittle, "response_p99", []string{curve, "--slo", "response_p99<1us"}},
		{app.ExitTooLittle, "has only its index, without the results of its cells",
			[]string{curve}},
	} {
		code := cmd.Execute(append([]string{"analyze"}, test.args...)...)
		require.Equal(t, test.want, code, "%v: %s%s", test.args, cmd.Stdout, cmd.Stderr)
		require.Contains(t, strings.Join(strings.Fields(cmd.Stdout+cmd.Stderr), " "), test.says,
			"%v", test.args)
	}
}

// wronged returns a committed result with a failed check.
func wronged(t *testing.T) string {
	t.Helper()
	r, err := result.Read(clitest.CommittedCell(t, "shm"))
	require.NoError(t, err)
	r.Checks = append(r.Checks, result.Finding{Name: "verified", Severity: result.Error,
		Message: "do not use these figures: 3 were wrong"})
	return written(t, r)
}

func written(t *testing.T, r *result.Result) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "result.json")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, result.Encode(f, r))
	require.NoError(t, f.Close())
	return path
}

// An analysis has the tables of traffic that a sweep has.
func TestAnalyzeHasTraffic(t *testing.T) {
	r, err := result.Read(clitest.CommittedCell(t, "shm"))
	require.NoError(t, err)
	for i := range r.Repeats {
		r.Repeats[i].Samples[result.JainClients] = 0.81
	}
	r.Summary = result.SummarizeRepeats(r.Repeats)
	cmd := &clitest.Command{T: t}
	require.Zero(t, cmd.Execute("analyze", written(t, r)), cmd.Stderr)
	require.Regexp(t, `patterns of traffic[\s\S]*shm +0\.81`, cmd.Stdout)
}

// A cell is selected by the name that analyze prints, and has the windows of each state of the
// machine.
func TestAnalyzeTakesItsOwnNames(t *testing.T) {
	const several = "../../../../results/v0.5.0/amd-epyc-2core-vm"
	cmd := &clitest.Command{T: t}
	require.Zero(t, cmd.Execute("analyze", several), cmd.Stderr)
	require.Contains(t, cmd.Stdout, "erpc echo in_flight=1 ")
	require.Contains(t, cmd.Stdout,
		"the windows in the state of the machine in which all its cells have most")
	require.Zero(t, cmd.Execute("analyze", several, "--cell", "erpc echo in_flight=1", "--json"),
		cmd.Stderr)
	var report findings.Analysis
	require.NoError(t, json.Unmarshal([]byte(cmd.Stdout), &report))
	require.Len(t, report.Cells, 1)
	require.Equal(t, "erpc echo in_flight=1", report.Cells[0].Cell)
	windows := 0
	for _, in := range report.Cells[0].Windows {
		windows += in.Windows
	}
	repeats := report.Cells[0].Analysis.Repeats
	require.Less(t, repeats, windows)
	require.Regexp(t, fmt.Sprintf("^%d (near|far)$", repeats), report.Cells[0].Shown)
	require.Zero(t, cmd.Execute("analyze", several, "--cell", "erpc echo in_flight=1"), cmd.Stderr)
	require.Regexp(t, `over \d+ \w+ windows, as in the tables; by state of the machine: \d+ near, \d+ far`,
		cmd.Stdout)
}

// Curves over load and chosen columns are of the windows that tables show.
func TestCurvesAndColumnsOfShownWindows(t *testing.T) {
	const several = "../../../../results/v0.5.0/amd-epyc-2core-vm"
	s, err := set.Load(several)
	require.NoError(t, err)
	shown, labels := state.ShownOf(s), set.LabelsOf(s.Cells)
	want := map[string]result.Metric{}
	fewer := 0
	for i := range s.Cells {
		c := &s.Cells[i]
		in := shown.Cell(c)
		if want[labels.Of(c.Config)], _ = in.Metric(result.Throughput); in != c {
			fewer++
		}
	}
	require.Positive(t, fewer)
	analysis := func(args ...string) (a findings.Analysis) {
		cmd := &clitest.Command{T: t}
		require.Zero(t, cmd.Execute(append([]string{"analyze", several, "--json"}, args...)...),
			cmd.Stderr)
		require.NoError(t, json.Unmarshal([]byte(cmd.Stdout), &a))
		return a
	}
	figures := analysis("--columns", result.Throughput).Figures
	require.NotEmpty(t, figures)
	for _, f := range figures {
		require.Equal(t, want[f.Cell], f.Metrics[result.Throughput], f.Cell)
	}
	for _, u := range analysis("--slo", "p99<1s").Capacity.Curves {
		for _, p := range u.Points {
			c := &s.Cells[p.Cell]
			require.Equal(t, want[labels.Of(c.Config)], p.Rate, p.Load)
			require.Equal(t, shown.Windows(c), p.Windows)
		}
	}
}

// Open loops have no model, so --what-if skips such cells by name. It fails if there are no others.
func TestWhatIfSkipsCellsWithoutModel(t *testing.T) {
	const machine = "../../../../results/v0.9.0/amd-epyc-2core-vm"
	open, err := filepath.Glob(machine + "/latency/cells/shm-*.json.gz")
	require.NoError(t, err)
	require.NotEmpty(t, open)
	mixed := t.TempDir()
	for _, path := range []string{open[0], clitest.CommittedCell(t, "shm")} {
		require.NoError(t, os.Link(path, filepath.Join(mixed, filepath.Base(path))))
	}
	cmd := &clitest.Command{T: t}
	require.Zero(t, cmd.Execute("analyze", mixed, "--what-if", "rtt=2us,clients=16"), cmd.Stderr)
	require.Regexp(t,
		`^transportbench: --what-if: no prediction for shm .*rate=.*: it has no model, because`,
		cmd.Stderr)
	require.Contains(t, cmd.Stdout, "rtt=2us,clients=16")

	require.Equal(t, app.ExitTooLittle, cmd.Execute("analyze", open[0], "--what-if", "clients=16"))
	require.Regexp(t, `^transportbench: --what-if: shm has no model, because`, cmd.Stderr)
	require.Equal(t, 1, strings.Count(cmd.Stderr, "\n"))
}

func TestAnalyzeAsJSON(t *testing.T) {
	cmd := &clitest.Command{T: t}
	require.Zero(t, cmd.Execute("analyze", clitest.CommittedSet, "--json", "--what-if", "burn=1us",
		"--slo", "p99<1s"), cmd.Stderr)
	var report findings.Analysis
	require.NoError(t, json.Unmarshal([]byte(cmd.Stdout), &report))
	require.Equal(t, "analysis", report.Kind)
	require.Len(t, report.Cells, 6)
	for _, c := range report.Cells {
		require.NotEmpty(t, c.Analysis.Verdict.Bound, c.Cell)
		require.Positive(t, c.Predictions[0].Throughput)
		require.Less(t, c.Predictions[0].Throughput, c.Predictions[0].Measured)
	}
	require.NotEqual(t, analyze.MeetsNo, report.Capacity.Curves[0].Points[0].Meets)
}

// TestAnalysisAndExportAgree compares the figures of an analysis with the export.
func TestAnalysisAndExportAgree(t *testing.T) {
	s, err := set.Load(clitest.CommittedSet)
	require.NoError(t, err)
	c, err := analyze.CapacityOf(s, analyze.CapacityOptions{})
	require.NoError(t, err)
	for _, u := range c.Curves {
		for _, p := range u.Points {
			require.Equal(t, result.Summarize(result.Throughput,
				s.Cells[p.Cell].Samples[result.Throughput]), p.Rate)
			results, err := s.Results(&s.Cells[p.Cell])
			require.NoError(t, err)
			require.Equal(t, results[0].Summary[result.Throughput], p.Rate)
			require.Equal(t, results[0].Summary[u.Metric], p.Latency)
		}
	}
}
