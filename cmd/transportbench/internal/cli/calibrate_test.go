package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
		StartedAt: time.Now(), Before: result.Readings{Bounce: 50},
		After: result.Readings{Bounce: 50},
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
func (c *command) calibrate(args ...string) int {
	c.Helper()
	if c.plugins == nil {
		c.plugins = []string{"calibration"}
	}
	if c.out == "" {
		c.out = filepath.Join(c.TempDir(), "made")
	}
	if c.run == nil {
		c.run = calibrated
	}
	return c.execute(append([]string{"calibrate", "--plugin-dir", pluginDir(c.T, c.plugins...),
		"--out", c.out}, args...)...)
}

func TestCalibrate(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	c := &command{T: t}
	require.Zero(t, c.calibrate("--dry-run"), c.stderr)
	require.Regexp(t, `(?m)^self +3 +2000 +6000 +14m27s$`, c.stdout)
	require.Contains(t, c.stdout, "11,143 launches, about ")
	require.Zero(t, c.calibrate("--dry-run", "--json"), c.stderr)
	var plan struct {
		Launches    int
		Expected    time.Duration `json:"expected_ns"`
		Experiments []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(c.stdout), &plan), c.stdout)
	require.Equal(t, 11143, plan.Launches)
	require.Greater(t, plan.Expected, 10*time.Minute)
	require.NotEmpty(t, plan.Experiments)
	require.Equal(t, ExitUsage, c.calibrate("--dry-run", "--resume"))
	require.Contains(t, c.stderr, "has no unfinished calibration")
	require.Equal(t, ExitUsage, c.execute("calibrate", "shwo"))
	require.Equal(t,
		"transportbench: calibrate takes no arguments, got \"shwo\"; did you mean \"show\"?\n",
		c.stderr)
	require.NoDirExists(t, c.out)
	require.Equal(t, ExitUsage, c.execute("calibrate", "show"))
	require.Contains(t, c.stderr, "has no calibration; make one with")

	require.Zero(t, c.calibrate("--quick"), c.stderr)
	require.Contains(t, c.stderr, "422 launches, about ")
	require.Contains(t, c.stderr, "self: 60 rounds, ")
	require.NotContains(t, c.stderr, "it replaces")
	require.Contains(t, c.stdout, "delay")
	path := filepath.Join(c.out, calibration.FileName)
	require.Contains(t, c.stderr, "calibration in "+path)
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
	table := c.stdout
	require.Zero(t, c.execute("calibrate", "show"), c.stderr)
	require.Equal(t, table, c.stdout)
	require.Zero(t, c.execute("calibrate", "show", filepath.Dir(path)))
	require.Zero(t, c.execute("calibrate", "show", path))
	require.Equal(t, table, c.stdout)
	require.Zero(t, c.execute("calibrate", "show", "--json", path))
	shown, err := calibration.Parse([]byte(c.stdout))
	require.NoError(t, err)
	require.Equal(t, d.ID, shown.ID)
	require.Equal(t, ExitUsage, c.execute("calibrate", "show", filepath.Join(c.out, "none")))

	// A quick one does not take the place of a full one.
	kept.Quick = false
	require.NoError(t, calibration.Write(last, kept))
	require.Zero(t, c.calibrate("--quick", "--json"))
	require.Contains(t, c.stderr, "transportbench: it replaces the calibration in "+path+"\n")
	require.Contains(t, c.stderr, "the full calibration of this machine is kept: "+last)
	_, err = calibration.Parse([]byte(c.stdout))
	require.NoError(t, err)
	again, err := calibration.Read(last)
	require.NoError(t, err)
	require.Equal(t, kept.ID, again.ID)

	// A calibration that cannot be kept is still in its file.
	require.NoError(t, os.RemoveAll(state))
	require.NoError(t, os.WriteFile(state, nil, 0o600))
	require.Zero(t, c.calibrate("--quick"))
	require.Contains(t, c.stderr, "it is not kept as the last of this machine: ")
}

