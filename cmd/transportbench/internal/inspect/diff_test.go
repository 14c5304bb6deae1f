package inspect_test

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/catalog"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/cmd/transportbench/internal/comparison"
	"transportbench/core/base/machine"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
)

// --ignore takes a transport's own option by its bare name, as --along does.
func TestDiffIgnoresAnOwnOption(t *testing.T) {
	with := func(delay string, centre float64) string {
		return clitest.SetOf(t, func(s *set.Set) { s.Cells[0].Config["options.hot-rings"] = delay },
			centre)
	}
	old, new := with("1us", 1e6), with("2us", 0.9e6)
	for _, name := range []string{"options.hot-rings", "hot-rings"} {
		c := &clitest.Command{T: t}
		require.Equal(t, app.ExitRegression, c.Execute("diff", old, new, "--ignore", name),
			c.Stderr)
		require.Contains(t, c.Stdout, "WORSE")
	}
	c := &clitest.Command{T: t}
	require.Equal(t, app.ExitIncomparable, c.Execute("diff", old, new, "--ignore", "duration"),
		c.Stderr)
}

func TestDiffExitCodes(t *testing.T) {
	old := clitest.SetOf(t, nil, 1e6, 2e6)
	slower := clitest.SetOf(t, nil, 1e6, 1.9e6)
	otherCPU := clitest.SetOf(t, func(s *set.Set) { s.Environments[0].Identity["cpu"] = "another" },
		1e6, 2e6)
	otherRuntime := clitest.SetOf(t, func(s *set.Set) {
		for i := range s.Cells {
			s.Cells[i].Plugin.RuntimeDigest = "other"
		}
	}, 1e6, 2e6)
	floors := func(schema string) string {
		return clitest.SetOf(t, func(s *set.Set) {
			for i := range s.Cells {
				s.Cells[i].Schema = schema
				s.Cells[i].Samples[result.FloorRatio] = s.Cells[i].Samples[result.Throughput]
			}
		}, 1e6, 2e6)
	}
	few := clitest.SetOf(t, clitest.TooFew, 1e6, 2e6)
	noisy := clitest.SetOf(t, func(s *set.Set) {
		for i := range s.Cells {
			for j, v := range s.Cells[i].Samples[result.Throughput] {
				s.Cells[i].Samples[result.Throughput][j] = v * (1 + 0.3*float64(j%2))
			}
		}
	}, 1e6, 2e6)
	in := func(distance float64) func(*set.Set) {
		return func(s *set.Set) {
			for i := range s.Cells {
				for launch := range 10 {
					s.Cells[i].Windows = append(s.Cells[i].Windows, set.Window{
						StartedAt: time.Unix(int64(launch), 0), Launch: launch,
						DistanceBefore: distance, DistanceAfter: distance,
					})
				}
			}
		}
	}
	near, far := clitest.SetOf(t, in(50), 1e6, 2e6), clitest.SetOf(t, in(300), 1e6, 2e6)
	failed := clitest.SetOf(t, func(s *set.Set) {
		s.Cells[1] = set.Cell{Config: s.Cells[1].Config, Status: set.Failed, Reason: "it crashed"}
	}, 1e6, 2e6)
	elsewhere := clitest.SetOf(t, func(s *set.Set) { s.Cells[0].Config["transport"] = "erpc" }, 1e6)
	share := func(rate float64) string {
		return clitest.SetOf(t, func(s *set.Set) {
			s.Cells[0].Config["rate"] = "50%"
			s.Cells[0].Capacity = &result.Capacity{Share: 0.5, Rate: rate, Value: 2 * rate}
		}, rate)
	}
	thresholds := filepath.Join(t.TempDir(), "limits")
	require.NoError(t, os.WriteFile(thresholds, []byte("# limits\nin-flight=2: throughput<-3%\n"),
		0o600))
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte("{\n\"kind\": NaN}"), 0o600))

	for _, c := range []struct {
		name   string
		args   []string
		code   int
		stderr string
	}{
		{"the same", []string{old, old}, app.ExitOK, ""},
		{"slower", []string{old, slower}, app.ExitRegression, "1 of 2 comparisons are WORSE"},
		{"faster", []string{slower, old}, app.ExitOK, ""},
		{"within the threshold", []string{old, slower, "--fail-on", "throughput<-10%"},
			app.ExitOK, ""},
		{"beyond the threshold", []string{old, slower, "--fail-on", "throughput<-3%"},
			app.ExitThreshold, "shm in_flight=2: throughput<-3%"},
		{"beyond one of a file", []string{old, slower, "--fail-on-file", thresholds},
			app.ExitThreshold, "in_flight=2"},
		{"of another cell", []string{old, slower, "--fail-on", "in_flight=1: throughput<-3%"},
			app.ExitOK, ""},
		{"another machine", []string{old, otherCPU}, app.ExitIncomparable,
			"cpu (some and another); to compare them anyway, use --across cpu"},
		{"across machines", []string{old, otherCPU, "--across", "cpu"}, app.ExitOK, ""},
		{"another runtime", []string{old, otherRuntime}, app.ExitOK, ""},
		{"another runtime, strict", []string{old, otherRuntime, "--strict"}, app.ExitIncomparable,
			"runtime_digest (none and other)"},
		{"another runtime, strict but allowed", []string{old, otherRuntime, "--strict", "--across",
			"runtime_digest"}, app.ExitOK, ""},
		{"another meaning", []string{floors("1.3.0"), floors("2.0.0"), "--metric", "all"},
			app.ExitOK, ""},
		{"only another meaning", []string{floors("1.3.0"), floors("2.0.0"), "--metric",
			"floor_ratio"}, app.ExitIncomparable,
			"the meaning of floor_ratio changed between schema 1.x and 2.0; use --metric"},
		{"a threshold of another meaning", []string{floors("1.3.0"), floors("2.0.0"), "--fail-on",
			"floor_ratio>8"}, app.ExitIncomparable, "remove the threshold floor_ratio>8"},
		{"the same meaning", []string{floors("2.0.0"), floors("2.1.0"), "--metric", "floor_ratio"},
			app.ExitOK, ""},
		{"another rate", []string{share(2e6), share(1e6)}, app.ExitIncomparable,
			"the rates differ: 2.00 M op/s (50% of 4.00 M op/s) in old and 1.00 M op/s"},
		{"across rates", []string{share(2e6), share(1e6), "--across", "rate"}, app.ExitOK, ""},
		{"the same rate", []string{share(2e6), share(1.95e6)}, app.ExitOK, ""},
		{"too few repeats", []string{few, few}, app.ExitTooLittle, "too few repeats"},
		{"too few repeats for a threshold", []string{few, few, "--fail-on", "throughput<-3%"},
			app.ExitTooLittle, "2 of 2 tests of thresholds could not fail, whatever the change; " +
				"measure 4 process starts"},
		{"no states in common for a threshold", []string{near, far, "--fail-on", "throughput<-3%"},
			app.ExitTooLittle, "2 of 2 tests of thresholds could not fail, whatever the change: " +
				"the sides have too few windows in the same states"},
		{"states in common", []string{near, near, "--fail-on", "throughput<-3%"}, app.ExitOK, ""},
		{"too few repeats, but a median needs no test",
			[]string{few, few, "--fail-on", "throughput<1e5"}, app.ExitOK, ""},
		{"a median needs no test", []string{old, slower, "--fail-on", "throughput<1e5"},
			app.ExitOK, ""},
		{"a cell failed", []string{old, failed}, app.ExitIncomparable, "it crashed"},
		{"nothing in common", []string{old, elsewhere}, app.ExitIncomparable,
			"none of the 2 cells has the configuration"},
		{"along", []string{"--along", "in-flight", old}, app.ExitOK, ""},
		{"along what does not vary", []string{"--along", "transport", old}, app.ExitIncomparable,
			"no two cells differ only in transport"},
		{"along what does not vary, in open loops",
			[]string{"--along", "transport",
				clitest.SetOf(t, func(s *set.Set) { s.Cells[0].Config["rate"] = "1000" }, 1e6)},
			app.ExitIncomparable, "no two cells differ only in transport"},
		{"along what there is not", []string{"--along", "colour", old}, app.ExitUsage,
			`no cell has the option "colour"`},
		{"along with a threshold", []string{"--along", "transport", old, "--fail-on",
			"throughput<-1%"}, app.ExitUsage, "--fail-on"},
		{"one set", []string{old}, app.ExitUsage,
			"transportbench: diff takes 2 sets of results, got 1 argument; "},
		{"the weakest test is strong enough", []string{old, old, "--require-power", "5%"},
			app.ExitOK, ""},
		{"too little power", []string{noisy, noisy, "--require-power", "5%"}, app.ExitTooLittle,
			"2 of 2 tests could not have found a change of 5% (--require-power); the weakest, " +
				"shm in_flight="},
		{"power within the minimum effect",
			[]string{old, old, "--require-power", "5%", "--floor", "10%"}, app.ExitTooLittle,
			"no change within the minimum effect of 10% counts; --floor sets another"},
		{"a regression before too little power", []string{old, slower, "--require-power", "0.1%"},
			app.ExitRegression, "WORSE"},
		{"too little power of thresholds", []string{noisy, noisy, "--fail-on", "throughput<-3%",
			"--require-power", "5%"}, app.ExitTooLittle, "; measure with --repeats 30, or compare"},
		{"power of thresholds", []string{old, old, "--fail-on", "throughput<-3%", "--require-power",
			"5%"}, app.ExitOK, ""},
		{"bad power", []string{old, old, "--require-power", "much"}, app.ExitUsage,
			"--require-power: \"much\" is not a share"},
		{"a comment needs its format", []string{old, old, "--comment", "/nonexistent/comment"},
			app.ExitUsage, "--comment needs --format github"},
		{"a comment that cannot be written", []string{old, old, "--format", "github", "--comment",
			"/nonexistent/comment"}, app.ExitUsage,
			"--comment: write /nonexistent/comment: no such file or directory"},
		{"no tests along an axis", []string{"--along", "in-flight", old, "--format", "junit"},
			app.ExitUsage, "--format junit is for two sets"},
		{"no power along an axis", []string{"--along", "in-flight", old, "--require-power", "5%"},
			app.ExitUsage, "--require-power is for two sets"},
		{"no such set", []string{old, "/nonexistent"}, app.ExitUsage, "/nonexistent"},
		{"broken JSON", []string{old, broken}, app.ExitUsage, "line 2 column 9"},
		{"unknown metric", []string{old, old, "--metric", "thruput"}, app.ExitUsage,
			`did you mean "throughput"`},
		{"a percentile alone", []string{old, old, "--metric", "p99"}, app.ExitUsage,
			`unknown metric "p99"; did you mean "latency_p99" or "response_p99"?`},
		{"a percentile alone in a threshold", []string{old, old, "--fail-on", "p50>5%"},
			app.ExitUsage, `did you mean "latency_p50" or "response_p50"?`},
		{"a metric like none", []string{old, old, "--metric", "elephants"}, app.ExitUsage,
			`unknown metric "elephants"; the metrics are throughput, `},
		{"unknown format", []string{old, old, "--format", "cvs"}, app.ExitUsage,
			`did you mean "csv"`},
		{"bad alpha", []string{old, old, "--alpha", "2"}, app.ExitUsage, "--alpha"},
		{"bad floor", []string{old, old, "--floor", "x"}, app.ExitUsage, "--floor"},
		{"bad threshold", []string{old, old, "--fail-on", "slow"}, app.ExitUsage, "--fail-on"},
		{"no threshold file", []string{old, old, "--fail-on-file", "/nonexistent"}, app.ExitUsage,
			"--fail-on-file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := &clitest.Command{T: t}
			require.Equal(t, c.code, cmd.Execute(append([]string{"diff"}, c.args...)...),
				cmd.Stderr)
			require.Contains(t, cmd.Stderr, c.stderr)
			require.LessOrEqual(t, strings.Count(cmd.Stderr, "\n"), 1)
		})
	}
}

