package machine

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReserveFiles(t *testing.T) {
	ReserveFiles(700)
	size, err := strconv.Atoi(fields(Root("/").Text("proc/self/status"))["FDSize"])
	require.NoError(t, err)
	require.Greater(t, size, 700)
}

func TestGroupsLimitMemoryAndTasks(t *testing.T) {
	r := tree(t, map[string]string{
		"proc/self/cgroup":               "0::/a/b\n",
		"sys/fs/cgroup/a/memory.max":     "1000\n",
		"sys/fs/cgroup/a/memory.current": "900\n",
		"sys/fs/cgroup/a/memory.stat":    "anon 500\ninactive_file 250\nactive_file 50\n",
		"sys/fs/cgroup/a/b/memory.max":   "max\n",
		"sys/fs/cgroup/a/pids.max":       "max\n",
		"sys/fs/cgroup/a/b/pids.max":     "100\n",
		"sys/fs/cgroup/a/b/pids.current": "101\n",
		"sys/fs/cgroup/other/memory.max": "1\n",
		"sys/fs/cgroup/other/pids.max":   "1\n",
		"proc/vmstat":                    "nr_free_pages 1\noom_kill 7\n",
		"proc/loadavg":                   "0.50 1.25 2.00 1/234 5678\n",
		"proc/1/status":                  "Name:\tx\nUid:\t1000\t0\t0\t0\nThreads:\t30\n",
		"proc/2/status":                  "Name:\ty\nUid:\t7\t1000\t0\t0\nThreads:\t50\n",
		"proc/3/status":                  "Name:\tz\nUid:\t1000\t0\t0\t0\nThreads:\t2\n",
		"proc/self/status":               "CapEff:\t0000000000000000\n",
	})
	require.EqualValues(t, 400, r.groupMemory(5000), "of 1000, 600 are used and not of files")
	require.EqualValues(t, 300, r.groupMemory(300), "the machine has less")
	require.Zero(t, r.groupTasks(), "the limit is exceeded")
	require.EqualValues(t, 7, r.OOMKills())
	require.EqualValues(t, 8, r.userTasks(1000, 40), "of 40, 32 are used")
	require.EqualValues(t, 1000-234, r.userTasks(1000, 1000),
		"far from the limit, all tasks of the machine are counted")
	require.EqualValues(t, uint64(Unlimited), r.userTasks(0, 40), "root has no limit")
	require.EqualValues(t, uint64(Unlimited), r.userTasks(1000, Unlimited))

	v1 := tree(t, map[string]string{
		"proc/self/cgroup": "8:pids:/\n4:memory:/job\n0::/\n",
		"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4096\n",
		"sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1000\n",
		"sys/fs/cgroup/memory/job/memory.stat": "inactive_file 1\ntotal_inactive_file " +
			"100\ntotal_active_file 4\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		"sys/fs/cgroup/pids/pids.max":                "max\n",
	})
	require.EqualValues(t, 4096-896, v1.groupMemory(1<<40))
	require.EqualValues(t, uint64(Unlimited), v1.groupTasks())

	// A process with CAP_SYS_RESOURCE has no limit either.
	capable := tree(t, map[string]string{"proc/self/status": "CapEff:\t0000000001000000\n"})
	require.EqualValues(t, uint64(Unlimited), capable.userTasks(1000, 40))
}

func TestReadLimits(t *testing.T) {
	limits := ReadLimits()
	require.Positive(t, limits.OpenFiles)
	require.Positive(t, limits.AddressSpace)
	require.Positive(t, limits.Tasks)
}
