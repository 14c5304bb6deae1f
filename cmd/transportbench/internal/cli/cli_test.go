package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/cli"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core"
	"transportbench/core/base/config"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/plugin"
	"transportbench/core/transport"
	"transportbench/results"
)

func TestExitCodesAndErrors(t *testing.T) {
	t.Setenv("TRANSPORTBENCH_REATTACH", "")
	blocked := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(blocked, nil, 0o600))
	unavailable := transport.NewOpError("fake", "open",
		transport.Unavailable("no device: plug one in"))
	died := &record.ExitError{Plugin: "fake", PID: 7, State: "exit status 2", Reason: "panic: x",
		Output: []string{"line one", "line two"}}
	cases := []struct {
		name   string
		args   string
		run    func(context.Context, runner.Request, runner.Observer) (*result.Result, error)
		out    string
		code   int
		stderr []string
	}{
		{name: "help", args: "help", code: app.ExitOK},
		{name: "version", args: "version", code: app.ExitOK},
		{name: "run", args: "run --transport fake", code: app.ExitOK},
		{name: "unknown command", args: "rnu", code: app.ExitUsage,
			stderr: []string{`unknown command "rnu"`, `did you mean "run"?`}},
		{name: "unknown subcommand", args: "plugins lits", code: app.ExitUsage,
			stderr: []string{`did you mean "list"?`}},
		{name: "unknown flag", args: "run --client 3", code: app.ExitUsage,
			stderr: []string{`unknown flag --client; did you mean "--clients"?`}},
		{name: "argument", args: "run fake", code: app.ExitUsage,
			stderr: []string{`takes no arguments, got "fake"`}},
		{name: "show nothing", args: "plugins show", code: app.ExitUsage,
			stderr: []string{"the name of one transport"}},
		{name: "show a near miss", args: "plugins show fke", code: app.ExitUsage,
			stderr: []string{`did you mean "fake"?`}},
		{name: "connections out of range", args: "micro fake setup --connections 1,0",
			code: app.ExitUsage, stderr: []string{"--connections: 0 is out of range (1 to 4096)"}},
		{name: "connections of no setup", args: "micro fake --connections 1", code: app.ExitUsage,
			stderr: []string{"--connections is for the measurement setup"}},
		{name: "setup among others", args: "micro fake setup write", code: app.ExitUsage,
			stderr: []string{"setup: measure it alone"}},
		{name: "micro of none", args: "micro fke", code: app.ExitUsage,
			stderr: []string{`transportbench: there is no plugin "fke"`}},
		{name: "another name of a flag", args: "run --payload 1x", code: app.ExitUsage,
			stderr: []string{`--value-size: "1x" is not a size`}},
		{name: "flag that was begun", args: "report --out x", code: app.ExitUsage,
			stderr: []string{`did you mean "--output"?`}},
		{name: "near miss of a shell", args: "completion bsh", code: app.ExitUsage,
			stderr: []string{`did you mean "bash"? See transportbench completion --help`}},
		{name: "flag near miss", args: "run --inflight 3", code: app.ExitUsage,
			stderr: []string{`did you mean "--in-flight"? See transportbench run --help`}},
		{name: "ill-typed", args: "run --transport fake --clients many", code: app.ExitUsage,
			stderr: []string{`--clients: "many" is not a whole number`}},
		{name: "key range of zero", args: "run --transport fake --keys 0", code: app.ExitUsage,
			stderr: []string{"--keys: 0 is out of range (1"}},
		{name: "missing plugin", args: "run --transport fkae", code: app.ExitUsage,
			stderr: []string{`--transport:`, `did you mean "fake"?`}},
		{name: "unknown option of the transport", args: "run --transport fake --set rng=onesided",
			code:   app.ExitUsage,
			stderr: []string{`--set: option "rng": unknown; did you mean "ring"?`}},
		{name: "value that the option does not allow",
			args: "run --transport fake --set ring=onsided", code: app.ExitUsage,
			stderr: []string{`--set: option "ring"`, `did you mean "onesided"?`}},
		{name: "option out of bounds", args: "run --transport fake --set slots=9999",
			code: app.ExitUsage, stderr: []string{"9999 is out of range (1 to 1024)"}},
		{name: "no plugin directory", args: "run --transport fake --plugin-dir /no/such",
			code: app.ExitUsage, stderr: []string{"--plugin-dir: /no/such"}},
		{name: "stub by name", args: "run --transport stub", code: app.ExitInternal,
			stderr: []string{"stub: unavailable: built without libfake: install libfake-dev"}},
		{name: "option beyond a limit", args: "run --transport fake", code: app.ExitUsage,
			run: clitest.FailWith(&config.Error{Option: "value-size",
				Problem: "too large; use less"}),
			stderr: []string{"--value-size: too large; use less"}},
		{name: "unavailable when opened", args: "run --transport fake", code: app.ExitInternal,
			run:    clitest.FailWith(&runner.RankError{Op: "prepare", Err: unavailable}),
			stderr: []string{"no device: plug one in"}},
		{name: "crash", args: "run --transport fake", code: app.ExitInternal,
			run:    clitest.FailWith(died),
			stderr: []string{"plugin fake (pid 7) died: exit status 2: panic: x"}},
		{name: "failed check", args: "run --transport fake", code: app.ExitThreshold,
			run: clitest.Distrust, stderr: []string{"failed a check"}},
		{name: "unwritable results", args: "run --transport fake", out: filepath.Join(blocked, "x"),
			code:   app.ExitUsage,
			stderr: []string{"results directory", "choose another directory with --out"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cmd := &clitest.Command{T: t, Run: c.run, Out: c.out}
			require.Equal(t, c.code, cmd.Execute(strings.Fields(c.args)...), cmd.Stderr)
			for _, want := range c.stderr {
				require.Contains(t, cmd.Stderr, want)
			}
			if c.code == app.ExitOK {
				return
			}
			lines := strings.Split(strings.TrimSpace(cmd.Stderr), "\n")
			require.True(t, strings.HasPrefix(lines[len(lines)-1], "transportbench: "),
				"the last line is the error: %q", lines)
			require.NotContains(t, cmd.Stderr+cmd.Stdout, "Usage:", "the usage is not printed")
		})
	}
}