// A calibration that finds a machine blind to changes of 7% does not make such a change SAME,
// unless the user calls it that.
func TestCalibrationDoesNotWidenSame(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	here := machine.Identity{CPU: "some", Arch: "amd64"}
	identity, err := set.Flatten(here)
	require.NoError(t, err)
	on := func(s *set.Set) { s.Environments[0].Identity = identity }
	old, slower := clitest.SetOf(t, on, 1e6), clitest.SetOf(t, on, 0.93e6)
	require.NoError(t, calibration.Write(filepath.Join(slower, calibration.FileName),
		clitest.CalibrationOf(here, 0.2)))
	cmd := &clitest.Command{T: t}
	diff := func(args ...string) *compare.Report {
		t.Helper()
		require.Zero(t, cmd.Execute(append([]string{"diff", old, slower}, args...)...), cmd.Stderr)
		report := new(compare.Report)
		if slices.Contains(args, comparison.FormatJSON) || slices.Contains(args, "--json") {
			require.NoError(t, json.Unmarshal([]byte(cmd.Stdout), report))
		}
		return report
	}
	report := diff("--json")
	require.Equal(t, compare.Ambiguous, report.Changes[0].Verdict)
	require.Equal(t, []float64{0.2, 0.02}, []float64{report.Floor, report.Same})
	diff()
	require.Contains(t, cmd.Stdout, "against changes of 20%, SAME within 2%; intervals")

	report = diff("--floor", "10%", "--format", comparison.FormatJSON)
	require.Equal(t, compare.Same, report.Changes[0].Verdict)
	require.Equal(t, []float64{0.1, 0.1}, []float64{report.Floor, report.Same})
	diff("--floor", "10%")
	require.Contains(t, cmd.Stdout, "against changes of 10%; intervals")
}

