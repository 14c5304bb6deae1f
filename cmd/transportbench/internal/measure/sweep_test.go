package measure_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
	"transportbench/results"
)

func TestSweepFromFlags(t *testing.T) {
	c := &clitest.Command{T: t}
	args := []string{"--transport", "fake,other", "--payload", "32,4KiB", "--in-flight", "1,8",
		"--set", "ring=lamport,onesided", "--repeats", "2"}
	require.Zero(t, c.Sweep(append(args, "--dry-run")...), c.Stderr)
	require.Contains(t, c.Stdout, "12 cells, 2 repeats each (interleaved), about ")
	require.Regexp(t, `(?m)^ +1 +fake in_flight=1 value_size=32 ring=lamport +about`, c.Stdout)
	require.NoDirExists(t, c.Out)
	require.Zero(t, c.Sweep("--transport", "fake", "--network", "none;loss=1%,delay=1ms",
		"--dry-run"), c.Stderr)
	require.Contains(t, c.Stdout, "2 cells")
	require.Contains(t, c.Stdout, "network=loss=1%,delay=1ms")

	require.Zero(t, c.Sweep(args...), c.Stderr)
	require.Contains(t, c.Stderr, "12 cells")
	require.Contains(t, c.Stderr, "repeat 2 of 2")
	require.Contains(t, c.Stderr, "fake in_flight=8 value_size=4KiB ring=onesided: 8.00 M op/s")
	require.Contains(t, c.Stdout, "results in "+c.Out)
	s, err := set.Load(c.Out)
	require.NoError(t, err)
	require.Len(t, s.Cells, 12)
	require.Equal(t, []float64{1e6, 1e6}, s.Cells[0].Samples[result.Throughput])

	require.Equal(t, app.ExitUsage, c.Sweep(args...))
	require.Contains(t, c.Stderr, "use --resume to continue it")
	require.Zero(t, c.Sweep(append(args, "--resume")...))
	require.Zero(t,
		c.Sweep(append(args, "--resume", "--columns", "in_flight,throughput,read_p50")...))
	require.Regexp(t, `(?m)^load +transport +in_flight +throughput +read_p50$`, c.Stdout)
	require.Regexp(t, `(?m)^in_flight=8 value_size=4KiB ring=onesided +fake +8 +8.00 M op/s +-$`,
		c.Stdout)
	require.NotContains(t, c.Stdout, "a start took")
	require.Zero(t, c.Sweep(append(args, "--resume", "--setup")...))
	require.Contains(t, c.Stdout, "no result has what its setup took")
	require.Equal(t, app.ExitUsage, c.Sweep(append(args, "--resume", "--columns", "read_p5")...))
	require.Contains(t, c.Stderr, `--columns: unknown metric "read_p5"; did you mean`)
	require.Equal(t, app.ExitUsage, c.Sweep(append(args, "--resume", "--in-flight", "1,9")...))
	require.Contains(t, c.Stderr, "6 cells are new and 6 are missing")
}

// A value of --set may contain commas and semicolons.
func TestSweepOfValuesWithCommas(t *testing.T) {
	c := &clitest.Command{T: t, Plugins: []string{"ucxam", "ofi"}}
	require.Zero(t, c.Sweep("--transport", "ucxam", "--set", `tls=rc\,self,tcp`, "--dry-run"),
		c.Stderr)
	require.Contains(t, c.Stdout, "2 cells")
	require.Regexp(t, `ucxam tls=rc,self +about`, c.Stdout)
	require.Regexp(t, `ucxam tls=tcp +about`, c.Stdout)
	require.Zero(t, c.Sweep("--transport", "ofi", "--set", "provider=tcp;ofi_rxm,shm",
		"--dry-run"), c.Stderr)
	require.Contains(t, c.Stdout, "2 cells")
	require.Regexp(t, `ofi provider=tcp;ofi_rxm +about`, c.Stdout)
}