func TestVersionFlag(t *testing.T) {
	cmd := &clitest.Command{T: t}
	require.Zero(t, cmd.Execute("--version"), cmd.Stderr)
	require.Equal(t, "transportbench "+core.Version+", revision "+core.BuildRevision()+"\n",
		cmd.Stdout)
}

func TestVerboseErrors(t *testing.T) {
	died := &record.ExitError{Plugin: "fake", PID: 7, State: "exit status 2",
		Output: []string{"line one", "line two"}}
	cmd := &clitest.Command{T: t, Run: clitest.FailWith(
		&runner.RankError{Rank: 1, Op: "run", Err: died})}
	require.Equal(t, app.ExitInternal, cmd.Execute("run", "--transport", "fake", "-v"))
	for _, want := range []string{"transportbench: rank 1: run: plugin fake", "*runner.RankError",
		"*record.ExitError", "| line two"} {
		require.Contains(t, cmd.Stderr, want)
	}
	cmd.Execute("run", "--transport", "fake")
	require.NotContains(t, cmd.Stderr, "line two")
}

func TestVerboseConfigurationFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("transport: fake\nset:\n  ring: onesided\n"),
		0o600))
	cmd := &clitest.Command{T: t}
	require.Equal(t, app.ExitOK, cmd.Execute("run", "-v", "--config", file), cmd.Stderr)
	require.Contains(t, cmd.Stderr, "options from "+file)
	require.Equal(t, map[string]string{"ring": "onesided", "slots": "64"},
		cmd.Results()[0].Config.Options)

	require.NoError(t, os.WriteFile(file, []byte("transport: fake\nset:\n  rings: onesided\n"),
		0o600))
	require.Equal(t, app.ExitUsage, cmd.Execute("run", "--config", file))
	require.Contains(t, cmd.Stderr, `set in `+file+
		`: option "rings": unknown; did you mean "ring"?`)
}