// Every pair of committed versions of a machine can be compared. Only another kernel has to be
// allowed.
func TestDiffOfCommittedVersions(t *testing.T) {
	sets, err := filepath.Glob("../../../../results/v*/amd-epyc-2core-vm")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(sets), 4)
	for i, old := range sets {
		for _, new := range sets[i+1:] {
			cmd := &clitest.Command{T: t}
			code := cmd.Execute("diff", old, new, "--across", "kernel", "-v")
			require.Contains(t, []int{app.ExitOK, app.ExitRegression}, code, "%s %s: %s", old, new,
				cmd.Stderr)
			require.Regexp(t,
				`(?m)^note: the runtime differs \([0-9a-f]{12} and [0-9a-f]{12}\): benchmark overhead is [0-9.]+ ns an operation in old and [0-9.]+ ns in new(, which counts daemons, too)?$`, cmd.Stdout)
			if !strings.Contains(cmd.Stdout, "compared across different kernel") {
				require.Equal(t, code, cmd.Execute("diff", old, new, "-v"), cmd.Stderr)
			}
		}
	}
	cmd := &clitest.Command{T: t}
	require.Equal(t, app.ExitIncomparable, cmd.Execute("diff", sets[len(sets)-2], sets[len(sets)-1],
		"--strict"))
	require.Contains(t, cmd.Stderr, "--across runtime_digest")
}

