package machine

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Limits are what the kernel grants this process and those that it starts.
type Limits struct {
	OpenFiles    uint64 // descriptors of each process
	AddressSpace uint64 // bytes of each process
	Tasks        uint64 // threads that this user, or the control group, may still start
}

// Unlimited is the value of a limit that does not exist or cannot be read.
const Unlimited = ^uint64(0)

// ReadLimits reads the limits of this process.
func ReadLimits() Limits {
	r := Root("/")
	return Limits{
		// The Go runtime raises its limit of open files to the hard one.
		OpenFiles:    resourceLimit(unix.RLIMIT_NOFILE).Max,
		AddressSpace: resourceLimit(unix.RLIMIT_AS).Cur,
		Tasks: min(r.userTasks(os.Getuid(), resourceLimit(unix.RLIMIT_NPROC).Cur),
			r.groupTasks()),
	}
}

// ReserveFiles has the kernel make room for n more descriptors at once. It otherwise enlarges the
// table in steps, and a process with several threads waits at each until no thread uses the old one
// (expand_fdtable in fs/file.c). Beside polling threads that takes seconds.
func ReserveFiles(n int) {
	const before = 64 // descriptors that a process has in any case
	fd, err := unix.FcntlInt(uintptr(unix.Stderr), unix.F_DUPFD_CLOEXEC, before+n)
	if err == nil { // else the steps are taken, or the limit is too low and the transport says so
		_ = unix.Close(fd)
	}
}

func resourceLimit(resource int) unix.Rlimit {
	limit := unix.Rlimit{Cur: Unlimited, Max: Unlimited}
	_ = unix.Getrlimit(resource, &limit)
	return limit
}

// The bits of the capabilities that lift the limit of a user's tasks.
const (
	capSysAdmin    = 21
	capSysResource = 24
)

// userTasks returns how many of limit tasks the user has left.
func (r Root) userTasks(uid int, limit uint64) uint64 {
	capabilities, _ := strconv.ParseUint(fields(r.Text("proc/self/status"))["CapEff"], 16, 64)
	if uid == 0 || limit == Unlimited || capabilities&(1<<capSysAdmin|1<<capSysResource) != 0 {
		return Unlimited
	}
	return left(limit, r.tasksOf(uid, limit))
}

// tasksOf counts the tasks of a user, or of all users if that is far below limit.
func (r Root) tasksOf(uid int, limit uint64) uint64 {
	if load := strings.Fields(r.Text("proc/loadavg")); len(load) > 3 {
		_, total, _ := strings.Cut(load[3], "/")
		if n, err := strconv.ParseUint(total, 10, 64); err == nil && n < limit/2 {
			return n
		}
	}
	count := uint64(0)
	for _, name := range r.Names("proc") {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		status := fields(r.Text("proc", name, "status"))
		if owner, _, _ := strings.Cut(status["Uid"], "\t"); owner == strconv.Itoa(uid) {
			n, _ := strconv.ParseUint(status["Threads"], 10, 64)
			count += n
		}
	}
	return count
}

// groupTasks returns how many tasks the control groups leave.
func (r Root) groupTasks() uint64 {
	tasks := uint64(Unlimited)
	for _, group := range r.groups("pids") {
		limit, err := strconv.ParseUint(r.Text(group, "pids.max"), 10, 64)
		if err != nil {
			continue // "max", or no such file
		}
		current, _ := strconv.ParseUint(r.Text(group, "pids.current"), 10, 64)
		tasks = min(tasks, left(limit, current))
	}
	return tasks
}

// groupMemory returns the memory in bytes that the control groups leave of available. A group's
// pages of files count as free: the kernel drops them before it refuses memory.
func (r Root) groupMemory(available uint64) uint64 {
	for _, group := range r.groups("memory") {
		for _, names := range [][4]string{
			{"memory.max", "memory.current", "inactive_file", "active_file"},
			{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
				"total_active_file"},
		} {
			limit, err := strconv.ParseUint(r.Text(group, names[0]), 10, 64)
			if err != nil {
				continue // "max", or no such file
			}
			used, _ := strconv.ParseUint(r.Text(group, names[1]), 10, 64)
			for line := range strings.Lines(r.Text(group, "memory.stat")) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				if name == names[2] || name == names[3] {
					n, _ := strconv.ParseUint(value, 10, 64)
					used = left(used, n)
				}
			}
			available = min(available, left(limit, used))
		}
	}
	return available
}

func left(limit, used uint64) uint64 { return limit - min(limit, used) }

// OOMKills returns how many processes the kernel has killed for lack of memory since it started, in
// the machine or in a control group.
func (r Root) OOMKills() uint64 {
	for line := range strings.Lines(r.Text("proc/vmstat")) {
		if count, found := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); found {
			n, _ := strconv.ParseUint(count, 10, 64)
			return n
		}
	}
	return 0
}
