package engine

import "strconv"

// Task is the place of this process among those that an engine started together.
type Task struct {
	Engine     string // "mpirun", "srun" or, for whatever has PMI-1, "mpiexec"
	Rank, Size int
}

// taskVariables lists the variables of the engines. Slurm comes last: the processes of mpirun and
// mpiexec inherit its variables from the daemons that srun started for these, and with them a wrong
// rank. A batch script of Slurm has SLURM_PROCID and SLURM_NTASKS as well; only a step has
// SLURM_STEP_NUM_TASKS.
var taskVariables = []struct{ engine, rank, size string }{
	{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
	{"mpiexec", "PMI_RANK", "PMI_SIZE"},
	{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
}

// FindTask returns the task that this process is, and false if no engine started it. getenv is
// [os.Getenv], except in tests.
func FindTask(getenv func(string) string) (Task, bool) {
	for _, v := range taskVariables {
		rank, noRank := strconv.Atoi(getenv(v.rank))
		size, noSize := strconv.Atoi(getenv(v.size))
		if noRank == nil && noSize == nil && rank >= 0 && rank < size {
			return Task{v.engine, rank, size}, true
		}
	}
	return Task{}, false
}
