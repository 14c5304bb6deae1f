package measure_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
	"transportbench/core/base/machine"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/lab/judge/calibration"
	"transportbench/core/lab/store/result"
)

// calibrated is a run whose operation takes what was injected.
func calibrated(_ context.Context, req runner.Request, obs runner.Observer) (*result.Result,
	error) {
	obs.Progress(runner.Status{Step: runner.StepRepeat, Repeat: 1, Repeats: 1})
	if !req.StateOnly {
		return nil, errors.New("floors are not needed")
	}
	delay, _ := time.ParseDuration(req.Config.Options["delay"])
	operation := 200 + float64(delay) + float64(req.Config.Burn)
	repeat := result.Repeat{
		StartedAt: time.Now(), Before: result.Readings{CoreDistance: 50},
		After: result.Readings{CoreDistance: 50},
		Samples: map[string]float64{
			result.Throughput: 1e9 / operation, result.LatencyMean: operation,
			result.LatencyP50: operation,
			result.LatencyP99: operation, result.LatencyMax: operation,
		},
	}
	return &result.Result{
		SchemaVersion: result.SchemaVersion, Kind: result.KindRun, ID: result.NewID(),
		StartedAt: time.Now(),
		Config:    req.Config, Plugin: req.Plugin, Environment: req.Environment,
		Repeats: []result.Repeat{repeat},
	}, nil
}

// calibrate runs the command with the plugin calibration and with results in c.out.
func calibrate(c *clitest.Command, args ...string) int {
	c.Helper()
	if c.Plugins == nil {
		c.Plugins = []string{"calibration"}
	}
	if c.Out == "" {
		c.Out = filepath.Join(c.TempDir(), "made")
	}
	if c.Run == nil {
		c.Run = calibrated
	}
	return c.Execute(
		append([]string{"calibrate", "--plugin-dir", clitest.PluginDir(c.T, c.Plugins...), "--out",
			c.Out}, args...)...)
}

func TestCalibrate(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	c := &clitest.Command{T: t}
	require.Zero(t, calibrate(c, "--dry-run"), c.Stderr)
	require.Regexp(t, `(?m)^self +3 +2000 +6000 +14m26s$`, c.Stdout)
	require.Contains(t, c.Stdout, "10,143 process starts, about ")
	require.Zero(t, calibrate(c, "--dry-run", "--json"), c.Stderr)
	var plan struct {
		Launches    int
		Expected    time.Duration `json:"expected_ns"`
		Experiments []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(c.Stdout), &plan), c.Stdout)
	require.Equal(t, 10143, plan.Launches)
	require.Greater(t, plan.Expected, 10*time.Minute)
	require.NotEmpty(t, plan.Experiments)
	require.Equal(t, app.ExitUsage, c.Execute("calibrate", "shwo"))
	require.Equal(t,
		"transportbench: calibrate takes no arguments, got \"shwo\"; did you mean \"show\"?\n",
		c.Stderr)
	require.NoDirExists(t, c.Out)
	require.Equal(t, app.ExitUsage, c.Execute("calibrate", "show"))
	require.Contains(t, c.Stderr, "has no calibration; make one with")

	require.Zero(t, calibrate(c, "--quick"), c.Stderr)
	require.Contains(t, c.Stderr, "422 process starts, about ")
	require.Contains(t, c.Stderr, "self: 60 rounds, ")
	require.NotContains(t, c.Stderr, "it replaces")
	require.Contains(t, c.Stdout, "delay")
	path := filepath.Join(c.Out, calibration.FileName)
	require.Contains(t, c.Stderr, "calibration in "+path)
	d, err := calibration.Read(path)
	require.NoError(t, err)
	require.True(t, d.Quick)
	require.Equal(t, "1.2.3", d.Plugin.Version)
	require.NotEmpty(t, d.Plugin.SHA256)
	require.Contains(t, d.Argv, "--quick")

	// It is the last one of this machine.
	last, err := calibration.StatePath(machine.ReadEnvironment().Identity)
	require.NoError(t, err)
	kept, err := calibration.Read(last)
	require.NoError(t, err)
	require.Equal(t, d.ID, kept.ID)
	table := c.Stdout
	require.Zero(t, c.Execute("calibrate", "show"), c.Stderr)
	require.Equal(t, table, c.Stdout)
	require.Zero(t, c.Execute("calibrate", "show", filepath.Dir(path)))
	require.Zero(t, c.Execute("calibrate", "show", path))
	require.Equal(t, table, c.Stdout)
	require.Zero(t, c.Execute("calibrate", "show", "--json", path))
	shown, err := calibration.Parse([]byte(c.Stdout))
	require.NoError(t, err)
	require.Equal(t, d.ID, shown.ID)
	require.Equal(t, app.ExitUsage, c.Execute("calibrate", "show", filepath.Join(c.Out, "none")))

	// A quick one does not take the place of a full one. The pairs of sets stay.
	d.Pairs = &calibration.Pairs{Repeats: 10, PairRates: calibration.PairRates{Sets: 4}}
	require.NoError(t, calibration.Write(path, d))
	kept.Quick = false
	require.NoError(t, calibration.Write(last, kept))
	require.Zero(t, calibrate(c, "--quick", "--json"))
	require.Contains(t, c.Stderr, "transportbench: it replaces the calibration in "+path+"\n")
	require.Contains(t, c.Stderr, "the full calibration of this machine is kept: "+last)
	d, err = calibration.Parse([]byte(c.Stdout))
	require.NoError(t, err)
	require.Equal(t, 4, d.Pairs.Sets)
	written, err := calibration.Read(path)
	require.NoError(t, err)
	require.Equal(t, d, written)
	again, err := calibration.Read(last)
	require.NoError(t, err)
	require.Equal(t, kept.ID, again.ID)

	// A calibration that cannot be kept is still in its file.
	require.NoError(t, os.RemoveAll(state))
	require.NoError(t, os.WriteFile(state, nil, 0o600))
	require.Zero(t, calibrate(c, "--quick"))
	require.Contains(t, c.Stderr, "it is not kept as the last of this machine: ")
}