func TestJSONOutput(t *testing.T) {
	cmd := &clitest.Command{T: t}
	require.Equal(t, app.ExitOK, cmd.Execute("run", "--transport", "fake", "--json"))
	r, err := result.Parse([]byte(cmd.Stdout))
	if err == nil {
		require.Equal(t, "fake", r.Plugin.Name)
	}
	decoder := json.NewDecoder(strings.NewReader(cmd.Stdout))
	var only map[string]any
	require.NoError(t, decoder.Decode(&only))
	require.Equal(t, "run", only["kind"])
	require.ErrorIs(t, decoder.Decode(&only), io.EOF)
	require.Contains(t, cmd.Stderr, "repeat 1 of 1")
	require.Len(t, cmd.Results(), 1, "the file is written too")

	require.Equal(t, app.ExitOK, cmd.Execute("run", "--transport", "fake,other", "--json"))
	decoder = json.NewDecoder(strings.NewReader(cmd.Stdout))
	for range 2 {
		require.NoError(t, decoder.Decode(&only))
	}
	require.ErrorIs(t, decoder.Decode(&only), io.EOF)

	for _, args := range [][]string{{"version"}, {"plugins", "list"}, {"plugins", "show", "fake"},
		{"doctor"}} {
		cmd.Execute(append(args, "--json")...)
		require.True(t, json.Valid([]byte(cmd.Stdout)), "%v: %s", args, cmd.Stdout)
	}
}

func TestAllTransports(t *testing.T) {
	cmd := &clitest.Command{T: t}
	require.Equal(t, app.ExitOK, cmd.Execute("run", "--transport", "all"))
	require.Regexp(t, `(?m)^kv +fake +memory`, cmd.Stdout)
	require.Regexp(t, `(?m)^kv +other +memory`, cmd.Stdout)
	require.Contains(t, cmd.Stdout, "stub: unavailable: built without libfake")
	require.Len(t, cmd.Results(), 2)

	t.Run("by name", func(t *testing.T) {
		cmd := &clitest.Command{T: t}
		require.Equal(t, app.ExitInternal, cmd.Execute("run", "--transport", "stub,fake"))
		require.Len(t, cmd.Results(), 1)
	})
	t.Run("crash in describe", func(t *testing.T) {
		cmd := &clitest.Command{T: t, Plugins: []string{"crash", "fake"}}
		require.Equal(t, app.ExitInternal, cmd.Execute("run", "--transport", "all"))
		require.Contains(t, cmd.Stdout, "crash: failed: ")
		require.Contains(t, cmd.Stdout, "no such luck")
		require.Len(t, cmd.Results(), 1)
	})
	t.Run("unavailable when opened", func(t *testing.T) {
		unavailable := fmt.Errorf("rank 0: %w", transport.Unavailable("no device"))
		cmd := &clitest.Command{T: t, Run: func(ctx context.Context, req runner.Request,
			obs runner.Observer) (*result.Result, error) {
			if req.Plugin.Name == "other" {
				return nil, unavailable
			}
			return clitest.Succeed(ctx, req, obs)
		}}
		require.Equal(t, app.ExitOK, cmd.Execute("run", "--transport", "all"))
		require.Contains(t, cmd.Stdout, "other: unavailable: rank 0: unavailable: no device")
		require.Equal(t, app.ExitInternal, cmd.Execute("run", "--transport", "fake,other"))
	})
	t.Run("none", func(t *testing.T) {
		cmd := &clitest.Command{T: t, Plugins: []string{"stub"}}
		require.Equal(t, app.ExitInternal, cmd.Execute("run", "--transport", "all"))
		require.Contains(t, cmd.Stderr, "built without libfake")
	})
}