func TestInterruptedCalibration(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	launches := 0
	c := &command{T: t, ctx: ctx, run: func(ctx context.Context, req runner.Request,
		obs runner.Observer) (*result.Result, error) {
		if launches++; launches == 20 {
			cancel()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return calibrated(ctx, req, obs)
	}}
	require.Equal(t, ExitInterrupted, c.calibrate("--quick"))
	require.Contains(t, c.stderr, "to continue, repeat the command with --resume --out "+c.out)
	require.True(t, strings.HasSuffix(c.stderr, "transportbench: interrupted\n"), c.stderr)
	require.Empty(t, c.stdout)

	c.ctx = t.Context()
	journal := filepath.Join(c.out, "calibration.journal")
	before, err := os.ReadFile(journal)
	require.NoError(t, err)
	require.Zero(t, c.calibrate("--quick", "--resume", "--dry-run"), c.stderr)
	require.Regexp(t, `(?m)^408 of 422 launches left, about \S+ of \S+$`, c.stdout)
	require.Zero(t, c.calibrate("--quick", "--resume", "--dry-run", "--json"), c.stderr)
	var plan struct{ Launches int }
	require.NoError(t, json.Unmarshal([]byte(c.stdout), &plan))
	require.Equal(t, 408, plan.Launches)
	require.Equal(t, ExitUsage, c.calibrate("--resume", "--dry-run"))
	require.Contains(t, c.stderr, "is a quick one, not a full one")
	after, err := os.ReadFile(journal)
	require.NoError(t, err)
	require.Equal(t, before, after)

	require.Equal(t, ExitUsage, c.calibrate("--quick"))
	require.Contains(t, c.stderr, "use --resume to continue it")
	require.Equal(t, ExitUsage, c.calibrate("--resume"))
	require.Contains(t, c.stderr, "is a quick one, not a full one; choose another --out")
	require.NotContains(t, c.stderr, "launches left")
	require.Zero(t, c.calibrate("--quick", "--resume"), c.stderr)
	require.Regexp(t, `transportbench: 408 of 422 launches left, about \S+ of \S+, in `+c.out+"\n",
		c.stderr)
	require.NotContains(t, c.stderr, "it replaces")
	require.Equal(t, 422+5+1, launches, "with the pilot, and the one that was interrupted")
	require.Equal(t, ExitUsage, c.calibrate("--quick", "--resume"))
	require.Contains(t, c.stderr, "has no unfinished calibration")
}

func TestCalibrateMistakes(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for want, c := range map[string]*command{
		`calibrate needs the plugin of transport calibration: there is no plugin "calibration"`: {plugins: []string{"fake"}},
		"results directory": {out: "/dev/null/x"},
	} {
		c.T = t
		require.Equal(t, ExitUsage, c.calibrate("--quick"), want)
		require.Contains(t, c.stderr, want)
		require.Equal(t, 1, strings.Count(c.stderr, "\n"), c.stderr)
	}
	c := &command{T: t, run: failWith(errors.New("it crashed"))}
	require.Equal(t, ExitInternal, c.calibrate("--quick"))
	require.Contains(t, c.stderr, "pilot, after 3 attempts: it crashed")
	require.NotContains(t, c.stderr, "--resume", "nothing was measured")
}

// spinning returns the processes that parent started to spin.
func spinning(t *testing.T, parent int) (pids []int) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range paths {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it ended
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) &&
			strings.Contains(string(line), "\x00"+spinName+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// spinsOn reports whether a thread of a process that may only run on one processor runs. The first
// thread may not be the one that spins, since a goroutine moves between threads until it is locked.
func spinsOn(pid, cpu int) bool {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	return slices.ContainsFunc(paths, func(path string) bool {
		status, _ := os.ReadFile(path)
		return strings.Contains(string(status), "State:\tR") &&
			strings.Contains(string(status), fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu))
	})
}

// TestSpinOn: a process spins on each processor until it is stopped.
func TestSpinOn(t *testing.T) {
	ids, err := machine.AllowedCPUs()
	require.NoError(t, err)
	var cpus []machine.CPU
	for _, id := range ids {
		cpus = append(cpus, machine.CPU{ID: id})
	}
	running, stop, err := spinOn(cpus)
	require.NoError(t, err)
	defer stop()
	pids := spinning(t, os.Getpid())
	require.Len(t, pids, len(cpus))
	for _, id := range ids {
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(pids, func(pid int) bool { return spinsOn(pid, id) })
		}, 10*time.Second, time.Millisecond, "on cpu %d", id)
	}
	require.NoError(t, running())
	stop()
	require.Empty(t, spinning(t, os.Getpid()))
	stop()
}

// TestLoadThatEnds: a process that does not start to spin, or does not go on, is noticed.
func TestLoadThatEnds(t *testing.T) {
	ids, err := machine.AllowedCPUs()
	require.NoError(t, err)
	const missing = 1 << 12
	_, _, err = spinOn([]machine.CPU{{ID: ids[0]}, {ID: missing}})
	require.ErrorContains(t, err, fmt.Sprintf("the process on cpu %d: ", missing))
	require.ErrorContains(t, err, fmt.Sprintf("pinning to cpu %d", missing))
	require.Empty(t, spinning(t, os.Getpid()), "the other one is stopped")

	running, stop, err := spinOn([]machine.CPU{{ID: ids[0]}})
	require.NoError(t, err)
	defer stop()
	require.NoError(t, running())
	pids := spinning(t, os.Getpid())
	require.Len(t, pids, 1)
	require.NoError(t, unix.Kill(pids[0], unix.SIGKILL)) // as the kernel does when memory is short
	want := fmt.Sprintf("the process that spins on cpu %d has ended", ids[0])
	require.Eventually(t, func() bool {
		err := running()
		return err != nil &&
			err.Error() == want
	}, 10*time.Second, time.Millisecond)
}

// TestKilledLoad: no process that spins survives the one that started it.
func TestKilledLoad(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, loadName)
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var pids []int
	require.Eventually(t, func() bool {
		pids = spinning(t, cmd.Process.Pid)
		return len(pids) ==
			1
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pids[0]), "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}, 10*time.Second, time.Millisecond)
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
		cmd := &command{T: t}
		require.Equal(t, ExitUsage, cmd.calibrate(append([]string{"--quick"}, c.args...)...),
			cmd.stderr)
		require.Contains(t, cmd.stderr, c.stderr)
	}
}
