package measure_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/cmd/transportbench/internal/app"
	"transportbench/cmd/transportbench/internal/clitest"
)

// Only the setup is between hosts.
func TestMicroOnHosts(t *testing.T) {
	for _, c := range []struct {
		args   []string
		env    map[string]string
		code   int
		stderr string
	}{
		{args: []string{"--hosts", "a,b"}, code: app.ExitUsage, stderr: "micro measures one " +
			"host, except with setup: leave out the options for other hosts, such as --hosts"},
		{env: map[string]string{"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"},
			code: app.ExitUsage,
			stderr: "srun started 2 copies of this command, and micro measures one host, except " +
				"with setup: run it once on each host\n"},
		{args: []string{"setup"}, env: map[string]string{"SLURM_PROCID": "1",
			"SLURM_STEP_NUM_TASKS": "2"}, code: app.ExitUsage,
			stderr: `run it once, with --launch "srun ..."`},
		{args: []string{"setup", "--hosts", "a,b", "--launch", "srun"}, code: app.ExitUsage,
			stderr: "--hosts and --launch exclude each other"},
		{args: []string{"setup", "--launch", "/nowhere/srun"}, code: app.ExitInternal,
			stderr: "srun failed: exit status 127: "},
	} {
		for _, name := range []string{"SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
			"PMI_FD", "TRANSPORTBENCH_TICKET"} {
			t.Setenv(name, c.env[name]) // else of the engine that runs this test
		}
		for name, value := range c.env {
			t.Setenv(name, value)
		}
		cmd := &clitest.Command{T: t}
		require.Equal(t, c.code,
			cmd.Execute(append([]string{"micro", "fake", "--plugin-dir",
				clitest.PluginDir(t, "fake")}, c.args...)...), cmd.Stderr)
		require.Contains(t, cmd.Stderr, c.stderr)
	}
}