// TestInstrument checks that "all" leaves an instrument out, and that it runs by its name.
func TestInstrument(t *testing.T) {
	cmd := &clitest.Command{T: t, Plugins: []string{"fake", "gauge"}}
	require.Equal(t, app.ExitOK, cmd.Execute("run", "--transport", "all"))
	require.Len(t, cmd.Results(), 1)
	require.NotContains(t, cmd.Stdout, "gauge")
	require.Equal(t, app.ExitOK, cmd.Execute("run", "--transport", "gauge"))
	require.Contains(t, cmd.Stdout, "gauge 1.2.3 (memory)")
	require.Equal(t, app.ExitOK, cmd.Execute("plugins", "list"))
	require.Regexp(t, `(?m)^fake .* yes `, cmd.Stdout)
	require.Regexp(t, `(?m)^gauge .* by name only `, cmd.Stdout)
	require.Equal(t, app.ExitOK, cmd.Execute("plugins", "show", "gauge"))
	require.Contains(t, cmd.Stdout, "--transport all leaves it out")
	for transport, cells := range map[string]string{"all": "1 cell,", "gauge": "1 cell,",
		"fake,gauge": "2 cells,"} {
		sweep := &clitest.Command{T: t, Plugins: cmd.Plugins}
		require.Zero(t, sweep.Sweep("--transport", transport, "--repeats", "1", "--dry-run"),
			sweep.Stderr)
		require.Contains(t, sweep.Stdout, cells)
		require.Equal(t, transport != "all", strings.Contains(sweep.Stdout, "gauge"))
	}
	only := &clitest.Command{T: t, Plugins: []string{"gauge"}}
	require.Equal(t, app.ExitInternal, only.Execute("run", "--transport", "all"))
	require.Contains(t, only.Stderr, "no plugins found")
}

func TestSetWithSeveralTransports(t *testing.T) {
	got := map[string]map[string]string{}
	cmd := &clitest.Command{T: t, Run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		got[req.Config.Transport] = req.Config.Options
		return clitest.Succeed(ctx, req, obs)
	}}
	require.Equal(t, app.ExitOK, cmd.Execute("run", "--transport", "fake,other", "--set",
		"ring=onesided", "--set", "pages=9"))
	require.Equal(t, map[string]map[string]string{
		"fake": {"ring": "onesided", "slots": "64"}, "other": {"pages": "9"},
	}, got)
	require.Equal(t, app.ExitUsage, cmd.Execute("run", "--transport", "fake,other", "--set",
		"pges=9"))
	require.Contains(t, cmd.Stderr, `did you mean "pages"?`)
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := &clitest.Command{T: t, Ctx: ctx, Run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		r, _ := clitest.Succeed(ctx, req, obs)
		cancel()
		r.Incomplete, r.IncompleteReason = true, "interrupted after 1 of 10 repeats"
		return r, context.Canceled
	}}
	require.Equal(t, app.ExitInterrupted, cmd.Execute("run", "--transport", "fake,other"))
	require.Len(t, cmd.Results(), 1, "the second never started")
	require.Contains(t, cmd.Stdout, "incomplete")
	require.Contains(t, cmd.Stderr, "transportbench: interrupted")
}

// TestInterruptedDescription: a plugin that was not asked to the end is not an unavailable one.
func TestInterruptedDescription(t *testing.T) {
	for _, args := range [][]string{{"run", "--transport", "fake"},
		{"sweep", "--plugin-dir", clitest.PluginDir(t, "fake"), "--out",
			filepath.Join(t.TempDir(), "set"), "--transport", "fake", "--in-flight", "1,2"}} {
		t.Run(args[0], func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			cmd := &clitest.Command{T: t, Ctx: ctx, Run: clitest.Succeed}
			require.Equal(t, app.ExitInterrupted, cmd.Execute(args...), cmd.Stderr)
			require.Contains(t, cmd.Stderr, "transportbench: interrupted")
		})
	}
}

func TestRequest(t *testing.T) {
	var req runner.Request
	cmd := &clitest.Command{T: t, Run: func(_ context.Context, r runner.Request,
		_ runner.Observer) (*result.Result, error) {
		req = r
		return nil, errors.New("enough")
	}}
	require.Equal(t, app.ExitInternal, cmd.Execute("run", "--transport", "fake", "--in-flight",
		"32", "--value-size", "4KiB"))
	require.Equal(t, 32, req.Config.InFlight)
	require.Equal(t, config.FixedSize(4096), req.Config.ValueSize)
	require.Equal(t, "fake", req.Config.Transport)
	require.Equal(t, []string{"transportbench", "run"}, req.Argv[:2])
	require.Contains(t, req.Argv, "4KiB")
	require.NotEmpty(t, req.CPUs)
	require.Len(t, req.Plugin.SHA256, 64)
	require.Len(t, req.Plugin.RuntimeDigest, 64)
	require.Equal(t, "sources of fake", req.Plugin.Sources)
	require.Equal(t, "revision of fake", req.Plugin.Revision)
	require.Equal(t, "1.2.3", req.Plugin.Version)
	require.NotEmpty(t, req.Environment.Identity.Kernel)
}