func TestInterruptedCalibration(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	launches := 0
	c := &clitest.Command{T: t, Ctx: ctx, Run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		if launches++; launches == 20 {
			cancel()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return calibrated(ctx, req, obs)
	}}
	require.Equal(t, app.ExitInterrupted, calibrate(c, "--quick"))
	require.True(t, strings.HasSuffix(c.Stderr, "transportbench: interrupted\n"), c.Stderr)
	require.Empty(t, c.Stdout)

	require.NoFileExists(t, filepath.Join(c.Out, calibration.FileName))
}

func TestCalibrateMistakes(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for want, c := range map[string]*clitest.Command{
		`calibrate needs the plugin of transport calibration: there is no plugin "calibration"`: {Plugins: []string{"fake"}},
		"results directory": {Out: "/dev/null/x"},
	} {
		c.T = t
		require.Equal(t, app.ExitUsage, calibrate(c, "--quick"), want)
		require.Contains(t, c.Stderr, want)
		require.Equal(t, 1, strings.Count(c.Stderr, "\n"), c.Stderr)
	}
	c := &clitest.Command{T: t, Run: clitest.FailWith(errors.New("it crashed"))}
	require.Equal(t, app.ExitInternal, calibrate(c, "--quick"))
	require.Contains(t, c.Stderr, "pilot, after 3 attempts: it crashed")
}

// A calibration is one host's: calibrate refuses other hosts, and to run in several tasks at once.
func TestCalibrateIsOfOneHost(t *testing.T) {
	for _, c := range []struct {
		args   []string
		env    map[string]string
		stderr string
	}{
		{args: []string{"--hosts", "a,b"}, stderr: "unknown flag --hosts"},
		{env: map[string]string{"TRANSPORTBENCH_HOSTS": "a,b"},
			stderr: "calibrate measures one host: leave out the options for other hosts"},
		{env: map[string]string{"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"},
			stderr: "srun started 2 copies of this command, and calibrate measures one host: run " +
				"it once on each host\n"},
		{env: map[string]string{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3"},
			stderr: "mpirun started 3 copies of this command, and calibrate measures one host"},
	} {
		for _, name := range []string{"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE",
			"TRANSPORTBENCH_HOSTS"} {
			t.Setenv(name, c.env[name]) // else of the engine that runs this test
		}
		for name, value := range c.env {
			t.Setenv(name, value)
		}
		cmd := &clitest.Command{T: t}
		require.Equal(t, app.ExitUsage, calibrate(cmd, append([]string{"--quick"}, c.args...)...),
			cmd.Stderr)
		require.Contains(t, cmd.Stderr, c.stderr)
	}
}
