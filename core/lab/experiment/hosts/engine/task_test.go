package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindTask(t *testing.T) {
	for _, c := range []struct {
		name      string
		variables map[string]string
		want      Task
		found     bool
	}{
		{name: "none"},
		{"a step", map[string]string{"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2",
			"SLURM_NTASKS": "2"}, Task{"srun", 1, 2}, true},
		{"a batch script", map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "2"},
			Task{}, false},
		{"mpirun in an allocation", map[string]string{
			"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "SLURM_PROCID": "0",
			"SLURM_STEP_NUM_TASKS": "4",
		}, Task{"mpirun", 1, 2}, true},
		{"hydra in an allocation", map[string]string{"PMI_FD": "9", "PMI_RANK": "2",
			"PMI_SIZE": "3", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"},
			Task{"mpiexec", 2, 3}, true},
		{"no numbers", map[string]string{"PMI_RANK": "two", "PMI_SIZE": "3"}, Task{}, false},
		{"a rank beyond the size", map[string]string{"PMI_RANK": "3", "PMI_SIZE": "3"},
			Task{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			task, found := FindTask(func(name string) string { return c.variables[name] })
			require.Equal(t, c.want, task)
			require.Equal(t, c.found, found)
		})
	}
}

func TestFirstNode(t *testing.T) {
	for list, first := range map[string]string{
		"": "", "h0": "h0", "h0,h1": "h0", "h[0-1]": "h0", "h[03,05-08],a": "h03",
		"rack[1-2]n[03,05-08],login": "rack1n03", "a,h[0-1]": "a", "node-1-[2-3]": "node-1-2",
	} {
		require.Equal(t, first, FirstNode(func(string) string { return list }), list)
	}
}

// TestCancels: what srun started outside a job is a job; in a job it is a step of the user's.
func TestCancels(t *testing.T) {
	for line, names := range map[string]bool{"srun -N2": false, "srun --jobid=12 -N2": true,
		"srun --jobid 12": true, "SLURM_JOB_ID=12 srun": true} {
		require.Equal(t, names, namesJob.MatchString(line), line)
	}
	require.Equal(t, "12.0", cancels("12.0", func(string) string { return "" }, true))
	for _, c := range []struct{ step, job, own, want string }{
		{"12.0", "", "", "12"},
		{"12.0", "12", "", "12.0"},
		{"12.0", "12", "0", ""},
		{"12.0", "7", "0", "12"},
		{"", "12", "", ""},
		{"--user", "", "", ""},
	} {
		own := map[string]string{"SLURM_JOB_ID": c.job, "SLURM_STEP_ID": c.own}
		require.Equal(t, c.want, cancels(c.step, func(name string) string { return own[name] },
			false),
			c)
	}
}