// TestBench checks that bench is the standard sweep, whatever the environment.
func TestBench(t *testing.T) {
	t.Setenv("TRANSPORTBENCH_IN_FLIGHT", "7") // bench ignores it
	cmd := &clitest.Command{T: t, Run: clitest.OneRepeat}
	require.Equal(t, app.ExitOK, cmd.Execute("bench", "--repeats", "2"), cmd.Stderr)
	for _, want := range []string{"pingpong", "kv ", "results in " + cmd.Out, "What to try next",
		"stub: unavailable: "} {
		require.Contains(t, cmd.Stdout, want)
	}
	s, err := set.Load(cmd.Out)
	require.NoError(t, err)
	spec, err := experiment.ParseSpec("standard.yaml", results.Sweep("standard"))
	require.NoError(t, err)
	measured := 0
	for i := range s.Cells {
		if s.Cells[i].Status == set.Measured {
			measured++
		}
	}
	loads := slices.DeleteFunc(spec.Axes[0].Values, func(load map[string]string) bool {
		return load["track"] != "" // none of the transports here has checks to leave out
	})
	require.Equal(t, 2*len(loads), measured)
}

func TestBenchWithRejectedLoad(t *testing.T) {
	limited := func(ctx context.Context, req runner.Request, obs runner.Observer) (
		*result.Result, error) {
		if req.Config.Transport == "other" && req.Config.InFlight > 5 {
			return nil, &config.Error{Option: "in-flight",
				Problem: "32 calls in flight, but transport other takes 5 on a connection; use " +
					"--in-flight 5 or less"}
		}
		return clitest.OneRepeat(ctx, req, obs)
	}
	cmd := &clitest.Command{T: t, Run: limited}
	require.Equal(t, app.ExitOK, cmd.Execute("bench", "--repeats", "1"), cmd.Stderr)
	require.Contains(t, cmd.Stdout, "other kv: unavailable: --in-flight: 32 calls in flight, but "+
		"transport other takes 5 on a connection")
	require.Equal(t, app.ExitUsage, cmd.Execute("run", "--transport", "fake,other",
		"--in-flight", "32"))
}

func TestLostOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	var stderr bytes.Buffer
	a := &app.App{Args: []string{"version"}, Stdout: full, Stderr: &stderr, Began: time.Now()}
	require.Equal(t, app.ExitInternal, cli.Execute(t.Context(), a))
	require.Contains(t, stderr.String(), "no space left")
	stderr.Reset()
	a = &app.App{Args: []string{"run", "--help"}, Stdout: full, Stderr: &stderr, Began: time.Now()}
	require.Equal(t, app.ExitInternal, cli.Execute(t.Context(), a))
	require.Contains(t, stderr.String(), "write to standard output")
}