// A dry run refuses the options of hosts that a run refuses, and contacts no host.
func TestDryRunChecksOptionsOfHosts(t *testing.T) {
	of := func(line string) []string {
		path := filepath.Join(t.TempDir(), "hosts")
		require.NoError(t, os.WriteFile(path, []byte("h1 ring=onesided pages=4\n"+line), 0o600))
		return []string{"--hostfile", path}
	}
	for _, one := range []struct {
		args []string
		want string
	}{
		{of("h2 rnig=lamport\n"), `host h2: option "rnig": unknown; did you mean "ring"?`},
		{of("h2 ring=lampert\n"), `host h2: option "ring": "lampert" is not one of `},
		{of("h2 pages=x\n"), `host h2: option "pages": "x" is not a whole number`},
		{of("h2 ring\n"), `hosts: "ring" is no option of a transport`},
		{[]string{"--hosts", "h1,h2", "--map", "h1 slots=0,h2"},
			`host h1: option "slots": 0 is out of range (1 to 1024)`},
		{[]string{"--hosts", "h1,h2", "--map", "h1 ring,h2"},
			`--map: "ring" is no option of a transport`},
	} {
		c := &clitest.Command{T: t}
		require.Equal(t, app.ExitUsage, c.Sweep(append(one.args, "--transport", "fake,other",
			"--dry-run")...), c.Stdout)
		require.Contains(t, c.Stderr, one.want)
	}
	c := &clitest.Command{T: t}
	require.Zero(t, c.Sweep(append(of("h2 ring=lamport\n"), "--transport", "fake,other",
		"--dry-run")...), c.Stderr)
	require.Contains(t, c.Stdout, "2 cells")
	require.Equal(t, app.ExitUsage, c.Sweep(append(of("h2\n"), "--transport", "fake",
		"--dry-run")...), c.Stdout)
	require.Contains(t, c.Stderr, `host h1: option "pages": unknown`)
}

func sweepFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "matrix.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestSweepFromFile(t *testing.T) {
	path := sweepFile(t, "repeats: 2\nbase: {profile: pingpong, set: {ring: onesided}}\naxes: "+
		"{transport: all, in-flight: [1, 2]}\n")
	c := &clitest.Command{T: t}
	require.Zero(t, c.Sweep(path, "--json"), c.Stderr)
	s, err := set.Parse([]byte(c.Stdout), "stdout")
	require.NoError(t, err)
	require.Len(t, s.Cells, 6)
	counts := map[set.Status]int{}
	for _, cell := range s.Cells {
		counts[cell.Status]++
		require.Equal(t, "pingpong", cell.Config["profile"])
		require.Equal(t, "1", cell.Config["read_ratio"], "the profile's")
		if cell.Transport() == "fake" {
			require.Equal(t, "onesided", cell.Config["options.ring"])
		}
		if cell.Status == set.Unavailable {
			require.Contains(t, cell.Reason, "install libfake-dev")
		}
	}
	require.Equal(t, map[set.Status]int{set.Measured: 4, set.Unavailable: 2}, counts)

	c = &clitest.Command{T: t}
	require.Zero(t, c.Sweep(path, "--transport", "fake", "--in-flight", "4", "--repeats", "1",
		"--dry-run"), c.Stderr)
	require.Contains(t, c.Stdout, "1 cell, 1 repeat each", "flags stand above the file")

	path = sweepFile(t, "axes: {load: [{profile: pingpong, warmup: 9s}, {profile: kv, warmup: "+
		"8s}]}\nbase: {transport: fake}\n")
	c = &clitest.Command{T: t}
	require.Zero(t, c.Sweep(path, "--warmup", "10ms", "--duration", "10ms", "--repeats", "1",
		"--dry-run"), c.Stderr)
	require.Contains(t, c.Stdout, "2 cells, 1 repeat each")
	require.NotContains(t, c.Stdout, "about 9", "flags stand above the options of a load")
}

