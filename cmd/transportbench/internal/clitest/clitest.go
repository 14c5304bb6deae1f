package clitest

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

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/cli"
	"transportbench/core"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/lab/study/perf"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// references are the tools that real transports declare, with the times that they take.
var references = map[string]transport.Reference{
	"ucxam": {Tool: "ucx_perftest", Depth: transport.DepthAny, Takes: 120 * time.Millisecond},
	"ofi":   {Tool: "fi_pingpong", Depth: transport.DepthOne, Takes: 390 * time.Millisecond},
}

// Main runs the tests of a package whose binary is a plugin, too: under a plugin's name it answers
// `describe`. act, unless it is nil, is called first with the plugin's name, or "" if the binary
// runs under another name, and may play another process.
func Main(m *testing.M, act func(plugin string)) {
	name, isPlugin := strings.CutPrefix(filepath.Base(os.Args[0]), "transport-")
	if !isPlugin {
		name = ""
	}
	if act != nil {
		act(name)
	}
	if isPlugin {
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

func describePlugin(name string) int {
	d := &Driver{Described: transport.Info{
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
		d.Described.Choose, d.Described.Groups = "to test the command",
			[]transport.Group{transport.GroupRDMA, transport.GroupMemory}
	case "stub":
		d.Described.Unavailable = "built without libfake: install libfake-dev"
	case "crash":
		fmt.Fprintln(os.Stderr, "panic: no such luck")
		return 2
	case "calibration":
		d.Described.Options = nil
		for _, name := range []string{
			"delay", "delay-distribution", "slow-delay", "slow-every", "rate", "stall",
			"stall-every", "daemon-time",
		} {
			d.Described.Options = append(d.Described.Options,
				transport.Option{Name: name, Type: transport.TypeString, Help: "what is injected"})
		}
	case "gauge":
		d.Described.Instrument = true
	case "ucxam", "ofi", "tcpx", "copyrpc", "erpc", "sockets":
		// the options that built-in sweeps set
		d.Described.Options, d.Described.Capabilities.Traces = nil, name == "tcpx"
		defaults := map[string]string{"address": "127.0.0.1", "provider": "auto", "ring": "4MiB",
			"credit": "piggyback", "queue-pairs": "rc", "sockets": "1"}
		for _, option := range map[string][]string{"ucxam": {"tls"}, "ofi": {"provider"},
			"copyrpc": {"ring", "credit", "queue-pairs"}, "erpc": {"address", "provider"},
			"sockets": {"address"},
			"tcpx":    {"address", "sockets", "mode", "unpack-workers", "unpack-launch"}}[name] {
			d.Described.Options = append(d.Described.Options,
				transport.Option{Name: option, Type: transport.TypeString,
					Default: defaults[option], Help: "of the real transport"})
			if option == "address" {
				d.Described.Roles.Address = option
			}
		}
		if declared, has := references[name]; has {
			declared.Package, declared.Version = "tools", []string{declared.Tool}
			declared.Name, declared.Unit = declared.Tool, 1
			declared.Reading, declared.Quantity = `(?P<samples>.+) (?P<value>.+)`,
				transport.HalfRoundTrip
			d.Described.References = []transport.Reference{declared}
		}
	case "other":
		d.Described.Options = []transport.Option{{Name: "pages", Type: transport.TypeInt,
			Default: "8", Help: "of memory"}}
	}
	described := plugin.Describe(d)
	described.Sources, described.Revision = "sources of "+name, "revision of "+name
	if err := json.NewEncoder(os.Stdout).Encode(described); err != nil {
		return 1
	}
	return 0
}

// Driver describes a plugin and opens no transport.
type Driver struct{ Described transport.Info }

// Info implements [transport.Driver].
func (d *Driver) Info() transport.Info { return d.Described }

// Open implements [transport.Driver].
func (d *Driver) Open(context.Context, transport.Config) (transport.Transport, error) {
	return nil, transport.ErrUnsupported
}

// PluginDir makes a directory with plugins of the given names.
func PluginDir(t *testing.T, names ...string) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, name := range names {
		require.NoError(t, os.Symlink(self, filepath.Join(dir, "transport-"+name)))
	}
	return dir
}

// Command is one command line with a fake runner.
type Command struct {
	*testing.T
	Run     func(context.Context, runner.Request, runner.Observer) (*result.Result, error)
	Perf    func() (*perf.Perf, error)
	Plugins []string
	Ctx     context.Context

	Out            string // directory of results
	Stdin          string
	Stdout, Stderr string
}

// Execute runs the command line and returns its exit code.
func (c *Command) Execute(args ...string) int {
	c.Helper()
	c.Setenv("XDG_CONFIG_HOME", c.TempDir())
	if c.Out == "" {
		c.Out = c.TempDir()
	}
	if c.Plugins == nil {
		c.Plugins = []string{"fake", "other", "stub"}
	}
	if c.Ctx == nil {
		c.Ctx = context.Background()
	}
	// The case's own flags follow, and win.
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	switch name {
	case "run", "bench":
		args = slices.Insert(slices.Clone(args), 1, "--plugin-dir", PluginDir(c.T, c.Plugins...),
			"--out", c.Out)
	case "plugins":
		args = slices.Insert(slices.Clone(args), 1, "--plugin-dir", PluginDir(c.T, c.Plugins...))
	}
	var stdout, stderr bytes.Buffer
	a := &app.App{Program: "bin/transportbench", Args: args, Stdin: strings.NewReader(c.Stdin),
		Stdout: &stdout, Stderr: &stderr, Began: time.Now(), Run: c.Run, Perf: c.Perf}
	if a.Run == nil {
		a.Run = Succeed
	}
	code := cli.Execute(c.Ctx, a)
	c.Stdout, c.Stderr = stdout.String(), stderr.String()
	return code
}

// Results reads the result files.
func (c *Command) Results() []*result.Result {
	c.Helper()
	paths, err := filepath.Glob(filepath.Join(c.Out, "*.json"))
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

// Succeed is a run that succeeds.
func Succeed(_ context.Context, req runner.Request, obs runner.Observer) (*result.Result, error) {
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

// FailWith returns a run that fails.
func FailWith(err error) func(context.Context, runner.Request, runner.Observer) (*result.Result,
	error) {
	return func(context.Context, runner.Request, runner.Observer) (*result.Result, error) {
		return nil, err
	}
}

// Distrust is a run that fails a check.
func Distrust(ctx context.Context, req runner.Request, obs runner.Observer) (*result.Result,
	error) {
	r, err := Succeed(ctx, req, obs)
	r.Checks[0].OK, r.Checks[0].Message = false, "3 responses were wrong"
	return r, err
}

// OneRepeat is a run of one repeat that succeeds.
func OneRepeat(_ context.Context, req runner.Request, obs runner.Observer) (*result.Result, error) {
	obs.Progress(runner.Status{Step: runner.StepRepeat, Repeat: 1, Repeats: 1, OpsPerSec: 1e6,
		P50: 900, P99: 1100})
	repeat := result.Repeat{
		Samples: map[string]float64{result.Throughput: 1e6 * float64(req.Config.InFlight)},
		Ranks: []record.Report{{Clients: []record.ClientReport{{
			ElapsedNS: uint64(req.Config.Duration), Reads: 9, VerifiedKeys: 9, VerifiedSums: 9,
		}}}},
	}
	return &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
		Config: req.Config,
		Plugin: req.Plugin, Environment: req.Environment, Argv: req.Argv,
		Repeats: []result.Repeat{repeat}, Summary: result.SummarizeRepeats([]result.Repeat{repeat}),
	}, nil
}

// Sweep runs the command with plugins and with results in c.out.
func (c *Command) Sweep(args ...string) int {
	c.Helper()
	if c.Plugins == nil {
		c.Plugins = []string{"fake", "other", "stub"}
	}
	if c.Out == "" {
		c.Out = filepath.Join(c.TempDir(), "made")
	}
	if c.Run == nil {
		c.Run = OneRepeat
	}
	return c.Execute(append([]string{"sweep", "--plugin-dir", PluginDir(c.T, c.Plugins...), "--out",
		c.Out}, args...)...)
}

// SetOf writes a set of one transport with one cell per centre. Its ten repeats lie
// within 0.5% of the centre.
func SetOf(t *testing.T, edit func(*set.Set), centres ...float64) string {
	t.Helper()
	s := set.New()
	s.Environments = []set.Environment{{Identity: map[string]string{"cpu": "some"},
		Volatile: map[string]string{}}}
	for i, centre := range centres {
		c := set.Cell{
			Config:  map[string]string{"transport": "shm", "in_flight": string(rune('1' + i))},
			Status:  set.Measured,
			Samples: map[string][]float64{},
		}
		for repeat := range 10 {
			c.Samples[result.Throughput] = append(c.Samples[result.Throughput],
				centre*(1+0.001*float64(repeat-5)))
		}
		s.Cells = append(s.Cells, c)
	}
	if edit != nil {
		edit(s)
	}
	dir := t.TempDir()
	require.NoError(t, s.WriteIndex(dir))
	return dir
}

// TooFew leaves two repeats in each cell.
func TooFew(s *set.Set) {
	for i := range s.Cells {
		s.Cells[i].Samples[result.Throughput] = s.Cells[i].Samples[result.Throughput][:2]
	}
}

const (
	// CommittedSet is a set of results of another version.
	CommittedSet = "../../../../results/v0.2.0/amd-epyc-2core-vm"
	// Published has the figures of documents.
	Published = "../../../../results/published/"
)

// CommittedCell returns the path of a result of CommittedSet.
func CommittedCell(t *testing.T, transport string) string {
	t.Helper()
	paths, err := filepath.Glob(CommittedSet + "/cells/" + transport + "-*.json.gz")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	return paths[0]
}

// CalibrationOf returns the calibration of a machine on which no change below smallest is found,
// with 10 repeats.
func CalibrationOf(identity machine.Identity, smallest float64) *calibration.Document {
	return &calibration.Document{
		SchemaVersion: calibration.SchemaVersion, Kind: calibration.Kind, ID: result.NewID(),
		Alpha:       0.05,
		StartedAt:   time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Environment: machine.Environment{Identity: identity},
		Tool:        result.Tool{Version: core.Version},
		Plugin:      result.Plugin{RuntimeDigest: core.RuntimeDigest()},
		Power: []calibration.Power{{Load: "echo", Class: "memory", Repeats: 10,
			Trials: []calibration.Trials{
				{Known: smallest / 2, Count: 30, Found: 3, Share: calibration.Estimate{Value: 0.1}},
				{Known: smallest, Count: 30, Found: 30, Share: calibration.Estimate{Value: 1}},
			}}},
	}
}