func TestProfiles(t *testing.T) {
	c := clitest.Command{T: t}
	require.Equal(t, app.ExitOK, c.Execute("profiles", "list"))
	for _, name := range []string{"pingpong", "kv", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d",
		"ycsb-f", "kvcache", "bulk", "echo"} {
		require.Contains(t, c.Stdout, "\n"+name+" ")
	}
	require.Equal(t, app.ExitOK, c.Execute("profiles", "list", "--json"))
	var list []struct {
		Name    string
		Options map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(c.Stdout), &list))
	require.Equal(t, "pingpong", list[0].Name)
	require.Equal(t, "1", list[0].Options["read-ratio"])

	// The output of show is a profile with the same load.
	require.Equal(t, app.ExitOK, c.Execute("profiles", "show", "kvcache"))
	path := filepath.Join(t.TempDir(), "mine.yaml")
	changed := strings.Replace(c.Stdout, "bytes-per-token: 4\n", "bytes-per-token: 1KiB\n", 1)
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
	var cfg config.Config
	c.Run = func(ctx context.Context, req runner.Request, o runner.Observer) (
		*result.Result, error) {
		cfg = req.Config
		return clitest.Succeed(ctx, req, o)
	}
	require.Equal(t, app.ExitOK, c.Execute("run", "--transport", "fake", "--profile", path),
		c.Stderr)
	require.Equal(t, "mine.yaml", cfg.Profile)
	require.Equal(t, 128<<10, cfg.ValueSize.Max())
	require.Equal(t, 16, cfg.Pattern.Len())
	require.Equal(t, app.ExitOK, c.Execute("profiles", "show", path, "--json"))
	require.Contains(t, c.Stdout, `"bytes-per-token": "1KiB"`)

	for content, problem := range map[string]string{
		"red-ratio: 1\n":       `unknown key "red-ratio"; did you mean "read-ratio"?`,
		"profile: kv\n":        `unknown key "profile"`,
		"transport: shm\n":     `unknown key "transport"`,
		"keys: many\n":         "keys in " + path + `: "many" is not a whole number`,
		"daemons: 2000\n":      "daemons in " + path + ": 2000 is out of range",
		"keys: [1]\n":          "keys in " + path + ": not a plain value",
		"keys: [1\n":           "--profile: " + path,
		"value-size: file:x\n": "value-size in " + path + ": x: no such file",
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		for _, args := range [][]string{{"profiles", "show", path},
			{"run", "--transport", "fake", "--profile", path}} {
			require.Equal(t, app.ExitUsage, c.Execute(args...), content)
			require.Contains(t, c.Stderr, problem)
			require.Equal(t, 1, strings.Count(c.Stderr, "\n"), c.Stderr)
		}
	}
	require.Equal(t, app.ExitUsage, c.Execute("profiles", "show", "ycsb-g"))
	require.Contains(t, c.Stderr, "did you mean")
	require.Equal(t, app.ExitUsage, c.Execute("profiles", "show", "ycsb-long-name"))
	require.Equal(t, app.ExitUsage, c.Execute("profiles", "show", "/no/such.yaml"))
	require.Contains(t, c.Stderr, "no such file")
	require.Equal(t, app.ExitUsage, c.Execute("profiles", "show"))
}

func TestPlugins(t *testing.T) {
	cmd := &clitest.Command{T: t, Plugins: []string{"fake", "stub", "crash"}}
	require.Equal(t, app.ExitOK, cmd.Execute("plugins", "list"))
	require.Regexp(t, `(?m)^RDMA +fake +memory +to test the command$`, cmd.Stdout)
	require.Regexp(t, `(?m)^- +stub +- +-$`, cmd.Stdout, "it does not say when to choose it")
	require.Regexp(t, `(?m)^fake +1\.2\.3 +memory +yes +[0-9a-f]{12} +/.*/transport-fake$`,
		cmd.Stdout)
	require.Regexp(t, `(?m)^stub +1\.2\.3 +memory +no: built without libfake: install libfake-dev`,
		cmd.Stdout)
	require.Regexp(t, `(?m)^crash +- +- +no: .*no such luck`, cmd.Stdout)

	require.Equal(t, app.ExitOK, cmd.Execute("plugins", "show", "fake"))
	for _, want := range []string{"fake 1.2.3: for tests", "made for RDMA, also runs on: memory",
		"choose it to test the command", "ordered, tells peer lost",
		"payload 64KiB, inline 48, in flight unlimited, peers 16",
		"lamport, onesided", "1 to 1024"} {
		require.Contains(t, cmd.Stdout, want)
	}
	require.Equal(t, app.ExitOK, cmd.Execute("plugins", "show", "fake", "--json"))
	var shown struct {
		Description plugin.Description `json:"description"`
	}
	require.NoError(t, json.Unmarshal([]byte(cmd.Stdout), &shown))
	require.Len(t, shown.Description.Info.Options, 2)
	require.Equal(t, app.ExitInternal, cmd.Execute("plugins", "show", "crash"))
}