// Cells with different labels have different loads, whatever sets them.
func TestSweepOfOptionsThatReplaceEachOther(t *testing.T) {
	ratios := sweepFile(t,
		"base: {transport: fake, profile: kvcache}\naxes: {read-ratio: [0, 0.5, 1]}\n")
	patterns := sweepFile(t,
		"base: {transport: fake}\naxes: {pattern: ['lookup:1', 'read:1'], read-ratio: [0, 1]}\n")
	for _, one := range []struct {
		args  []string
		loads []string // mix, pattern, ratio
	}{
		{[]string{ratios}, []string{"none none 0", "none none 0.5", "none none 1"}},
		{[]string{"--profile", "kvcache", "--mix", "read:1"}, []string{"read:1 none 0.5"}},
		{[]string{"--pattern", "lookup:1;read:1", "--read-ratio", "0,1"},
			[]string{"none lookup:1 0.5", "none none 0", "none none 1", "none read:1 0.5"}},
		{[]string{"--pattern", "lookup:1,read:1", "--read-ratio", "0,1"},
			[]string{"none lookup:1,read:1 0.5", "none none 0", "none none 1"}},
		{[]string{patterns}, []string{"none lookup:1 0.5", "none none 0", "none none 1",
			"none read:1 0.5"}},
		{[]string{patterns, "--mix", "read:1"}, []string{"read:1 none 0.5"}},
		{[]string{ratios, "--pattern", "write:2"}, []string{"none write:2 0.5"}},
		{[]string{"--profile", "kvcache", "--value-size", "1KiB"},
			[]string{"none lookup:7,read:6,write:3 0.5"}},
		{[]string{"--profile", "kvcache", "--pattern", "incast:2,fan-out"},
			[]string{"none lookup:7,read:6,write:3 0.5", "none lookup:7,read:6,write:3 0.5"}},
	} {
		c := &clitest.Command{T: t}
		args := one.args
		if filepath.Ext(args[0]) != ".yaml" {
			args = append(args, "--transport", "fake")
		}
		require.Zero(t, c.Sweep(append(args, "--repeats", "1")...), c.Stderr)
		var loads []string
		s, err := set.Load(c.Out)
		require.NoError(t, err)
		for _, cell := range s.Cells {
			loads = append(loads, cmp.Or(cell.Config["mix"], "none")+" "+
				cmp.Or(cell.Config["pattern"], "none")+" "+cell.Config["read_ratio"])
		}
		slices.Sort(loads)
		require.Equal(t, one.loads, loads, one.args)
	}
}

// Points of the axes that are one cell are said.
func TestSweepSaysWhatItMeasuresOnce(t *testing.T) {
	c := &clitest.Command{T: t}
	require.Zero(t, c.Sweep("--transport", "fake", "--in-flight", "1,8,8", "--dry-run"), c.Stderr)
	require.Contains(t, c.Stdout, "2 cells")
	require.Contains(t, c.Stderr, "axis in-flight has in-flight=8 twice; it is measured once")
	require.Zero(t, c.Sweep("--transport", "fake", "--value-size", "4KiB,4096", "--dry-run"),
		c.Stderr)
	require.Contains(t, c.Stderr,
		"fake with value-size=4096 is the load of another cell; it is measured once")
	require.Zero(t, c.Sweep("--transport", "fake,other", "--set", "ring=lamport,onesided",
		"--dry-run"), c.Stderr)
	require.Empty(t, c.Stderr)
}

func TestSweepMistakes(t *testing.T) {
	good := sweepFile(t, "axes: {in-flight: [1, 2]}\nbase: {transport: fake}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{good, good}, "takes at most one file"},
		{[]string{"/nonexistent.yaml"},
			"/nonexistent.yaml: no such file, and the built-in sweeps are "},
		{[]string{"standrd"}, `did you mean "standard"?`},
		{[]string{"/proc"}, "/proc: is a directory"},
		{[]string{sweepFile(t, "axis: {a: 1}")}, `unknown key "axis"`},
		{[]string{"--transport", "fake", "--in-flight", "1,x"},
			`in-flight: "x" is not a whole number`},
		{[]string{"--transport", "fake", "--in-flight", "0,1"}, "--in-flight: 0 is out of range"},
		{[]string{"--transport", "fake", "--set", "rnig=lamport"},
			`unknown option "rnig"; did you mean "ring"?`},
		{[]string{"--transport", "fake", "--set", "ring=lampert"}, `did you mean "lamport"?`},
		{[]string{"--transport", "fake", "--set", "ring"}, "not of the form key=value"},
		{[]string{"--transport", "fake,fkae"}, "fkae"},
		{[]string{"--transport", "fake", "--repeats", "x"}, "--repeats"},
		{[]string{"--transport", "fake", "--repeats", "0"}, "repeats: 0 is out of range"},
		{[]string{"--transport", "fake", "--order", "random"}, `order: "random"`},
		{[]string{"--transport", "fake", "--resume"}, "has no sweep"},
		{[]string{"--transport", "fake", "--out", "/proc/none"}, "results directory"},
	} {
		cmd := &clitest.Command{T: t}
		code := cmd.Sweep(c.args...)
		require.Contains(t, cmd.Stderr, c.want)
		require.Equal(t, 1, strings.Count(cmd.Stderr, "\n"), cmd.Stderr)
		if !slices.Contains(c.args, "fake,fkae") { // the text of run
			require.Equal(t, app.ExitUsage, code, c.args)
		}
	}
}

