package engine

import (
	"regexp"
	"strconv"
)

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

// FindStep returns the step of Slurm that this process belongs to, as "JOB.STEP", or "".
func FindStep(getenv func(string) string) string {
	step := getenv("SLURM_JOB_ID") + "." + getenv("SLURM_STEP_ID")
	if !IsStep(step) {
		return ""
	}
	return step
}

// FirstNode returns the first node of the step of Slurm that this process belongs to, or "". Task 0
// of the step runs there, unless srun was given "--distribution=arbitrary".
func FirstNode(getenv func(string) string) string {
	first := nodes.FindString(getenv("SLURM_STEP_NODELIST"))
	return nodeNumbers.ReplaceAllString(first, "$1")
}

var (
	// nodes matches the first nodes of a list, such as rack[1-2]n[03,05-08].
	nodes       = regexp.MustCompile(`^(?:[^,\[\]]|\[[^\]]*\])+`)
	nodeNumbers = regexp.MustCompile(`\[([^\],-]*)[^\]]*\]`)
)

var stepForm = regexp.MustCompile(`^(\d{1,10})\.\d{1,10}$`)

// IsStep reports whether text has the form of FindStep.
func IsStep(text string) bool { return stepForm.MatchString(text) }

// cancels returns what scancel has to cancel so that nothing of an agent's step is left: the job
// that srun made for it. It is the step alone if the job may be the user's own, because this
// process runs in it or the launch line names one; it is "" for no step and for this process's own.
func cancels(step string, getenv func(string) string, named bool) string {
	form := stepForm.FindStringSubmatch(step)
	switch {
	case form == nil || step == FindStep(getenv):
		return ""
	case named || form[1] == getenv("SLURM_JOB_ID"):
		return step
	}
	return form[1]
}

// namesJob matches a launch line that names the job in which srun is to run.
var namesJob = regexp.MustCompile(`--jobid\b|SLURM_JOB_?ID=`)
