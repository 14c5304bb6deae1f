package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/lab/study/perf"
)

// fakePerf makes a script in place of perf that logs its arguments, one line for each call, and
// does what record says for perf c2c record.
func fakePerf(t *testing.T, record string) (find func() (*perf.Perf, error), log string) {
	t.Helper()
	dir := t.TempDir()
	testdata, err := filepath.Abs("../../../../core/lab/study/perf/testdata")
	require.NoError(t, err)
	p := &perf.Perf{Program: filepath.Join(dir, "perf")}
	log = filepath.Join(dir, "log")
	require.NoError(t, os.WriteFile(p.Program, []byte(`#!/bin/sh
echo "$*" >>`+log+`
case "$1 $2" in
"c2c record") `+record+` ;;
"c2c report") cat `+testdata+`/c2c.txt ;;
esac
`), 0o755))
	return func() (*perf.Perf, error) { return p, nil }, log
}

// twoWindows is a run with two windows, of which the second is measured again, and a rank.
func twoWindows(ctx context.Context, req runner.Request, obs runner.Observer) (*result.Result,
	error) {
	p, err := req.Launcher.Launch(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	for _, s := range []runner.Status{
		{Step: runner.StepFloor, Repeat: 1}, {Step: runner.StepRepeat, Repeat: 1},
		{Step: runner.StepRepeat, Repeat: 1, OpsPerSec: 1e6},
		{Step: runner.StepFloor, Repeat: 1}, {Step: runner.StepRepeat, Repeat: 2},
		{Step: runner.StepFloor, Repeat: 2},
		{Step: runner.StepRepeat, Repeat: 2}, {Step: runner.StepFloor, Repeat: 2},
		{Step: runner.StepClose},
	} {
		obs.Progress(s)
	}
	r, err := clitest.Succeed(ctx, req, obs)
	if err != nil {
		return nil, err
	}
	for _, rate := range []float64{2e6, 3e6} {
		r.Repeats = append(r.Repeats, result.Repeat{
			Samples: map[string]float64{result.Throughput: rate},
			Ranks: []record.Report{{Daemons: []record.DaemonReport{{Thread: record.ThreadReport{
				Counters: map[string]uint64{"instructions": uint64(rate), "cycles": 1e6}}}}}}})
	}
	return r, nil
}

// calls returns how the script was called.
func calls(log string) (lines []string) {
	text, _ := os.ReadFile(log)
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

func TestC2C(t *testing.T) {
	find, log := fakePerf(t, ":")
	keep := filepath.Join(t.TempDir(), "kept")
	c := &clitest.Command{T: t, Run: twoWindows, Plugins: []string{"liar"}, Perf: find}
	dir := clitest.PluginDir(t, "liar")
	require.Zero(t, c.Execute("c2c", "--run", "--plugin-dir", dir, "--transport", "liar",
		"--in-flight", "7", "--out", keep, "--json"), c.Stderr)
	var shown perf.Profile
	require.NoError(t, json.Unmarshal([]byte(c.Stdout), &shown), c.Stdout)
	require.Equal(t, "c2c", shown.Kind)
	require.Equal(t, 7, shown.Config.InFlight)
	require.Equal(t, 2, shown.Config.Repeats)
	require.Equal(t, perf.Throughput{Unwatched: 2e6, C2C: 3e6}, shown.Throughput)
	require.Len(t, shown.Threads, 1)
	require.Equal(t, map[string]float64{"ipc": 2}, shown.Threads[0].Ratios)
	require.Len(t, shown.Sharing.Lines, 7)
	require.FileExists(t, filepath.Join(keep, perf.ReportFile))
	text, err := os.ReadFile(filepath.Join(keep, perf.ProfileFile))
	require.NoError(t, err)
	var kept perf.Profile
	require.NoError(t, json.Unmarshal(text, &kept))
	require.Equal(t, shown, kept)

	// The directory can be read like one of results.
	s, err := set.Load(keep)
	require.NoError(t, err)
	require.Len(t, s.Cells, 1)
	require.Equal(t, "7", s.Cells[0].Config["in_flight"])
	require.Equal(t, "32", s.Cells[0].Config["value_size"], "all options tell loads apart")
	hitm, known := shown.Sharing.Figure("Load Local HITM")
	require.True(t, known)
	require.Equal(t, []float64{hitm.Value}, s.Cells[0].Samples["local_hitm"])

	// A link in the directory is no way out of it for perf.
	victim := filepath.Join(t.TempDir(), "file")
	for _, name := range []string{perf.RecordFile, perf.ReportFile} {
		require.NoError(t, os.RemoveAll(filepath.Join(keep, name)))
		require.NoError(t, os.Symlink(victim, filepath.Join(keep, name)))
		if os.Geteuid() == 0 {
			require.NoError(t, os.Lchown(filepath.Join(keep, name), 65534, 65534))
		}
	}
	c.Perf, _ = fakePerf(t, ":")
	refused := c.Execute("c2c", "--run", "--plugin-dir", dir, "--transport", "liar", "--out", keep)
	if os.Geteuid() == 0 {
		require.Equal(t, app.ExitUsage, refused)
		require.Contains(t, c.Stderr, perf.ReportFile+
			" is a symbolic link of user 65534; name another file")
		require.NoFileExists(t, victim)
	}

	// perf attached to the rank in the second window, and once more when it was measured again.
	var made []string
	for _, line := range calls(log) {
		made = append(made, strings.Join(strings.Fields(line)[:2], " "))
		if _, after, found := strings.Cut(line, " -p "); found {
			pid, rest, _ := strings.Cut(after, " ")
			_, err := strconv.Atoi(pid)
			require.NoError(t, err, line)
			require.Equal(t, "-- sleep 0.800", rest)
		}
	}
	require.ElementsMatch(t, []string{"c2c record", "c2c record", "c2c report"},
		made)

	// perf runs the plugin's microbenchmark itself.
	find, log = fakePerf(t, ":")
	c.Perf = find
	keep = filepath.Join(t.TempDir(), "kept")
	require.Zero(t, c.Execute("c2c", "--micro", "spsc/lamport/stream", "--plugin-dir", dir,
		"--transport", "liar", "--out", keep), c.Stderr)
	require.Contains(t, c.Stdout, "spsc/lamport/stream")
	require.Contains(t, c.Stdout, "Load Local HITM")
	require.Len(t, calls(log), 2)
	require.Regexp(t, `^c2c record -- -o \S+ \S+/transport-liar micro \{.*"reading":"spsc/lamport/`+
		`stream".*"names":\["spsc"\]`, calls(log)[0])
	s, err = set.Load(keep)
	require.NoError(t, err)
	require.Equal(t, "c2c/spsc/lamport/stream", s.Cells[0].Config["micro"])
	older := filepath.Join(t.TempDir(), "older.json")
	require.NoError(t, os.WriteFile(older, []byte(`{"kind":"c2c"}`), 0o600))
	_, err = set.Load(older)
	require.ErrorContains(t, err, "no readings of this version; run c2c again")

	// A saved run is repeated with its own options.
	r, err := clitest.Succeed(t.Context(), runner.Request{}, discard{})
	require.NoError(t, err)
	r.Config = shown.Config
	r.Config.InFlight, r.Config.Repeats, r.Config.Duration = 9, 6, 1e6
	path, err := result.Write(t.TempDir(), r)
	require.NoError(t, err)
	find, log = fakePerf(t, "echo 'failed: memory events not supported' >&2; exit 255")
	c.Perf = find
	require.Zero(t, c.Execute("c2c", path, "--plugin-dir", dir), c.Stderr)
	require.Contains(t, c.Stdout, "9 in flight")
	require.Contains(t, c.Stdout,
		"throughput: 2.00 M op/s without perf, 1.00 M op/s in the result\n")
	require.Contains(t, c.Stdout,
		"no HITM table: perf c2c record: failed: memory events not supported (exit status 255)\n")
	require.Contains(t, c.Stdout, "daemon 0")
	require.NotContains(t, strings.Join(calls(log), "\n"), "report")
	require.Contains(t, strings.Join(calls(log), "\n"), "-- sleep 0.400",
		"windows are long enough for perf")

	require.Equal(t, app.ExitUsage, c.Execute("c2c", path, "--plugin-dir", dir, "--in-flight", "3"))
	require.Contains(t, c.Stderr, "--in-flight: c2c repeats the run of "+path)
	require.Equal(t, app.ExitUsage, c.Execute("c2c", path, "--run"))
	require.Contains(t, c.Stderr, "leave out --run, or the result")
}

// discard is an observer that does nothing.
type discard struct{}

func (discard) Progress(runner.Status) {}

func TestC2CRefuses(t *testing.T) {
	missing := errors.New("this machine has no performance monitoring unit; enable it")
	c := &clitest.Command{T: t, Perf: func() (*perf.Perf, error) { return nil, missing },
		Run: func(context.Context, runner.Request, runner.Observer) (*result.Result, error) {
			t.Error("it ran")
			return nil, missing
		}}
	require.Equal(t, app.ExitInternal, c.Execute("c2c", "--run"))
	require.Equal(t, fmt.Sprintf("transportbench: c2c: %v\n", missing), c.Stderr, "one line")
	require.Empty(t, c.Stdout)

	c.Perf = func() (*perf.Perf, error) {
		t.Error("perf was looked for")
		return nil, missing
	}
	for problem, args := range map[string][]string{
		"c2c needs a result whose run it repeats, or --run": {},
		"c2c takes one result, got 2":                       {"a", "b"},
		"leave out --run and the result":                    {"--run", "--micro", "spsc"},
		"no such file":                                      {"a.json"},
		"--in-flight: it has no effect on a microbenchmark": {"--micro", "spsc",
			"--in-flight", "3"},
		"--transport: c2c takes one transport": {"--run", "--transport", "all"},
		"at least 500ms":                       {"--run", "--duration", "400ms"},
		"unknown flag --repeats":               {"--run", "--repeats", "3"},
		"perf to the ranks of one host":        {"--run", "--hosts", "a,b"},
	} {
		require.Equal(t, app.ExitUsage, c.Execute(append([]string{"c2c"}, args...)...), "%v", args)
		require.Contains(t, c.Stderr, problem)
	}
}
