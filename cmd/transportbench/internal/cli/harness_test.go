package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/machine"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/study/perf"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// TestMain makes this binary a plugin, too: under a plugin's name it answers
// `describe`, and the plugin liar serves ranks that lie. It is also the hidden command that loads a
// processor, a process that starts one, and a command whose memory is measured.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == loadName {
		os.Exit(load())
	}
	if len(os.Args) == 3 && os.Args[1] == spinName {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	if path := os.Getenv(memoryFile); path != "" {
		os.Exit(measureMemory(path))
	}
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "transport-"); ok {
		if strings.HasPrefix(name, "liar") {
			plugin.Serve(&lyingDriver{driver{info: transport.Info{Name: name, Version: "1"}}},
				newLiar)
		}
		if strings.HasPrefix(name, hostile) {
			actHostile(name)
		}
		os.Exit(describePlugin(name))
	}
	state, err := os.MkdirTemp("", "transportbench-state")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", state) // a calibration of this machine must not decide a test
	code := m.Run()
	os.RemoveAll(state)
	os.Exit(code)
}

// loadName is the argument for load.
const loadName = "load"

// load loads a processor until it is killed.
func load() int {
	cpus, err := machine.AllowedCPUs()
	if err == nil {
		_, _, err = spinOn([]machine.CPU{{ID: cpus[0]}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	time.Sleep(time.Minute)
	return 0
}

func describePlugin(name string) int {
	d := &driver{info: transport.Info{
		Name: name, Version: "1.2.3", Summary: "for tests", Providers: []string{"memory"},
		Capabilities: transport.Capabilities{Ordered: true, TellsPeerLost: true},
		Limits:       transport.Limits{MaxPayload: 64 << 10, InlineSize: 48, Peers: 16},
		Options: []transport.Option{
			{Name: "ring", Type: transport.TypeString, Default: "lamport",
				Allowed: []string{"lamport", "onesided"}, Help: "the algorithm"},
			{Name: "slots", Type: transport.TypeInt, Default: "64", Min: 1, Max: 1024,
				Help: "of a ring"},
		},
	}}
	switch name {
	case "fake":
		d.info.Choose, d.info.Groups = "to test the command",
			[]transport.Group{transport.GroupRDMA, transport.GroupMemory}
	case "stub":
		d.info.Unavailable = "built without libfake: install libfake-dev"
	case "crash":
		fmt.Fprintln(os.Stderr, "panic: no such luck")
		return 2
	case "calibration":
		d.info.Options = nil
		for _, name := range []string{
			"delay", "delay-distribution", "slow-delay", "slow-every", "rate", "stall",
			"stall-every", "daemon-time",
		} {
			d.info.Options = append(d.info.Options,
				transport.Option{Name: name, Type: transport.TypeString, Help: "what is injected"})
		}
	case "gauge":
		d.info.Instrument = true
	case "ucxam", "ofi", "tcpx", "copyrpc", "erpc", "sockets":
		// the options that built-in sweeps set
		d.info.Options, d.info.Capabilities.Traces = nil, name == "tcpx"
		defaults := map[string]string{"address": "127.0.0.1"}
		for _, option := range map[string][]string{"ucxam": {"tls"}, "ofi": {"provider"},
			"copyrpc": {"ring"}, "erpc": {"address"}, "sockets": {"address"},
			"tcpx": {"address", "sockets", "mode", "unpack-workers", "unpack-launch"}}[name] {
			d.info.Options = append(d.info.Options,
				transport.Option{Name: option, Type: transport.TypeString,
					Default: defaults[option], Help: "of the real transport"})
		}
	case "other":
		d.info.Options = []transport.Option{{Name: "pages", Type: transport.TypeInt, Default: "8",
			Help: "of memory"}}
	}
	if err := json.NewEncoder(os.Stdout).Encode(plugin.Describe(d)); err != nil {
		return 1
	}
	return 0
}

type driver struct{ info transport.Info }

func (d *driver) Info() transport.Info { return d.info }
func (d *driver) Open(context.Context, transport.Config) (transport.Transport, error) {
	return nil, transport.ErrUnsupported
}

// pluginDir makes a directory with plugins of the given names.
func pluginDir(t *testing.T, names ...string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range names {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, "transport-"+name)))
	}
	return dir
}

// command is one command line with a fake runner.
type command struct {
	*testing.T
	run     func(context.Context, runner.Request, runner.Observer) (*result.Result, error)
	perf    func() (*perf.Perf, error)
	plugins []string
	ctx     context.Context

	out            string // directory of results
	stdout, stderr string
}

// execute runs the command line and returns its exit code.
func (c *command) execute(args ...string) int {
	c.Helper()
	c.Setenv("XDG_CONFIG_HOME", c.TempDir())
	if c.out == "" {
		c.out = c.TempDir()
	}
	if c.plugins == nil {
		c.plugins = []string{"fake", "other", "stub"}
	}
	if c.ctx == nil {
		c.ctx = context.Background()
	}
	// The case's own flags follow, and win.
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	switch name {
	case "run", "bench":
		args = slices.Insert(slices.Clone(args), 1, "--plugin-dir", pluginDir(c.T, c.plugins...),
			"--out", c.out)
	case "plugins":
		args = slices.Insert(slices.Clone(args), 1, "--plugin-dir", pluginDir(c.T, c.plugins...))
	}
	var stdout, stderr bytes.Buffer
	a := &app{program: "bin/transportbench", args: args, stdout: &stdout, stderr: &stderr,
		began: time.Now(), run: c.run, perf: c.perf}
	if a.run == nil {
		a.run = succeed
	}
	code := a.main(c.ctx)
	c.stdout, c.stderr = stdout.String(), stderr.String()
	return code
}

// results reads the result files.
func (c *command) results() []*result.Result {
	c.Helper()
	paths, err := filepath.Glob(filepath.Join(c.out, "*.json"))
	require.NoError(c, err)
	var all []*result.Result
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(c, err)
		r := new(result.Result)
		require.NoError(c, json.Unmarshal(text, r))
		all = append(all, r)
	}
	return all
}

// succeed is a run that succeeds.
func succeed(_ context.Context, req runner.Request, obs runner.Observer) (*result.Result, error) {
	obs.Progress(runner.Status{Step: runner.StepLaunch, Repeats: 1})
	obs.Progress(runner.Status{Step: runner.StepRepeat, Repeat: 1, Repeats: 1, OpsPerSec: 1e6,
		P50: 900, P99: 1100})
	obs.Progress(runner.Status{Step: runner.StepClose, Repeats: 1})
	plugin := req.Plugin
	plugin.Provider = "memory"
	return &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
		StartedAt: time.Now(),
		Argv:      req.Argv, Tool: req.Tool, Plugin: plugin, Config: req.Config,
		Environment: req.Environment,
		Summary: map[string]result.Metric{result.Throughput: result.Summarize(result.Throughput,
			[]float64{1e6})},
		Checks: []result.Finding{{Name: "verified", OK: true, Severity: result.Error,
			Message: "all responses were right"}},
	}, nil
}

func failWith(err error) func(context.Context, runner.Request, runner.Observer) (*result.Result,
	error) {
	return func(context.Context, runner.Request, runner.Observer) (*result.Result, error) {
		return nil, err
	}
}

func distrust(ctx context.Context, req runner.Request, obs runner.Observer) (*result.Result,
	error) {
	r, err := succeed(ctx, req, obs)
	r.Checks[0].OK, r.Checks[0].Message = false, "3 responses were wrong"
	return r, err
}