// The example of results/README.md compares the versions that it names.
func TestExampleOfResults(t *testing.T) {
	text, err := os.ReadFile("../../../../results/README.md")
	require.NoError(t, err)
	example := regexp.MustCompile(`transportbench\s+diff\s+(\S+)\s+(\S+?)[\s` + "`" +
		`]`).FindStringSubmatch(string(text))
	require.Len(t, example, 3)
	var paths []string
	for _, path := range example[1:] {
		paths = append(paths, "../../../../"+strings.Replace(path, "MACHINE", "amd-epyc-2core-vm",
			1))
	}
	cmd := &clitest.Command{T: t}
	require.Contains(t, []int{app.ExitOK, app.ExitRegression},
		cmd.Execute("diff", paths[0], paths[1]), cmd.Stderr)
}

func TestDiffFormats(t *testing.T) {
	old, slower := clitest.SetOf(t, nil, 1e6, 2e6), clitest.SetOf(t, nil, 1e6, 1.9e6)
	cmd := &clitest.Command{T: t}
	cmd.Execute("diff", old, slower)
	require.Regexp(t,
		`(?m)^shm in_flight=2 +throughput +2.00 M op/s +1.90 M op/s +-5.00% +-5.00% +\S+ to \S+ +<?0.\d+ +WORSE$`, cmd.Stdout)
	require.Less(t, strings.Index(cmd.Stdout, "in_flight=2"),
		strings.Index(cmd.Stdout, "in_flight=1"), "the largest change first")
	require.Contains(t, cmd.Stdout, "1 WORSE, 1 SAME (alpha 0.05 over 2 tests")

	cmd.Execute("diff", old, slower, "--format", "markdown")
	require.Contains(t, cmd.Stdout, "| shm in_flight=2 | throughput |")

	cmd.Execute("diff", old, slower, "--format", "json")
	var report compare.Report
	require.NoError(t, json.Unmarshal([]byte(cmd.Stdout), &report))
	require.Equal(t, compare.Worse, report.Changes[0].Verdict)

	cmd.Execute("diff", old, slower, "--format", "csv")
	rows, err := csv.NewReader(strings.NewReader(cmd.Stdout)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)

	for format, want := range map[string]string{
		comparison.FormatTable:    `throughput: 2 a, 1 b 2\.\d+x`,
		comparison.FormatMarkdown: `\| winner \|`,
		comparison.FormatGitHub:   `^### transportbench: a winner in 1 of 1 comparison along in_flight\n`, comparison.FormatJSON: `"group": "a"`, comparison.FormatCSV: `(?m),winner,group$`,
	} {
		require.Zero(t, cmd.Execute("diff", "--along", "in_flight", old, "--format", format),
			cmd.Stderr)
		require.Regexp(t, want, cmd.Stdout)
	}
}

