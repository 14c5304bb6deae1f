package agents_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
)

func TestStartAgentsErrors(t *testing.T) {
	hostfile := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(hostfile, []byte("a\na slots=2\n"), 0o600))
	for _, c := range []struct {
		name   string
		args   []string
		env    map[string]string
		code   int
		stderr string
	}{
		{name: "two ways", args: []string{"--hosts", "a", "--launch", "srun"}, code: app.ExitUsage,
			stderr: "--hosts and --launch exclude each other: each starts the agents"},
		{name: "a host twice", args: []string{"--hosts", "a,b,a"}, code: app.ExitUsage,
			stderr: `--hosts: "a" is there twice`},
		{name: "a host of a file twice", args: []string{"--hostfile", hostfile},
			code: app.ExitUsage, stderr: `--hostfile: ` + hostfile + `: "a" is there twice`},
		{name: "no file", args: []string{"--hostfile", "/nowhere"}, code: app.ExitUsage,
			stderr: "--hostfile: /nowhere: no such file"},
		{name: "agents and ssh", args: []string{"--hosts", "a,b", "--agents", "2"},
			code: app.ExitUsage, stderr: "--agents is for --listen and --launch"},
		{name: "no way", args: []string{"--remote-command", "x"}, code: app.ExitUsage,
			stderr: "add --hosts, --launch or --listen"},
		{name: "no number", args: []string{"--listen", ":0"}, code: app.ExitUsage,
			stderr: "--listen needs the number of hosts: --agents 2"},
		{name: "remote command by hand", args: []string{"--listen", ":0", "--agents", "2",
			"--remote-command", "x"}, code: app.ExitUsage,
			stderr: "--remote-command is for --hosts, --hostfile and --launch"},
		{name: "not a ticket", args: []string{"--listen", ":0", "--agents", "2"},
			env: map[string]string{"TRANSPORTBENCH_TICKET": "hidden"}, code: app.ExitUsage,
			stderr: "TRANSPORTBENCH_TICKET: not a ticket"},
		{name: "copies of srun", env: map[string]string{"SLURM_PROCID": "1",
			"SLURM_STEP_NUM_TASKS": "2"}, code: app.ExitUsage,
			stderr: `srun started 2 copies of this command, and each would be a run of its own: run it once, with --launch "srun ..."`},
		{name: "copies of mpirun", env: map[string]string{"OMPI_COMM_WORLD_RANK": "0",
			"OMPI_COMM_WORLD_SIZE": "3"}, code: app.ExitUsage,
			stderr: `mpirun started 3 copies of this command, and each would be a run of its own: run it once, with --launch "mpirun ..."`},
		{name: "tasks without a secret", args: []string{"--secret", "none"},
			env: map[string]string{"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2",
				"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, code: app.ExitUsage,
			stderr: "leave out --secret none, or use srun --mpi=pmi2"},
		{name: "tasks without a port", args: []string{"--listen", ":0"},
			env: map[string]string{"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2",
				"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, code: app.ExitUsage,
			stderr: `--listen: ":0" has no port that every task knows`},
		{name: "one task", env: map[string]string{"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
			code: app.ExitOK},
		{name: "engine fails", args: []string{"--launch", "sh -c 'echo no nodes; exit 3'"},
			code:   app.ExitInternal,
			stderr: "sh failed: exit status 3: no nodes\n"},
		{name: "nobody joins", args: []string{"--listen", "127.0.0.1:0", "--agents", "2",
			"--join-timeout", "50ms"}, code: app.ExitInternal,
			stderr: "waiting for agents: 0 of 2 joined: not all within 50ms (--join-timeout)\n"},
		{name: "a limit and nobody to wait for", args: []string{"--join-timeout", "5s"},
			code: app.ExitUsage, stderr: "add --hosts, --launch or --listen"},
		{name: "no limit", args: []string{"--listen", ":0", "--join-timeout", "-1s"},
			code: app.ExitUsage, stderr: "--join-timeout"},
		{name: "engine ends", args: []string{"--launch", "true"}, code: app.ExitInternal,
			stderr: "true ended before the run did\n"},
		{name: "no engine", args: []string{"--launch", "/nowhere/srun"}, code: app.ExitInternal,
			stderr: "srun failed: exit status 127: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID",
				"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_FD", "TRANSPORTBENCH_TICKET"} {
				t.Setenv(name, "") // of the engine that runs this test
			}
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			cmd := &clitest.Command{T: t}
			require.Equal(t, c.code, cmd.Execute(append([]string{"run", "--transport", "fake"},
				c.args...)...), cmd.Stderr)
			require.Contains(t, cmd.Stderr, c.stderr)
			require.NotContains(t, cmd.Stderr, "hidden")
		})
	}
}

// TestTaskWaitsForOthers interrupts a task that waits for one that has failed: the launcher does
// not end it.
func TestTaskWaitsForOthers(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	launcher := os.NewFile(uintptr(pair[0]), "launcher")
	ctx, interrupt := context.WithCancel(context.Background())
	defer interrupt()
	go func() {
		for lines := bufio.NewScanner(launcher); lines.Scan(); {
			name, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "cmd="), " ")
			if name == "barrier_in" {
				interrupt()
				continue
			}
			fmt.Fprintln(launcher, map[string]string{
				"init":           "cmd=response_to_init rc=0",
				"get_maxes":      "cmd=maxes vallen_max=1024",
				"get_my_kvsname": "cmd=my_kvsname kvsname=job",
			}[name])
		}
	}()
	for name, value := range map[string]string{"OMPI_COMM_WORLD_SIZE": "",
		"PMI_FD": strconv.Itoa(pair[1]), "PMI_RANK": "1", "PMI_SIZE": "2"} {
		t.Setenv(name, value)
	}
	cmd := &clitest.Command{T: t, Ctx: ctx}
	require.Equal(t, app.ExitInterrupted, cmd.Execute("run", "--transport", "fake"), cmd.Stderr)
	require.Equal(t, "transportbench: interrupted\n", cmd.Stderr)
	require.NoError(t, launcher.Close())
}