func TestSweepOutcomes(t *testing.T) {
	fail := func(ctx context.Context, req runner.Request, obs runner.Observer) (
		*result.Result, error) {
		if req.Config.InFlight == 2 {
			return nil, errors.New("rank 1: run: it crashed")
		}
		return clitest.OneRepeat(ctx, req, obs)
	}
	c := &clitest.Command{T: t, Run: fail}
	args := []string{"--transport", "fake", "--in-flight", "1,2", "--repeats", "2"}
	require.Equal(t, app.ExitInternal, c.Sweep(args...))
	require.Contains(t, c.Stderr, "1 of 2 cells failed")
	require.Contains(t, c.Stdout, "fake in_flight=2: failed: rank 1: run: it crashed")
	c.Run = clitest.OneRepeat
	require.Zero(t, c.Sweep(append(args, "--resume")...), c.Stderr)

	doubtful := func(ctx context.Context, req runner.Request, obs runner.Observer) (
		*result.Result, error) {
		r, err := clitest.OneRepeat(ctx, req, obs)
		r.Repeats[0].Ranks[0].Clients[0].Lost = 1
		return r, err
	}
	c = &clitest.Command{T: t, Run: doubtful}
	require.Equal(t, app.ExitThreshold, c.Sweep("--transport", "fake", "--repeats", "1"))

	c = &clitest.Command{T: t}
	require.Equal(t, app.ExitTooLittle, c.Sweep("--transport", "fake", "--in-flight", "1,2",
		"--limit", "1ns"))
	require.Contains(t, c.Stderr, "--resume continues")

	ctx, cancel := context.WithCancel(context.Background())
	c = &clitest.Command{T: t, Ctx: ctx, Run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		cancel()
		return nil, ctx.Err()
	}}
	require.Equal(t, app.ExitInterrupted, c.Sweep("--transport", "fake"))
}

// A transport that was named and cannot run, or of which it is not known whether it can, ends a
// sweep before it begins. "all" and built-in sweeps only leave out what cannot run.
func TestSweepOfUnavailableTransports(t *testing.T) {
	stub := "stub: unavailable: built without libfake: install libfake-dev"
	file := sweepFile(t, "axes: {transport: [fake, stub]}\n")
	unusable := clitest.PluginDir(t, "fake")
	require.NoError(t, os.WriteFile(filepath.Join(unusable, "transport-other"),
		[]byte("#!/bin/sh\n"), 0o600))
	for _, one := range []struct {
		args []string
		want string
	}{
		{[]string{"--transport", "stub"}, stub},
		{[]string{"--transport", "fake,stub"}, stub},
		{[]string{"--transport", "fake,stub", "--resume"}, stub},
		{[]string{file}, stub},
		{[]string{"standard", "--transport", "fake,stub"}, stub},
		{[]string{"--transport", "fake,crash"}, "plugin crash (pid "},
		{[]string{"--transport", "all"}, "plugin crash (pid "},
		{[]string{"standard"}, "plugin crash (pid "},
	} {
		c := &clitest.Command{T: t, Plugins: []string{"fake", "stub", "crash"}}
		require.Equal(t, app.ExitInternal, c.Sweep(one.args...), one.args)
		require.Contains(t, c.Stderr, one.want)
		require.Equal(t, 1, strings.Count(c.Stderr, "\n"), c.Stderr)
		require.NoDirExists(t, c.Out)
	}

	c := &clitest.Command{T: t}
	require.Equal(t, app.ExitUsage, c.Sweep("--transport", "all", "--plugin-dir", unusable))
	require.Contains(t, c.Stderr, "transport-other is not executable: chmod +x it")
	require.NoDirExists(t, c.Out)

	c = &clitest.Command{T: t}
	args := []string{"--transport", "all", "--repeats", "1"}
	require.Zero(t, c.Sweep(args...), c.Stderr)
	require.Contains(t, c.Stdout, "stub: unavailable: built without libfake")

	// What the plan cannot know costs the sweep its success.
	c = &clitest.Command{T: t, Run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		if req.Config.Transport == "other" {
			return nil, transport.Unavailable("no device: install one")
		}
		return clitest.OneRepeat(ctx, req, obs)
	}}
	require.Zero(t, c.Sweep(args...), c.Stderr)
	c.Out = ""
	require.Equal(t, app.ExitInternal, c.Sweep("--transport", "fake,other", "--repeats", "1"))
	require.Contains(t, c.Stderr, "1 of 2 cells cannot be measured here; the table has the reasons")
	c.Run = clitest.OneRepeat
	require.Zero(t, c.Sweep("--transport", "fake,other", "--repeats", "1", "--resume"), c.Stderr)
	require.Contains(t, c.Stderr, "other: 1.00 M op/s")
}