// TestDiffWithPublishedFigures checks that published figures are shown and never
// judged.
func TestDiffWithPublishedFigures(t *testing.T) {
	const root = "../../../../results/"
	cmd := &clitest.Command{T: t}
	published, measured := root+"published/copyrpc.json", root+"v0.1.0/amd-epyc-2core-vm"
	require.Equal(t, app.ExitIncomparable, cmd.Execute("diff", published, measured))
	require.Contains(t, cmd.Stderr, "--across source")
	require.Zero(t, cmd.Execute("diff", published, measured, "--across", "source"), cmd.Stderr)
	require.Contains(t, cmd.Stdout,
		"a published figure, not measured here: copyrpc Performance Analysis")
	require.NotRegexp(t, `BETTER|WORSE|SAME`, cmd.Stdout)
	require.Regexp(t, `(?m)^shm .*in_flight=1 .*throughput +1.58 M op/s`, cmd.Stdout)
	require.Zero(t, cmd.Execute("export", root+"published/kvstore.json"), cmd.Stderr)
}

// The options of a plugin that cannot run here are known, so a proposed ab leaves out defaults.
func TestOptionsOfAPluginThatCannotRun(t *testing.T) {
	options := catalog.OptionsIn(t.Context(), clitest.PluginDir(t, "stub"), "stub")
	require.Equal(t, "lamport", options[0].Default)
	require.Nil(t, catalog.OptionsIn(t.Context(), t.TempDir(), "stub"))
}