// TestBuiltInSweeps checks that every built-in sweep can be planned by its name.
func TestBuiltInSweeps(t *testing.T) {
	require.Contains(t, results.Names(), "standard")
	for _, name := range results.Names() {
		c := &clitest.Command{T: t, Plugins: []string{"fake", "shm", "copyrpc", "ucxam", "ofi",
			"erpc", "tcpx", "sockets", "grpc"}}
		require.Zero(t, c.Sweep(name, "--dry-run"), c.Stderr)
		require.Regexp(t, `\d+ cells, \d+ repeats each`, c.Stdout)
	}
}

// TestPlannedTimeOfWitnesses: the announced time has the readings of witnesses, which take longer
// than the windows. Without the tools there are no readings.
func TestPlannedTimeOfWitnesses(t *testing.T) {
	planned := func(args ...string) time.Duration {
		c := &clitest.Command{T: t, Plugins: []string{"shm", "copyrpc", "ucxam", "ofi", "erpc",
			"tcpx", "sockets"}}
		require.Zero(t, c.Sweep(append([]string{"peers", "--dry-run"}, args...)...), c.Stderr)
		summary := regexp.MustCompile(`\d+ cells, 10 repeats each .*, about (\S+)`).
			FindStringSubmatch(c.Stdout)
		require.NotNil(t, summary, c.Stdout)
		d, err := time.ParseDuration(summary[1])
		require.NoError(t, err)
		return d
	}
	tools := t.TempDir()
	t.Setenv("PATH", tools)
	plain := planned()
	require.InDelta(t, 100, plain.Seconds(), 30)
	require.Equal(t, plain, planned("--witness"))
	install := func(names ...string) {
		for _, name := range names {
			require.NoError(t, os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\n"),
				0o755))
		}
	}
	install("ucx_perftest", "fi_pingpong")
	require.Greater(t, planned("--witness"), plain, "the tools that transports declare")
	install("sockperf", "iperf3")
	require.InDelta(t, 10, planned("--witness").Minutes(), 2, "as in the results of v0.8.0")
	require.Equal(t, plain, planned())
}

// A sweep of enough repeats measures the reference in each round. It is in the index, but no row of
// a table and no cell of the set.
func TestSweepMeasuresAReference(t *testing.T) {
	sweep := func(args ...string) (*set.Set, string) {
		t.Helper()
		c := &clitest.Command{T: t, Run: clitest.OneRepeat,
			Plugins: []string{"fake", "other", set.ReferenceTransport}}
		code := c.Sweep(append([]string{"--transport", "fake,other"}, args...)...)
		require.Zero(t, code, c.Stderr)
		s, err := set.Load(c.Out)
		require.NoError(t, err)
		require.Len(t, s.Cells, 2)
		return s, c.Stdout
	}
	s, stdout := sweep("--repeats", "6")
	require.Len(t, s.Reference, 1)
	require.Len(t, s.Reference[0].Windows, 6)
	require.NotContains(t, stdout, set.ReferenceTransport)
	var whole bytes.Buffer
	require.NoError(t, s.EncodeWhole(&whole))
	again, err := set.Parse(whole.Bytes(), "set.json")
	require.NoError(t, err)
	require.Len(t, again.Cells, 3, "a document has it among the others")

	s, _ = sweep("--repeats", "6", "--reference=false")
	require.Empty(t, s.Reference)
	s, _ = sweep("--repeats", "5")
	require.Empty(t, s.Reference)
}
